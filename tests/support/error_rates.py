"""Simulated studies of known truth: how often the one interval of each difference is wrong, and what it finds.

Differences do not depend on the means of variants, so runs are drawn with a mean of 0 and the truth is set afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.verdicts.differences import Differences, differences
from analysis.verdicts.estimates import ALPHA
from analysis.verdicts.looks import Looks

VARIANTS, SEEDS = (2, 3, 4, 8, 18), (3, 5, 10)
SCENARIOS = ("equal", "one x3", "half x0.2", "correlated", "t3", "missing", "stopped", "skewed")
PLANS = ((3, 5), (5, 8, 12, 20))
SHIFT = {3: 5.0, 5: 2.5, 10: 1.5, 20: 1.5}
"""seeds -> the true difference for power, in standard deviations of a run"""


def runs(scenario: str, variants: int, seeds: int, studies: int, seed: int = 0) -> np.ndarray:
    """Runs (studies, variants, seeds) with a mean of 0 and a standard deviation of 1 but for what the scenario says."""
    rng = np.random.default_rng([SCENARIOS.index(scenario), variants, seeds, seed])
    x = rng.normal(size=(studies, variants, seeds))
    if scenario == "one x3":
        x[:, 0] *= 3
    elif scenario == "half x0.2":
        x[:, : variants // 2] *= 0.2
    elif scenario == "correlated":
        x = np.sqrt(0.5) * (x + rng.normal(size=(studies, 1, seeds)))
    elif scenario == "t3":
        x = rng.standard_t(3, size=x.shape) / np.sqrt(3)
    elif scenario == "missing":
        x[:, 0] = np.where(rng.random((studies, seeds)) < 0.3, np.nan, x[:, 0])
    elif scenario == "stopped":
        x[:, : max(variants // 4, 1), max(seeds // 2, 2) :] = np.nan
    elif scenario == "skewed":
        x[:, 0] = 1 - rng.exponential(size=(studies, seeds))
    return x


@dataclass(frozen=True)
class Rates:
    """Per study (studies,): whether it has a false difference, a false equivalence. `power`: of differing pairs."""

    difference: np.ndarray
    """all variants are equal; so this is also whether any interval of the study misses the truth"""
    equivalence: np.ndarray
    """half of the variants are a margin above the others"""
    power: float


def rates(x: np.ndarray, plan: tuple[int, ...] = (), shift: float | None = None) -> Rates:
    """The rates of studies x (studies, variants, seeds), over all looks of the plan; power is that of the last look."""
    first, second = np.array([(b, a) for a in range(x.shape[1]) for b in range(a + 1, x.shape[1])]).T
    half = x.shape[1] // 2
    apart = (first >= half) & (second < half)  # where the truth is a margin, of which first has more
    wrong, low = np.zeros(len(x), bool), np.zeros(len(x), bool)
    for n in plan or (x.shape[-1],):
        looks = Looks(plan, tuple(range(n)))
        now = differences(x[..., :n], first, second)
        missed = now.t_test() <= _levels(now, looks)[:, None]
        wrong |= missed.any(axis=-1)
        low |= (missed & apart & (now.mean < 0)).any(axis=-1)  # the interval lies below the truth
    true = np.where(apart, SHIFT[x.shape[-1]] if shift is None else shift, 0.0)
    found = (now.t_test(-true) <= _levels(now, looks)[:, None]) & (now.mean + true > 0)
    return Rates(wrong, low, float(np.mean(found[:, apart])))


def _levels(found: Differences, looks: Looks) -> np.ndarray:
    """The level of each test of a study (studies,): Bonferroni's for its pairs, at the level of the look."""
    pairs, place = np.unique(np.maximum(found.known.sum(axis=-1), 1), return_inverse=True)
    return np.array([looks.level(ALPHA / number) for number in pairs.tolist()])[place]


def cells() -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """Scenario, variants, seeds and planned looks of each cell."""
    for variants in VARIANTS:
        for scenario in SCENARIOS:
            for seeds in SEEDS:
                yield scenario, variants, seeds, ()
            for plan in PLANS:
                yield scenario, variants, plan[-1], plan
