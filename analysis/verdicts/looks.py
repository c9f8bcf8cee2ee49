"""Tests at each of several planned numbers of seeds (group-sequential tests).

Testing again and again at the same level finds false differences in more studies than the level says. Here the planned
looks share it: each has its own, smaller level of significance. A look at a share t of the final number of seeds may
have spent alpha t^3, so early looks get little, and the last one is nearly as strict as a single test. Spending of the
O'Brien-Fleming type leaves next to nothing to a first look at a quarter of the seeds (0.0015 % of 5 %, here 0.08 %). Of
20 seeds, studies that stop decided variants save 22 % of the runs of eight equal variants with a margin of two standard
deviations. Skewed values have more false verdicts over several looks than in one test, and the more so the more early
looks get.

`levels` gives the level of each look. A pair is judged by the interval of its last look only, at that look's level.
`sequential_p` turns the p-value of a look into the smallest overall level at which that look rejects, so it is at most
the level where the interval of the look leaves zero out.

The levels are those of two-sided tests of a normal mean. For t tests, each p-value is compared with the same level,
which is an approximation: in simulations the overall rate at 5 % is 5.1 % for looks at 5, 10 and 20 seeds, 5.2 % at 5
and 10 and at 5, 8, 12 and 20, 5.4 % at 3 and 5, and 5.9 % at 2, 3, 4 and 5. For one-sided tests the levels are slightly
conservative.

Sources: Kim and DeMets, Biometrika 74 (1987), 149-154; Jennison and Turnbull, Group Sequential Methods (2000), chapters
7 (spending), 3.8 (t tests), 9 (repeated confidence intervals) and 19 (integration); Liu and Anderson, J. American
Statistical Association 103 (2008), 1621-1630 (sequential p-values).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.verdicts.estimates import ALPHA

if TYPE_CHECKING:
    from scipy import interpolate

FURTHEST = 38.0  # standard errors from which a probability is below the smallest floating-point number
WIDEST = 8.0  # standard errors beyond which the studies that continue have no probability to speak of
MOST_NODES = 1024
GRID = np.linspace(0.02, 7.2, 73)
"""Bounds of a single two-sided test at which the levels are tabulated: from 98 % to 6e-13."""


@dataclass(frozen=True)
class Looks:
    """The looks that a study plans, and how far it has come. Without a plan (`NO_PLAN`, false) all seeds are one look.

    Tests use the seeds of the last planned look that is reached: one for whose seeds all runs have ended. Seeds beyond
    it are not tested before the next planned look, and never after the last one.
    """

    plan: tuple[int, ...] = ()  # the planned numbers of seeds
    complete: tuple[int, ...] = ()  # the seeds of which all runs have ended, in the planned order
    stopped: Mapping[str, int] = field(default_factory=dict)
    """variant -> the look after which it got no more seeds; later looks would test it on the same data"""

    def __bool__(self) -> bool:
        return bool(self.plan)

    @property
    def reached(self) -> tuple[int | None, ...]:
        """The numbers of seeds of the looks so far, before the first one that of the first; None: all seeds."""
        return tuple(n for n in self.plan if n <= len(self.complete)) or self.plan[:1] or (None,)

    @property
    def next(self) -> int | None:
        """The number of seeds of the next look; None where there is none."""
        return next((n for n in self.plan if n > len(self.complete)), None)

    @property
    def waiting(self) -> bool:
        """Whether nothing may be tested yet: the first look is not reached."""
        return self.next is not None and self.next == self.plan[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the look that is reached; empty without a plan."""
        return () if self.waiting or not self.plan else self.complete[: self.reached[-1]]

    def of(self, variants: Iterable[str]) -> "Looks":
        """The looks that all of these variants have reached."""
        ends = [self.stopped[variant] for variant in variants if variant in self.stopped]
        return replace(self, complete=self.complete[: min(ends)]) if ends else self

    def may_test(self, seed: int) -> bool:
        """Whether tests may use this seed."""
        return not self.plan or seed in self.seeds

    def limit(self, values: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
        """The values (variant -> seed -> value) that may be tested, at the last look of each variant.

        NaN for the seeds of a look that lack one.
        """
        seeds = {variant: self.of([variant]).seeds if self.plan else runs for variant, runs in values.items()}
        return {variant: {seed: values[variant].get(seed, math.nan) for seed in seeds[variant]} for variant in values}

    def level(self, alpha: float = ALPHA) -> float:
        """The level of the current look, for an overall level `alpha`."""
        return levels(self.plan, alpha)[len(self.reached) - 1] if self.plan else alpha

    @property
    def confidence(self) -> float:
        """The confidence level of an interval of differences: it is wider where several looks share `ALPHA`."""
        return 1 - self.level()


NO_PLAN = Looks()


@lru_cache(maxsize=4096)
def levels(looks: tuple[int, ...], alpha: float = ALPHA) -> tuple[float, ...]:
    """The two-sided level of significance of each look; `looks` are the planned numbers of seeds, rising from 2 on."""
    return tuple((2 * special.ndtr(-_bounds(looks, np.array([alpha]))[:, 0])).tolist())


def sequential_p(p: ArrayLike, look: int, looks: tuple[int, ...]) -> np.ndarray:
    """The smallest overall level at which the look with this number (from 0) rejects, elementwise; at least `p`."""
    p = np.asarray(p, dtype=float)
    if len(looks) < 2:
        return p
    inverse = _inverse(looks)[look]
    lowest, highest = inverse.x[0], inverse.x[-1]
    bound = np.clip(-special.ndtri(p / 2), lowest, highest)
    overall = 2 * special.ndtr(-inverse(bound))
    return np.maximum(np.where(bound <= lowest, 1.0, overall), p)


def repeated_rate(looks: Sequence[int]) -> float:
    """How often tests at `ALPHA`, one at each of these numbers of seeds, find a difference where there is none."""
    information = [n / looks[-1] for n in looks]
    return float(sum(crossing_probabilities(information, [-special.ndtri(ALPHA / 2)] * len(looks))))


def crossing_probabilities(information: Sequence[float], bounds: Sequence[float]) -> Iterator[float]:
    """Without a true difference, the probability of |z| at or beyond its bound for the first time, at each look."""
    walk = _Walk(np.asarray(information))
    for look, bound in enumerate(bounds):
        at = np.array([bound])
        yield float(walk.crossing(look, at)[0])
        walk.stop_beyond(look, at)


@lru_cache(maxsize=16)
def _inverse(looks: tuple[int, ...]) -> "list[interpolate.PchipInterpolator]":
    """For each look, the bound of a single test that has the same overall level as a bound of this look."""
    from scipy import interpolate  # slow to import; most studies plan no looks

    bounds = _bounds(looks, 2 * special.ndtr(-GRID))
    rising = np.maximum.accumulate(bounds, axis=1) + 1e-12 * np.arange(len(GRID))
    return [interpolate.PchipInterpolator(row, GRID) for row in rising]


def _bounds(looks: tuple[int, ...], alphas: np.ndarray) -> np.ndarray:
    """The bounds (looks, alphas) that spend each alpha."""
    information = np.asarray(looks, dtype=float) / looks[-1]
    spent = np.diff(alphas * information[:, None] ** 3, prepend=0.0, axis=0)
    walk, bounds = _Walk(information), []
    for look, wanted in enumerate(spent):
        low, high = np.zeros(len(alphas)), np.full(len(alphas), FURTHEST)
        for _ in range(60):
            middle = (low + high) / 2
            beyond = walk.crossing(look, middle) > wanted
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        bounds.append(high)
        walk.stop_beyond(look, high)
    return np.array(bounds)


class _Walk:
    """The score z sqrt(information) of studies that have not stopped: a random walk, as a density on nodes.

    Several walks with different bounds are computed at once, one for each row.
    """

    def __init__(self, information: np.ndarray) -> None:
        self.scale = np.sqrt(information)
        self.step = np.sqrt(np.diff(information, prepend=0.0))
        self.nodes, self.mass = np.zeros((1, 1)), np.ones((1, 1))
        self.rule = _legendre(int(np.clip(8 * WIDEST / self.step.min(), 128, MOST_NODES)))

    def crossing(self, look: int, bounds: np.ndarray) -> np.ndarray:
        """The probability of |z| at or beyond `bounds` (rows,) at this look, without having stopped before."""
        edges = bounds[:, None] * self.scale[look]
        tails = special.ndtr((self.nodes - edges) / self.step[look])
        tails += special.ndtr((-self.nodes - edges) / self.step[look])
        return (self.mass * tails).sum(axis=1)

    def stop_beyond(self, look: int, bounds: np.ndarray) -> None:
        """Keep the studies with |z| below `bounds` (rows,) at this look."""
        edges = np.minimum(bounds, WIDEST)[:, None] * self.scale[look]
        nodes, weights = (edges * part for part in self.rule)
        before, mass = (np.broadcast_to(part, (len(bounds), part.shape[1])) for part in (self.nodes, self.mass))
        scale = self.step[look] * np.sqrt(2 * np.pi)
        kernels = (np.exp(-(((to[:, None] - of) / self.step[look]) ** 2) / 2) for to, of in zip(nodes, before))
        self.mass = weights * np.array([kernel @ row for kernel, row in zip(kernels, mass)]) / scale
        self.nodes = nodes


@lru_cache(maxsize=8)
def _legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(nodes)
