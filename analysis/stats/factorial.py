"""Studies of several factors: main effects, contrasts and two-way interactions, each tested over the seeds.

Every effect is a weighted sum of a seed's cells (a cell is one combination of levels). It is computed once for each seed,
from the complete grid of that seed, and its mean is tested by Student's t over the seeds. So the error of an effect is
its own variation between seeds, which includes factor x seed variation; a pooled residual would leave that out. Cells
may scatter differently.

A term (a factor or an interaction) is tested by the smallest Holm-adjusted p of its contrasts: the pairs of levels of a
factor, or the cell effects of an interaction. This needs no estimate of a covariance matrix, for which few seeds do not
suffice. The terms are Holm-adjusted in turn. Interactions of three and more factors are not tested.

`factorial_grid` chooses the runs that are used.
"""

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.stats.estimates import RELATIVE_ROUNDING, Estimate, mean, moments, t_interval
from analysis.stats.factorial_grid import Cell, Gaps, Level, cell_values, finite_runs, grid_used
from analysis.stats.holm import holm
from analysis.stats.looks import Looks
from analysis.stats.student import t_test
from experiments.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.metric import Metric

Term = tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """One level of a factor, or one cell of two factors: its marginal mean, and what it adds to its parts."""

    term: Term
    levels: tuple
    mean: Estimate
    """marginal mean, in which every combination of the other factors has the same weight; for a single cell, the mean of
    all its runs"""
    effect: Estimate
    """one factor: mean - grand mean; two factors: what the cell has beyond its row's and its column's effects"""
    p: float
    p_holm: float
    """adjusted over the levels (cells) of the term, and at least the term's"""


@dataclass(frozen=True)
class Contrast:
    """The marginal mean of one level minus that of another."""

    factor: str
    high: Level
    low: Level
    diff: Estimate
    p: float
    p_holm: float
    """adjusted over the pairs of levels of the factor, and at least the factor's"""


@dataclass(frozen=True)
class SimpleEffect:
    """The effect of one factor at one level of another: a level minus the first level, both at this level of `other`."""

    factor: str
    high: Level
    low: Level
    other: str
    at: Level
    diff: Estimate


@dataclass(frozen=True)
class TermTest:
    """Whether a factor or an interaction has any effect."""

    term: Term
    contrasts: int
    """contrasts tested"""
    p: float
    """the smallest Holm-adjusted p of the contrasts"""
    p_holm: float
    """the same, adjusted over the terms"""


@dataclass(frozen=True)
class Factorial:
    """The effects of a study of several factors."""

    metric: "Metric"
    factors: tuple[str, ...]
    levels: dict[str, tuple]
    """factor -> the levels of the grid used"""
    seeds: tuple
    """seeds used"""
    n: int
    """runs used"""
    effects: tuple[Effect, ...]
    contrasts: tuple[Contrast, ...]
    simple: tuple[SimpleEffect, ...]
    """for every pair of factors, the effects of the first one at each level of the second"""
    terms: tuple[TermTest, ...]
    gaps: Gaps

    def tested(self) -> dict[Term, float]:
        """Each factor and interaction with its adjusted p."""
        return {test.term: test.p_holm for test in self.terms}

    def of(self, *term: str) -> tuple[Effect, ...]:
        """The effects of one factor, or of an interaction of two, in the order of the levels."""
        return tuple(effect for effect in self.effects if effect.term == term)


def factorial(
    frame: "pd.DataFrame",
    metric: "Metric",
    factors: list[str],
    level: float = 0.95,
    floor: float = 0.0,
    families: int = 1,
    looks: Looks | None = None,
) -> Factorial:
    """Main effects, contrasts and two-way interactions of `factors` on `metric`; intervals are at `level`.

    `frame` has one row a run and the columns `metric`, `seed` and every factor; several runs of a seed in a cell are
    averaged. `floor` is the smallest standard deviation of one run (see `estimates`). `families` is the number of families
    of tests that share the level of significance; the terms' adjusted p-values are multiplied by it. With planned `looks`,
    the runs are those of the current look, p-values are for all looks so far, and intervals are wider. Raises `UserError`
    naming a column that is missing, a factor that does not vary, factors whose effects cannot be separated, or where no
    seed has a value in every cell.
    """
    runs = finite_runs(frame, metric, factors)
    values = cell_values(runs, metric, factors)
    grid = grid_used(runs, values, factors, len(frame) - len(runs))
    order = 1 if grid.gaps.additive else min(len(factors), 2)
    terms = [term for size in range(1, order + 1) for term in combinations(factors, size)]
    table = np.array([[values[cell][seed] for cell in grid.cells] for seed in grid.seeds])
    model = _Model(grid.levels, terms, grid.cells, values, table, level, floor, looks, grid.seeds)
    return Factorial(
        metric=metric,
        factors=tuple(factors),
        levels=grid.levels,
        seeds=grid.seeds,
        n=table.size,
        simple=tuple(effect for term in terms if len(term) == 2 for effect in _simple(model, *term)),
        **_tests(model, families),
        gaps=grid.gaps,
    )


