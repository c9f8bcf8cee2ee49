"""Studies of several factors: main effects, contrasts and two-way interactions, each tested over the seeds.

Every effect is a weighted sum of a seed's cells (a cell is one combination of levels). It is computed once for each seed,
from the complete grid of that seed, and its mean is tested by Student's t over the seeds. So the error of an effect is
its own variation between seeds, which includes factor x seed variation; a pooled residual would leave that out. Cells
may scatter differently.

A term (a factor or an interaction) is tested by the smallest Holm-adjusted p of its contrasts: the pairs of levels of a
factor, or the cell effects of an interaction. This needs no estimate of a covariance matrix, for which few seeds do not
suffice. The terms are Holm-adjusted in turn. Interactions of three and more factors are not tested.

Which runs are used:

- A cell counts if at least half of the seeds have a finite value in it.
- If some cells do not count, the levels with the largest share of such cells are left out until the grid is complete.
  If no complete grid is left, the main effects are fitted to the cells that count, as if effects added up.
- A seed counts if it has a finite value in every cell used.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from analysis.stats.estimates import RELATIVE_ROUNDING, Estimate, mean, moments, t_interval
from analysis.stats.holm import holm
from experiments.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from analysis.metric import Metric

Term = tuple[str, ...]
Cell = tuple
Level = object


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
class Gaps:
    """How the data fall short of a complete grid."""

    not_finite: int
    """runs without a finite value"""
    cells: int
    """cells of the whole grid"""
    missing: int
    """cells without a finite value on half of the seeds"""
    left_out: tuple[tuple[str, Level], ...]
    """(factor, level) left out of the grid"""
    additive: bool
    """whether no complete grid is left, so that only main effects are fitted"""
    seeds_left_out: tuple
    """seeds without a finite value in every cell used"""


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
    grand: Estimate
    effects: tuple[Effect, ...]
    contrasts: tuple[Contrast, ...]
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
) -> Factorial:
    """Main effects, contrasts and two-way interactions of `factors` on `metric`; intervals are at `level`.

    `frame` has one row a run and the columns `metric`, `seed` and every factor; several runs of a seed in a cell are
    averaged. `floor` is the smallest standard deviation of one run (see `estimates`). `families` is the number of families
    of tests that share the level of significance; the terms' adjusted p-values are multiplied by it. Raises `UserError`
    naming a column that is missing, a factor that does not vary, factors whose effects cannot be separated, or where no
    seed has a value in every cell.
    """
    runs = _finite_runs(frame, metric, factors)
    values = _values(runs, metric, factors)
    grid = _grid_used(runs, values, factors, len(frame) - len(runs))
    order = 1 if grid.gaps.additive else min(len(factors), 2)
    terms = [term for size in range(1, order + 1) for term in combinations(factors, size)]
    table = np.array([[values[cell][seed] for cell in grid.cells] for seed in grid.seeds])
    model = _Model(grid.levels, terms, grid.cells, values, table, level, floor)
    return Factorial(
        metric=metric,
        factors=tuple(factors),
        levels=grid.levels,
        seeds=grid.seeds,
        n=table.size,
        grand=model.estimates([model.marginal({})])[0][0],
        **_tests(model, families),
        gaps=grid.gaps,
    )


@dataclass(frozen=True)
class _Grid:
    """The levels, cells and seeds used, and what they leave out."""

    levels: dict[str, tuple]
    cells: list[Cell]
    seeds: tuple
    gaps: Gaps


def _grid_used(runs: "pd.DataFrame", values: dict[Cell, dict], factors: list[str], not_finite: int) -> _Grid:
    """Choose them as the module says. Raises `UserError` where a factor does not vary or no seed is complete."""
    whole = {factor: tuple(runs[factor].unique().tolist()) for factor in factors}
    for factor, found in whole.items():
        if len(found) < 2:
            raise UserError(f"factors: {factor} takes only {list(found)} in these runs; two levels or more are needed")
    seeds = tuple(runs["seed"].unique().tolist())
    present = {cell for cell, by_seed in values.items() if 2 * len(by_seed) >= len(seeds)}
    complete = _complete_grid(present, whole)
    levels = complete or {
        factor: tuple(level for level in found if any(cell[i] == level for cell in present))
        for i, (factor, found) in enumerate(whole.items())
    }
    cells = [cell for cell in product(*levels.values()) if cell in present]
    used = tuple(seed for seed in seeds if all(seed in values[cell] for cell in cells))
    if not used or not cells:
        raise UserError(f"factors: no seed has a finished run of every combination of {' and '.join(factors)}")
    size = math.prod(map(len, whole.values()))
    gaps = Gaps(
        not_finite=not_finite,
        cells=size,
        missing=size - len(present),
        left_out=tuple((f, value) for f in factors for value in whole[f] if value not in levels[f]),
        additive=not complete,
        seeds_left_out=tuple(seed for seed in seeds if seed not in used),
    )
    return _Grid(levels, cells, used, gaps)


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
        low, high = t_interval(centre, error, n - 1, self.level)
        p = 2 * special.stdtr(n - 1, -np.abs(centre / error))
        columns = zip(centre.tolist(), low.tolist(), high.tolist(), n.tolist(), p.tolist(), strict=True)
        return [(Estimate(value, lower, upper, k), q) for value, lower, upper, k, q in columns]

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


def _finite_runs(frame: "pd.DataFrame", metric: "Metric", factors: list[str]) -> "pd.DataFrame":
    for column in (metric, "seed", *factors):
        if column not in frame.columns:
            raise UserError(
                f"factors: no column {column!r} among the runs; there are {', '.join(map(str, frame.columns))}"
            )
    if not factors:
        raise UserError("factors: none given; one or more are needed")
    runs = frame.loc[np.isfinite(frame[metric].to_numpy(dtype=float)), [metric, "seed", *factors]]
    return runs.astype(dict.fromkeys(factors, object)).fillna(dict.fromkeys(factors, "not set"))


def _values(runs: "pd.DataFrame", metric: str, factors: list[str]) -> dict[Cell, dict]:
    """cell -> seed -> value."""
    found: dict[Cell, dict] = {}
    for row in runs[[*factors, "seed", metric]].itertuples(index=False, name=None):
        found.setdefault(row[:-2], {}).setdefault(row[-2], []).append(float(row[-1]))
    return {cell: {seed: float(np.mean(group)) for seed, group in by_seed.items()} for cell, by_seed in found.items()}


def _complete_grid(present: set[Cell], levels: dict[str, tuple]) -> dict[str, tuple] | None:
    """The levels left when those with the largest share of missing cells are left out until none is missing.

    None where a factor has fewer than two levels left.
    """
    cells, left = set(present), [list(found) for found in levels.values()]
    full = Counter(place for cell in cells for place in enumerate(cell))  # (factor, level) -> its present cells
    while len(cells) < (size := math.prod(map(len, left))):
        missing = {
            (i, value): (size // len(found) - full[i, value]) * len(found) / size
            for i, found in enumerate(left)
            for value in found
        }
        i, value = max(missing, key=missing.__getitem__)
        left[i].remove(value)
        if len(left[i]) < 2:
            return None
        lost = {cell for cell in cells if cell[i] == value}
        full.subtract(place for cell in lost for place in enumerate(cell))
        cells -= lost
    return dict(zip(levels, map(tuple, left), strict=True))


def _coding(levels: tuple) -> np.ndarray:
    """Sum-to-zero coding (levels, levels - 1): the last level is minus the sum of the others."""
    return np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])


def _columns(parts: list[np.ndarray]) -> np.ndarray:
    """Every product of one column from each part, row by row: (rows, columns of the term)."""
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), parts)
