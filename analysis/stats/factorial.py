"""Factorial studies by a linear model: main effects, interactions, contrasts, analysis of variance. No I/O, no plots.

The model is ordinary least squares with sum-to-zero contrasts, each seed a block: effects are deviations from the grand
mean, and what a seed does to all cells alike is taken out, as pairing does for two variants. Interactions of three and
more factors stay in the residual. All cells are taken to spread alike; where one does not, `compare` (which pairs two
variants only) is the safer word.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from analysis.stats.estimates import RELATIVE_ROUNDING, Estimate, t_interval
from analysis.stats.holm import holm
from experiments.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

Term = tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """One level of a factor, or one cell of two: its marginal mean, and what it adds to the parts it is made of."""

    term: Term
    levels: tuple
    mean: Estimate
    """marginal mean: every combination of the other factors weighs the same; the interval is for these seeds"""
    effect: Estimate
    """one factor: mean less grand mean; two: what the cell has beyond its row's and its column's effects"""
    p: float
    p_holm: float
    """adjusted over the levels (cells) of the term"""


@dataclass(frozen=True)
class Contrast:
    """The marginal mean of one level less that of another."""

    factor: str
    high: object
    low: object
    diff: Estimate
    p: float
    p_holm: float
    """adjusted over the pairs of levels of the factor"""


@dataclass(frozen=True)
class AnovaRow:
    """One line of the type II analysis of variance; the last line is the residual, whose test is NaN."""

    term: Term
    df: int
    sum_sq: float
    f: float
    p: float
    p_holm: float
    """adjusted over the factors and interactions; NaN for seeds and the residual"""
    eta_sq: float
    """partial eta squared: sum of squares over itself plus the residual's"""


@dataclass(frozen=True)
class Factorial:
    """A fitted factorial study; `notes` are sentences on what was left out, or could not be told apart."""

    metric: str
    factors: tuple[str, ...]
    levels: dict[str, tuple]
    n: int
    """runs in the model"""
    dropped: int
    """runs without a finite value"""
    grand: Estimate
    effects: tuple[Effect, ...]
    contrasts: tuple[Contrast, ...]
    anova: tuple[AnovaRow, ...]
    notes: tuple[str, ...]

    def tested(self) -> dict[Term, float]:
        """Each factor and interaction with its Holm-adjusted p."""
        return {row.term: row.p_holm for row in self.anova if set(row.term) <= set(self.factors)}

    def of(self, *term: str) -> tuple[Effect, ...]:
        """The effects of one factor, or of an interaction of two, in the order of the levels."""
        return tuple(effect for effect in self.effects if effect.term == term)


def factorial(frame: "pd.DataFrame", metric: str, factors: list[str], level: float = 0.95) -> Factorial:
    """Fit `metric` on the factors and their two-way interactions, with seeds as blocks; intervals are at `level`.

    `frame` has one row a run and the columns `metric`, `seed` and every factor. Unequal numbers of runs a cell are
    fine. Where cells are empty the model is fitted on the complete grid that is left when the levels with most gaps are
    left out, or, where none is left, on all cells without interactions; `notes` says so. Raises `UserError` naming a
    column that is missing, a factor that does not vary, or factors whose effects cannot be separated.
    """
    runs = _finite_runs(frame, metric, factors)
    whole = {factor: tuple(runs[factor].unique().tolist()) for factor in factors}
    for factor, found in whole.items():
        if len(found) < 2:
            raise UserError(f"factors: {factor} takes only {list(found)} in these runs; two levels or more are needed")
    complete = _complete_grid(runs, whole)
    levels = complete or whole
    used = runs[np.all([runs[factor].isin(levels[factor]) for factor in factors], axis=0)]
    order = min(len(factors), 2) if complete else 1
    terms = [term for size in range(1, order + 1) for term in combinations(factors, size)]
    model = _fit(used, metric, levels, terms)
    return Factorial(
        metric=metric,
        factors=tuple(factors),
        levels=levels,
        n=len(used),
        dropped=len(frame) - len(runs),
        grand=model.estimate([model.row({})], level)[0][0],
        effects=tuple(effect for term in terms for effect in _effects(model, term, level)),
        contrasts=tuple(contrast for factor in factors for contrast in _contrasts(model, factor, level)),
        anova=_anova(model),
        notes=tuple(_notes(runs, used, whole, complete, len(frame) - len(runs), model)),
    )


