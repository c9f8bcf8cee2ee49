"""Variants that get seeds until they are decided: false statements over all looks, and the runs that this saves."""

import numpy as np
import pytest
from simulation import ALPHA, at_most

from analysis.verdicts.comparisons import Rule, compare
from analysis.verdicts.looks import Looks


@pytest.mark.parametrize(("means", "spreads", "saved"), [
    ([0, 0], [1, 3], 0),
    ([0, 0, 0, 0], [3, 1, 1, 1], 0),
    ([0, 0, 0, 0, 0, 0, 0, 0], [1] * 8, 0.2),  # all equal within the margin
    ([0, -5, 0, 0, 0, 0, 0, 0], [1] * 8, 0.2),  # one is worse
    ([0, 3, 6, 9, 12, 15, 18, 21], [1] * 8, 0.65),  # all are different
    ([0, 0, 0, 2, 2, 2, 20, 20], [1] * 8, 0.2),
])  # fmt: skip
def test_variants_that_stop_once_decided_have_few_false_verdicts_and_save_runs(means, spreads, saved):
    """A variant stops at the look that decides its pair with the first; the margin is 2 standard deviations."""
    plan, rng, variants = (5, 8, 12, 20), np.random.default_rng(len(means)), len(means)
    false, seeds = [], []
    pairs = [(f"v{b}", f"v{a}") for a in range(variants) for b in range(a + 1, variants)]
    for _ in range(30):
        draws = np.array(means)[:, None] + np.array(spreads)[:, None] * rng.normal(size=(variants, plan[-1]))
        stopped: dict[str, int] = {}
        for n in plan:
            rule = Rule(2.0, looks=Looks(plan, tuple(range(n)), dict(stopped)))
            values = {f"v{i}": dict(enumerate(row[: stopped.get(f"v{i}", n)])) for i, row in enumerate(draws)}
            compared = compare(values, pairs, rule)
            open_ = {a for (a, b), one in compared.items() if b == "v0" and one.verdict == "not shown"}
            stopped |= {f"v{i}": n for i in range(1, variants) if f"v{i}" not in open_ and f"v{i}" not in stopped}
            if not open_:
                stopped.setdefault("v0", n)
                break
        true = {(a, b): means[int(a[1:])] - means[int(b[1:])] for a, b in pairs}
        false.append(any(
            abs(true[pair]) >= 2 if one.verdict == "equivalent" else
            (one.verdict != "not shown" and (one.verdict == "better") != (true[pair] > 0)) or
            (one.verdict in ("better", "worse") and true[pair] == 0)
            for pair, one in compared.items()
        ))  # fmt: skip
        seeds += [stopped.get(f"v{i}", plan[-1]) for i in range(variants)]
    assert at_most(ALPHA, np.array(false)) and 1 - np.mean(seeds) / plan[-1] >= saved
