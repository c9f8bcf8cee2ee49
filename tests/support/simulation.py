"""What the simulations of error rates share."""

import numpy as np

from analysis.stats.comparisons import Rule, verdicts
from analysis.stats.differences import paired_differences

MARGIN, ALPHA, SD = 0.01, 0.05, 0.006
NEVER = 1e-9  # a margin within which nothing is shown to lie


def at_most(rate: float, hits: np.ndarray) -> bool:
    """Whether the share of hits is compatible with a true rate of at most `rate`: within three standard errors."""
    return bool(hits.mean() <= rate + 3 * np.sqrt(rate * (1 - rate) / hits.size))


def all_pairs(runs: np.ndarray) -> np.ndarray:
    """Differences (studies, pairs, seeds) of every pair of variants in runs (studies, variants, seeds)."""
    first, second = np.triu_indices(runs.shape[1], 1)
    return runs[:, first] - runs[:, second]


def signs(diffs: np.ndarray, rule: Rule) -> np.ndarray:
    """The verdicts (..., family) by the paired t tests of diffs (..., family, seeds) at each look so far."""
    return verdicts([paired_differences(diffs[..., :n], rule.floor) for n in rule.looks.reached], rule)[2]