@dataclass(frozen=True)
class _Model:
    """The fit, and how a row of its design is made: the intercept, a block of columns a term, a block for the seeds.

    Under sum-to-zero coding a block of zeros is the average over a term's levels: a marginal mean is the row that fills
    in only the terms within its own factors.
    """

    levels: dict[str, tuple]
    blocks: dict[Term, np.ndarray]
    """term -> its columns of the design (runs, columns); the last is ("seed",), where seeds are blocks"""
    outcome: np.ndarray
    result: Any

    def row(self, at: dict[str, object]) -> np.ndarray:
        """The design's row of the marginal mean at these levels: factor -> level."""
        parts = [np.ones(1)]
        for term, block in self.blocks.items():
            if set(term) <= set(at):
                parts.append(_columns([_coding(self.levels[f])[[self.levels[f].index(at[f])]] for f in term])[0])
            else:
                parts.append(np.zeros(block.shape[1]))
        return np.concatenate(parts)

    def estimate(self, rows: list[np.ndarray], level: float) -> list[tuple[Estimate, float]]:
        """Each row's estimate with its t interval, and the p-value of its being zero; NaN where no error can be had."""
        weights = np.array(rows)
        values = self._rounded(weights @ self.result.params)
        if self.result.df_resid == 0:
            error = np.full(len(values), np.nan)
        else:
            variance = np.einsum("ij,jk,ik->i", weights, self.result.cov_params(), weights)
            error = self._rounded(np.sqrt(np.maximum(variance, 0)))
        low, high = t_interval(values, error, self.result.df_resid, level)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where((values == 0) & (error == 0), 0.0, values / error)
        p = 2 * stats.t.sf(np.abs(t), self.result.df_resid)
        return [
            (Estimate(value, lower, upper, len(self.outcome)), q)
            for value, lower, upper, q in zip(values.tolist(), low.tolist(), high.tolist(), p.tolist())
        ]

    def _rounded(self, x: np.ndarray) -> np.ndarray:
        """What the arithmetic leaves of nothing, as nothing: else runs that do not vary would show effects."""
        return np.where(np.abs(x) <= RELATIVE_ROUNDING * np.abs(self.outcome).max(), 0.0, x)

    def sum_sq(self, left: float) -> float:
        """A sum of squares, 0 where its root is rounding."""
        return float(self._rounded(np.sqrt(max(left, 0.0))) ** 2)


def _fit(runs: "pd.DataFrame", metric: str, levels: dict[str, tuple], terms: list[Term]) -> _Model:
    coded = {factor: _coding(found)[[found.index(value) for value in runs[factor]]] for factor, found in levels.items()}
    blocks = {term: _columns([coded[factor] for factor in term]) for term in terms}
    seeds = tuple(runs["seed"].unique().tolist())
    blocked = {**blocks, ("seed",): _coding(seeds)[[seeds.index(seed) for seed in runs["seed"]]]}
    outcome = runs[metric].to_numpy(dtype=float)
    if len(seeds) > 1 and _full_rank(blocked):  # seeds that do not cross the cells tell nothing apart, and are left out
        blocks = blocked
    elif not _full_rank(blocks):
        raise UserError(
            f"factors: {' and '.join(levels)} cannot be told apart: their levels move together in these runs"
        )
    return _Model(levels, blocks, outcome, _least_squares(outcome, blocks))


def _effects(model: _Model, term: Term, level: float) -> list[Effect]:
    """The marginal means of a term's cells, and each less all that its parts explain."""
    cells = list(product(*(model.levels[factor] for factor in term)))
    places = [dict(zip(term, cell)) for cell in cells]
    means = model.estimate([model.row(at) for at in places], level)
    subsets = [part for size in range(len(term) + 1) for part in combinations(term, size)]
    rows = [
        sum((-1) ** (len(term) - len(part)) * model.row({f: at[f] for f in part}) for part in subsets) for at in places
    ]
    effects = model.estimate(rows, level)
    adjusted = holm([p for _, p in effects]).tolist()
    return [
        Effect(term, cell, mean, effect, p, q)
        for cell, (mean, _), (effect, p), q in zip(cells, means, effects, adjusted)
    ]


def _contrasts(model: _Model, factor: str, level: float) -> list[Contrast]:
    pairs = [(high, low) for low, high in combinations(model.levels[factor], 2)]
    diffs = model.estimate([model.row({factor: high}) - model.row({factor: low}) for high, low in pairs], level)
    adjusted = holm([p for _, p in diffs]).tolist()
    return [Contrast(factor, high, low, diff, p, q) for (high, low), (diff, p), q in zip(pairs, diffs, adjusted)]


