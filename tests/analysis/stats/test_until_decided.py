"""Variants that get seeds until they are decided: false statements over all looks, and the runs that this saves."""

import numpy as np
import pytest
from simulation import ALPHA, at_most

from analysis.stats import Looks, Rule
from analysis.stats.comparisons import verdicts
from analysis.stats.differences import differences

PLAN, MARGIN = (5, 8, 12, 20), 2.0  # margin: in standard deviations of a run
EIGHT = np.ones(8)
SAVED = 0.25


def until_decided(runs: np.ndarray, with_every: bool) -> tuple[np.ndarray, np.ndarray]:
    """The last verdicts (studies, pairs) as `verdicts` gives them, and the seeds (studies, variants).

    A variant of runs (studies, variants, seeds) stops at the look that decides its pair with the first, or every pair.
    """
    second, first = np.triu_indices(runs.shape[1], 1)
    seeds, at_looks = np.full(runs.shape[:2], PLAN[-1]), []
    needed = (second == 0) | with_every
    for n in PLAN:
        now = differences(np.where(np.arange(n) < seeds[..., None], runs[..., :n], np.nan), first, second)
        stopped = np.minimum(seeds[:, first], seeds[:, second]) < n
        now.error[np.broadcast_to(stopped[:, None], now.error.shape)] = np.nan
        at_looks.append(now)
        found = verdicts(at_looks, Rule(MARGIN, looks=Looks(PLAN, tuple(range(n)))))[2]
        waiting = np.isnan(found) & needed
        left = np.stack([waiting[:, (first == v) | (second == v)].any(axis=1) for v in range(runs.shape[1])], axis=1)
        left[:, 0] |= left[:, 1:].any(axis=1)
        seeds = np.where(left, seeds, np.minimum(seeds, n))
    return found, seeds


@pytest.mark.parametrize(
    ("means", "spreads", "saved"),
    [
        ([0, 0], [1, 3], 0),
        ([0, 0, 0, 0], [3, 1, 1, 1], 0),
        (np.zeros(8), EIGHT, SAVED),  # all equal within the margin
        ([0, -5, 0, 0, 0, 0, 0, 0], EIGHT, SAVED),  # one is worse
        (3 * np.arange(8), EIGHT, 0.7),  # all are different
        ([0, 0, 0, MARGIN, MARGIN, MARGIN, 20, 20], EIGHT, SAVED),
    ],
)
def test_false_statements_over_all_looks_and_saved_runs(means, spreads, saved):
    means, spreads = np.array(means, dtype=float), np.array(spreads, dtype=float)
    second, first = np.triu_indices(len(means), 1)
    true = means[first] - means[second]
    runs = np.random.default_rng(len(means)).normal(means[:, None], spreads[:, None], (400, len(means), PLAN[-1]))
    for with_every in (False, True):
        found, seeds = until_decided(runs, with_every)
        false = np.where(found == 0, np.abs(true) >= MARGIN, np.isfinite(found) & (found != np.sign(true)))
        assert at_most(ALPHA, false.any(axis=1))
        assert with_every or 1 - seeds.mean() / PLAN[-1] >= saved