@dataclass(frozen=True)
class _Model:
    """The cells used, and the weights of each effect over them."""

    levels: dict[str, tuple]
    terms: list[Term]
    cells: list[Cell]
    values: dict[Cell, dict]
    """every cell -> seed -> value"""
    table: np.ndarray
    """values of the cells used (seeds, cells)"""
    level: float
    floor: float
    looks: Looks | None
    seeds: tuple
    """seeds of the table's rows"""
    inverse: np.ndarray = field(init=False)
    """pseudo-inverse of the design (columns, cells)"""

    def __post_init__(self) -> None:
        """Sum-to-zero coding: a block of columns for each term, whose zeros are the average over the term's levels."""
        design = np.array([self._row(dict(zip(self.levels, cell))) for cell in self.cells])
        if np.linalg.matrix_rank(design) < design.shape[1]:
            raise UserError(
                f"factors: {' and '.join(self.levels)} cannot be told apart: their levels move together in these runs"
            )
        object.__setattr__(self, "inverse", np.linalg.pinv(design))

    def marginal(self, at: dict[str, Level]) -> np.ndarray:
        """Weights (cells,) of the marginal mean at these levels: factor -> level."""
        return self._row(at) @ self.inverse

    def _row(self, at: dict[str, Level]) -> np.ndarray:
        """The design's row (columns,) of these levels."""
        coded = {
            factor: _coding(found)[[found.index(at[factor])]] for factor, found in self.levels.items() if factor in at
        }
        parts = [np.ones(1)]
        for term in self.terms:
            if set(term) <= set(at):
                parts.append(_columns([coded[factor] for factor in term])[0])
            else:
                parts.append(np.zeros(math.prod(len(self.levels[factor]) - 1 for factor in term)))
        return np.concatenate(parts)

    def estimates(self, weights: list[np.ndarray]) -> list[tuple[Estimate, float]]:
        """Each weighted sum with its t interval over the seeds, and the p of its being zero; NaN without a spread."""
        rows = np.array(weights)
        samples = rows @ self.table.T
        samples = np.where(np.abs(samples) <= RELATIVE_ROUNDING * np.abs(self.table).max(), 0.0, samples)
        centre, deviation, n = moments(samples, self.floor * np.sqrt((rows**2).sum(axis=1)))
        error = deviation / np.sqrt(n)
        level = self.level if self.looks is None else 1 - self.looks.level(1 - self.level)
        low, high = t_interval(centre, error, n - 1, level)
        p = self._p_values(samples, self.floor * np.sqrt((rows**2).sum(axis=1)))
        columns = zip(centre.tolist(), low.tolist(), high.tolist(), n.tolist(), p.tolist(), strict=True)
        return [(Estimate(value, lower, upper, k), q) for value, lower, upper, k, q in columns]

    def _p_values(self, samples: np.ndarray, floors: np.ndarray) -> np.ndarray:
        """p of each row of samples (rows, seeds) having mean zero."""
        if self.looks is None:
            return t_test(samples, floor=floors)
        place = {seed: i for i, seed in enumerate(self.looks.seeds)}
        planned = np.full((len(samples), len(place)), np.nan)
        planned[:, [place[seed] for seed in self.seeds]] = samples
        return self.looks.p_value(lambda given: t_test(given, floor=floors), planned)[0]

    def mean(self, at: dict[str, Level], marginal: Estimate) -> Estimate:
        """The marginal mean; for a single cell, the mean over all its runs, as in a table of variants."""
        if len(at) < len(self.levels):
            return marginal
        return mean(list(self.values[tuple(at[factor] for factor in self.levels)].values()), self.level, self.floor)