def _anova(model: _Model) -> tuple[AnovaRow, ...]:
    """Type II: each term added last to the model of all terms that do not contain it.

    Source: Langsrud, Statistics and Computing 13 (2003), 163-167.
    """
    residual, left = model.sum_sq(model.result.ssr), int(model.result.df_resid)
    rows = []
    for term, block in model.blocks.items():
        others = {other: columns for other, columns in model.blocks.items() if not set(term) <= set(other)}
        without, within = (_unexplained(model.outcome, blocks) for blocks in (others, {**others, term: block}))
        added = model.sum_sq(without - within)
        df = block.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            f = float(np.divide(added / df, np.divide(residual, left)))
            share = float(np.divide(added, added + residual))
        rows.append((term, df, added, f, float(stats.f.sf(f, df, left)), share))
    adjusted = iter(holm([row[4] for row in rows if row[0] != ("seed",)]).tolist())
    nan = float("nan")
    return (
        *(AnovaRow(*row[:5], nan if row[0] == ("seed",) else next(adjusted), row[5]) for row in rows),
        AnovaRow(("residual",), left, residual, nan, nan, nan, nan),
    )


def _notes(runs, used, whole: dict, complete: dict | None, dropped: int, model: _Model) -> list[str]:
    """What a reader must know of how the data fell short of a full and even grid."""
    factors, notes = list(whole), []
    cells = int(np.prod([len(found) for found in whole.values()]))
    present = len(runs[factors].drop_duplicates())
    empty = f"{cells - present} of {cells} cells {'is' if cells - present == 1 else 'are'} empty"
    if dropped:
        notes.append(
            f"{dropped} run{'s' * (dropped > 1)} without a finite value {'are' if dropped > 1 else 'is'} left out."
        )
    if complete is None:
        notes.append(f"{empty} and no complete grid can be had: main effects only, taken to add up.")
    elif present < cells:
        absent = [f"{f} = {value}" for f in factors for value in whole[f] if value not in complete[f]]
        notes.append(f"{empty}: the model is of the complete grid without {', '.join(absent)}.")
    counts = used.groupby(factors, sort=False, observed=True).size()
    if counts.min() < counts.max():
        notes.append(
            f"Unbalanced: {counts.min()} to {counts.max()} runs a cell; each cell weighs the same in the means."
        )
    if ("seed",) not in model.blocks and used["seed"].nunique() > 1:
        notes.append("Seeds are not blocks: the cells do not share them.")
    if len(factors) > 2 and complete:
        notes.append("Interactions of three and more factors are left in the residual.")
    if model.result.df_resid == 0:
        notes.append(
            "There are as many effects as runs: nothing is left to estimate the error from, so there are no intervals."
        )
    return notes


def _finite_runs(frame: "pd.DataFrame", metric: str, factors: list[str]) -> "pd.DataFrame":
    for column in (metric, "seed", *factors):
        if column not in frame.columns:
            raise UserError(
                f"factors: no column {column!r} among the runs; there are {', '.join(map(str, frame.columns))}"
            )
    if not factors:
        raise UserError("factors: none given; a factorial model needs one or more")
    runs = frame.loc[np.isfinite(frame[metric].to_numpy(dtype=float)), [metric, "seed", *factors]]
    return runs.astype(dict.fromkeys(factors, object)).fillna(dict.fromkeys(factors, "not set"))


def _complete_grid(runs: "pd.DataFrame", levels: dict[str, tuple]) -> dict[str, tuple] | None:
    """The levels left when those with the largest share of empty cells go until none is empty.

    None where a factor is used up.
    """
    cells = set(runs[list(levels)].itertuples(index=False, name=None))
    left = [list(found) for found in levels.values()]
    full = Counter(place for cell in cells for place in enumerate(cell))  # (factor, level) -> its cells that have runs
    while len(cells) < (size := math.prod(map(len, left))):
        empty = {
            (i, value): (size // len(found) - full[i, value]) * len(found) / size
            for i, found in enumerate(left)
            for value in found
        }
        i, value = max(empty, key=empty.__getitem__)
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
    """Every product of one column from each part, row by row: (runs, columns of the term)."""
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), parts)


def _design(blocks: dict[Term, np.ndarray], runs: int) -> np.ndarray:
    return np.column_stack([np.ones(runs), *blocks.values()])


def _full_rank(blocks: dict[Term, np.ndarray]) -> bool:
    design = _design(blocks, len(next(iter(blocks.values()))))
    return np.linalg.matrix_rank(design) == design.shape[1]


def _least_squares(outcome: np.ndarray, blocks: dict[Term, np.ndarray]) -> Any:
    from statsmodels.regression.linear_model import OLS

    return OLS(outcome, _design(blocks, len(outcome))).fit()


def _unexplained(outcome: np.ndarray, blocks: dict[Term, np.ndarray]) -> float:
    """The residual sum of squares."""
    design = _design(blocks, len(outcome))
    return float(np.sum((outcome - design @ np.linalg.lstsq(design, outcome)[0]) ** 2))
