"""Simulated studies of known truth: how often the one interval of each difference is wrong, and what it finds.

Differences do not depend on the means of variants, so runs are drawn with a mean of 0 and the truth is set afterwards.
`python tests/support/error_rates.py [NUMBER] [SEED]` draws so many cells and prints the worst rates of each kind.
"""

import math
import random
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from analysis.verdicts.comparisons import FEW_SEEDS
from analysis.verdicts.differences import Differences, differences
from analysis.verdicts.estimates import ALPHA
from analysis.verdicts.looks import Looks

SPREADS = {
    "equal": lambda n: np.ones(n),
    "one x3": lambda n: np.where(np.arange(n) == 0, 3, 1),
    "one x5": lambda n: np.where(np.arange(n) == 0, 5, 1),
    "one x0.2": lambda n: np.where(np.arange(n) == 0, 0.2, 1),
    "one x10": lambda n: np.where(np.arange(n) == 0, 10, 1),
    "half x0.2": lambda n: np.where(np.arange(n) < n // 2, 0.2, 1),
    "half x0.05": lambda n: np.where(np.arange(n) < n // 2, 0.05, 1),
    "graded": lambda n: np.geomspace(1, 4, n),
}
"""Kind -> the standard deviations of the runs of n variants."""
OTHER = ("log-normal", "correlated 0.5", "correlated -0.5", "t3", "missing 0.2", "missing 0.3", "stopped", "skewed")
GROUPS = ("two groups", "opposite groups")
"""Half of the variants share one effect of a seed (correlation 0.9), the others another one, or its opposite."""
UNPAIRED = ("equal", "one x3", "half x0.2", "log-normal", "t3", "unequal n")
"""The kinds for runs without seeds. In the last, the first variant has half of the runs of the others, at least two."""
FEW_RUNS = ("first 2", "first 3, x3", "others 3", "others 3, x3")
"""More kinds for runs without seeds: the first variant, or all others, have so many; the first has the spread."""
KINDS = (*SPREADS, *OTHER, *GROUPS)
NOT_COVERED = ("skewed x3", "collapse")
"""Kinds for which the levels do not hold, and which the guide names."""
PLANS = ((3, 5), (5, 8, 12, 20))
SHIFT = {2: 12.0, 3: 5.0, 5: 2.5, 10: 1.5, 20: 1.5}
"""seeds -> the true difference for power, in standard deviations of a run"""


@dataclass(frozen=True)
class Cell:
    """Studies of one kind. `datasets`: a page shows that many of them, and all its pairs are one family. `unpaired`:
    runs have no seeds.
    """

    kind: str
    variants: int
    seeds: int
    plan: tuple[int, ...] = ()
    family: Literal["all", "baseline"] = "all"
    datasets: int = 1
    unpaired: bool = False

    def __str__(self) -> str:
        more = [f"looks {self.plan}"] * bool(self.plan) + ["baseline"] * (self.family == "baseline")
        more += ["unpaired"] * self.unpaired
        return ", ".join([self.kind, f"V {self.variants}", f"n {self.seeds}", *more, *self._datasets])

    @property
    def _datasets(self) -> list[str]:
        return [f"D {self.datasets}"] * (self.datasets > 1)

    @property
    def pairs(self) -> np.ndarray:
        """The variants of each pair (2, pairs): the second is subtracted from the first."""
        seconds = range(1 if self.family == "baseline" else self.variants)
        return np.array([(b, a) for a in seconds for b in range(a + 1, self.variants)]).T

    def runs(self, studies: int, seed: int = 0) -> np.ndarray:
        """Runs (studies x datasets, variants, seeds) with a mean of 0; their standard deviation is 1 or as the kind
        says.
        """
        kinds = (*KINDS, *NOT_COVERED, "unequal n", *FEW_RUNS)
        rng = np.random.default_rng([kinds.index(self.kind), self.variants, self.seeds, seed])
        x = rng.normal(size=(studies * self.datasets, self.variants, self.seeds))
        one_seed = rng.normal(size=(len(x), 1, self.seeds))
        if self.kind in SPREADS:
            x *= SPREADS[self.kind](self.variants)[:, None]
        elif self.kind == "log-normal":
            x *= np.exp(0.5 * rng.normal(size=(len(x), self.variants, 1)))
        elif self.kind.startswith("correlated"):
            sign = np.where(np.arange(self.variants) == 0, np.sign(float(self.kind.split()[1])), 1)
            x = np.sqrt(0.5) * (x + sign[:, None] * one_seed)
        elif self.kind in GROUPS:
            second = -one_seed if self.kind == "opposite groups" else rng.normal(size=one_seed.shape)
            group = (np.arange(self.variants) < self.variants / 2)[:, None]
            x = np.sqrt(0.1) * x + np.sqrt(0.9) * np.where(group, one_seed, second)
        elif self.kind == "t3":
            x = rng.standard_t(3, size=x.shape) / np.sqrt(3)
        elif self.kind.startswith("missing"):
            x[rng.random(x.shape) < float(self.kind.split()[1])] = np.nan
        elif self.kind in FEW_RUNS:
            who, number = self.kind.replace(",", "").split()[:2]
            x[:, 0] *= 3 if self.kind.endswith("x3") else 1
            x[:, : 1 if who == "first" else None, int(number) :][:, who == "others" :] = np.nan
        elif self.kind == "unequal n":
            x[:, 0, max(self.seeds // 2, 2) :] = np.nan
        elif self.kind == "stopped":
            x[:, : max(self.variants // 4, 1), max(self.seeds // 2, 2) :] = np.nan
        elif self.kind.startswith("skewed"):
            x[:, 0] = (3 if self.kind.endswith("x3") else 1) * (1 - rng.exponential(size=x[:, 0].shape))
        elif self.kind == "collapse":  # of one run in ten of a variant, by 40 standard deviations
            x[:, 0] += 4 - 40 * (rng.random(x[:, 0].shape) < 0.1)
        return x


@dataclass(frozen=True)
class Rates:
    """Per page (studies,): whether it has a false difference, a false equivalence. `power`: of differing pairs."""

    difference: np.ndarray
    """all variants are equal; so this is also whether any interval of the page misses the truth"""
    equivalence: np.ndarray
    """half of the variants are a margin above the others"""
    too_many: np.ndarray
    """they are above by `shift`, on half of the datasets, and a pair is shown to differ on more of them"""
    power: float


def rates(cell: Cell, studies: int, x: np.ndarray | None = None, shift: float | None = None) -> Rates:
    """The rates of the cell's studies, over all looks of its plan; power is that of the last look.

    `x`: other runs than those of the cell.
    """
    x, variance = cell.runs(studies) if x is None else x, "unpaired" if cell.unpaired else "shared"
    first, second = cell.pairs
    half = max(cell.variants // 2, 1) if cell.family == "all" else 1
    apart = (first >= half) & (second < half)  # where the truth is a margin, of which first has more
    wrong, low = np.zeros(len(x), bool), np.zeros(len(x), bool)
    for n in cell.plan or (cell.seeds,):
        now = differences(x[..., :n], first, second, variance=variance)
        missed = now.t_test() <= _levels(now, cell, n)
        wrong |= missed.any(axis=-1)
        low |= (missed & apart & (now.mean < 0)).any(axis=-1)  # the interval lies below the truth
    true = np.where(apart, SHIFT[cell.seeds] if shift is None else shift, 0.0)
    levels = _levels(now, cell, cell.seeds)
    found = (now.t_test(-true) <= levels) & (now.mean + true > 0)
    beyond = (now.t_test() <= levels) & (now.mean > 0)
    pages = (-1, cell.datasets)
    differs = np.arange(len(x)) % cell.datasets < cell.datasets / 2
    shown = np.where(differs[:, None], found, beyond)[:, apart].reshape(*pages, apart.sum()).sum(axis=1)
    too_many = (shown > math.ceil(cell.datasets / 2)).any(axis=-1)
    wrong, low = (by_study.reshape(pages).any(axis=-1) for by_study in (wrong, low))
    return Rates(wrong, low, too_many, float(np.mean(found[:, apart])))


def ranks_hold(cell: Cell, means: ArrayLike, studies: int) -> np.ndarray:
    """Whether the ranks of all variants hold at once (studies,), where the variants have these true means."""
    x, means = cell.runs(studies), np.asarray(means)
    first, second = cell.pairs
    now = differences(x + means[:, None], first, second)
    shown, sign = now.t_test() <= _levels(now, cell, cell.seeds), np.sign(now.mean)
    better = np.zeros((len(x), cell.variants, cell.variants), bool)
    better[:, first, second], better[:, second, first] = shown & (sign > 0), shown & (sign < 0)
    best, worst = 1 + better.sum(axis=-2), cell.variants - better.sum(axis=-1)
    truly = means[:, None] > means
    return ((best <= 1 + truly.sum(axis=0)) & (worst >= cell.variants - truly.sum(axis=1))).all(axis=-1)


def _levels(found: Differences, cell: Cell, n: int) -> np.ndarray:
    """The level of each test (studies, pairs): Bonferroni's for the pairs of a page, at the level of the look."""
    tests = np.broadcast_to(np.maximum(np.isfinite(found.error).sum(axis=-1, keepdims=True), 1), found.n.shape)
    if cell.family == "baseline":
        tests = np.where(found.n < FEW_SEEDS, math.comb(cell.variants, 2), tests)
    return ALPHA * Looks(cell.plan, tuple(range(n))).share / (cell.datasets * tests)


def drawn(number: int, seed: int = 0) -> list[Cell]:
    """Cells drawn at random, each kind in turn."""
    chance, cells = random.Random(seed), list[Cell]()
    kinds = [(kind, False) for kind in KINDS] + [(kind, True) for kind in (*UNPAIRED, *FEW_RUNS)]
    for place in range(number):
        kind, unpaired = kinds[place % len(kinds)]
        variants = chance.choice((3, 4) if kind in FEW_RUNS else (2, 3, 4, 8, 22))
        seeds = 10 if kind in FEW_RUNS else chance.choice((2, 3, 5, 10))
        plan = chance.choice(((), (), *PLANS)) if seeds >= 3 and not unpaired else ()
        family = chance.choice(("all", "all", "baseline")) if not unpaired else "all"
        datasets = chance.choice((1, 1, 1, 3, 5, 10)) if family == "all" and not unpaired and variants < 22 else 1
        cells.append(Cell(kind, variants, plan[-1] if plan else seeds, plan, family, datasets, unpaired))
    return cells


if __name__ == "__main__":
    number, seed = (int(word) for word in [*sys.argv[1:], "200", "0"][:2])
    worst = dict[tuple[str, bool], list[tuple[float, float, Cell]]]()
    for cell in drawn(number, seed):
        of = rates(cell, 3000)
        found = 100 * float(np.mean(of.difference)), 100 * float(np.mean(of.equivalence)), cell
        worst.setdefault((cell.kind, cell.datasets > 1), []).append(found)
    for (kind, pages), errors in worst.items():
        (difference, _, where), equivalence = max(errors, key=lambda one: one[0]), max(one[1] for one in errors)
        name = f"{kind}{', several datasets' * pages} ({len(errors)} cells)"
        print(f"{name}: false difference {difference:.1f} % ({where}), false equivalence {equivalence:.1f} %")