def _tests(model: _Model, families: int) -> dict[str, tuple]:
    """Effects, contrasts and terms."""
    effects = {term: _effects(model, term) for term in model.terms}
    contrasts: dict[Term, list[tuple[Contrast, int]]] = {
        (factor,): _contrasts(model, factor) for factor in model.levels
    }
    families_of = {term: (contrasts if len(term) == 1 else effects)[term] for term in model.terms}
    p = [min((test.p_holm for test, _ in found), default=float("nan")) for found in families_of.values()]
    adjusted = np.minimum(families * holm(p), 1.0).tolist()
    terms = tuple(
        TermTest(term, len({key for _, key in found}), p_term, q)
        for (term, found), p_term, q in zip(families_of.items(), p, adjusted, strict=True)
    )
    least = {test.term: test.p_holm for test in terms}
    return {
        "effects": tuple(_at_least(effect, least[term]) for term, found in effects.items() for effect, _ in found),
        "contrasts": tuple(
            _at_least(contrast, least[term]) for term, found in contrasts.items() for contrast, _ in found
        ),
        "terms": terms,
    }


def _at_least(test: Any, p: float) -> Any:
    """An effect or contrast whose adjusted p is at least its term's: it is not shown where its term is not."""
    return replace(test, p_holm=max(test.p_holm, p))


def _effects(model: _Model, term: Term) -> list[tuple[Effect, int]]:
    """A term's cells, each with the number of its distinct contrast."""
    cells = list(product(*(model.levels[factor] for factor in term)))
    places = [dict(zip(term, cell, strict=True)) for cell in cells]
    marginal = model.estimates([model.marginal(at) for at in places])
    subsets = [part for size in range(len(term) + 1) for part in combinations(term, size)]
    rows = [
        sum((-1) ** (len(term) - len(part)) * model.marginal({f: at[f] for f in part}) for part in subsets)
        for at in places
    ]
    effects = model.estimates(rows)
    adjusted, keys = _holm_distinct(rows, [p for _, p in effects])
    return [
        (Effect(term, cell, model.mean(at, means[0]), effect, p, q), key)
        for cell, at, means, (effect, p), q, key in zip(cells, places, marginal, effects, adjusted, keys, strict=True)
    ]


def _contrasts(model: _Model, factor: str) -> list[tuple[Contrast, int]]:
    pairs = [(high, low) for low, high in combinations(model.levels[factor], 2)]
    rows = [model.marginal({factor: high}) - model.marginal({factor: low}) for high, low in pairs]
    diffs = model.estimates(rows)
    adjusted, keys = _holm_distinct(rows, [p for _, p in diffs])
    return [
        (Contrast(factor, high, low, diff, p, q), key)
        for (high, low), (diff, p), q, key in zip(pairs, diffs, adjusted, keys, strict=True)
    ]


def _simple(model: _Model, factor: str, other: str) -> list[SimpleEffect]:
    low, *higher = model.levels[factor]
    places = [(high, at) for high in higher for at in model.levels[other]]
    rows = [model.marginal({factor: high, other: at}) - model.marginal({factor: low, other: at}) for high, at in places]
    diffs = model.estimates(rows)
    return [
        SimpleEffect(factor, high, low, other, at, diff) for (high, at), (diff, _) in zip(places, diffs, strict=True)
    ]


def _holm_distinct(rows: list[np.ndarray], p: list[float]) -> tuple[list[float], list[int]]:
    """Holm's adjustment over distinct contrasts, and the number of each row's; a row and its negative are one contrast.

    With two levels, for example, each cell's effect is another's with the opposite sign.
    """
    first: dict[bytes, int] = {}
    keys = []
    for i, row in enumerate(np.round(rows, 9)):
        positive = row * np.sign(row[np.flatnonzero(row)[0]])
        keys.append(first.setdefault((positive + 0.0).tobytes(), i))  # + 0.0 makes -0.0 the same as 0.0
    adjusted = dict(zip(first.values(), holm([p[i] for i in first.values()]).tolist(), strict=True))
    return [adjusted[key] for key in keys], keys


def _coding(levels: tuple) -> np.ndarray:
    """Sum-to-zero coding (levels, levels - 1): the last level is minus the sum of the others."""
    return np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])


def _columns(parts: list[np.ndarray]) -> np.ndarray:
    """Every product of one column from each part, row by row: (rows, columns of the term)."""
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), parts)
