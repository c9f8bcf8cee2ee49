"""Studies of several factors: differences between levels and two-way interactions, each tested over the seeds.

Every effect is a weighted sum of a seed's cells (a cell is one combination of levels), computed from the complete grid
of that seed, and its mean is tested by Student's t over the seeds. So its error includes factor x seed variation, which
a pooled residual would leave out, and cells may scatter differently. Of unpaired runs, it is a weighted sum of the
means of cells (see `weighted_sums`).

All effects are one family (Bonferroni): each term, a factor or an interaction of two, has the same share of the level,
divided equally among its effects: the pairs of levels of a factor, the cells of an interaction. An effect is shown
where its interval leaves zero out, a term where one of its effects is. This needs no estimate of a covariance matrix,
for which few seeds do not suffice.

The grid must be complete: at least half of the seeds have a finite value in every cell, and only these count. Of
unpaired runs, every cell has two with a finite value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.differences import Differences, weighted_sums
from analysis.verdicts.estimates import ALPHA, RELATIVE_ROUNDING, UNKNOWN, Estimate, means, t_test
from analysis.verdicts.looks import NO_PLAN, Looks
from experiments.errors import UserError, first_few

Term = tuple[str, ...]  # a factor, or the two factors of an interaction
Levels = tuple[object, ...]  # a level of each factor of a term
Effect = dict[str, Any]  # a row of a frame of `Factorial`


@dataclass(frozen=True)
class Factorial:
    """The effects of a study of several factors. In frames, the name of an interaction joins its factors by "+".

    An effect has the columns p, adjusted, p_adjusted, verdict and verdict_of_finished. `diff` and `effect` are
    estimates with the interval of the effect alone, `adjusted` has the one for all effects together, of which `verdict`
    is read: "shown", "not shown", or "not tested" where there is none. `p_adjusted` is at most `ALPHA` where that
    leaves zero out. `verdict_of_finished`: that of the finished runs alone.
    """

    factors: tuple[str, ...]
    levels: dict[str, Levels]
    seeds: tuple  # seeds used; empty for unpaired runs
    seeds_left_out: tuple  # seeds without a finite value in every cell
    contrasts: pd.DataFrame
    """the differences of all pairs of levels of each factor: factor, level, reference, diff"""
    interactions: pd.DataFrame
    """what each combination of two levels has beyond the effects of both: factor, level ("a x b"), effect"""
    tests: dict[str, int]
    """factor or interaction -> how many different effects it has"""

    @property
    def verdicts(self) -> dict[str, str]:
        """Factor or interaction -> "shown" where one of its effects is, else "not shown" or "not tested"."""
        return self._verdicts("verdict")

    @property
    def failure_sensitive(self) -> list[str]:
        """The factors and interactions that are not shown, and that the finished runs alone would show."""
        finished = self._verdicts("verdict_of_finished")
        return [term for term, verdict in self.verdicts.items() if (verdict, finished[term]) == ("not shown", "shown")]

    def _verdicts(self, column: str) -> dict[str, str]:
        effects = pd.concat([self.contrasts, self.interactions])
        order = ("shown", "not shown", "not tested").index
        return {term: min(effects.loc[effects["factor"] == term, column], key=order) for term in self.tests}


def factorial(
    frame: pd.DataFrame,
    metric: str,
    factors: Sequence[str],
    families: int = 1,
    looks: Looks = NO_PLAN,
    paired: bool = True,
) -> Factorial:
    """Contrasts and two-way interactions of `factors` on `metric`; intervals of an effect alone are at `LEVEL`.

    `frame` has one row a run and the columns `metric`, `seed` and every factor; several runs of a seed in a cell are
    averaged. `families` is the number of families of tests that share the level of significance. With planned `looks`,
    the runs are those of the current look, and intervals have its level. `paired`: whether the runs of a seed belong
    together. Raises `UserError` naming a factor that does not vary or the cells that are missing, or where fewer than
    two seeds have every cell.
    """
    runs = frame.loc[np.isfinite(frame[metric].to_numpy(dtype=float)), [metric, "seed", *factors]]
    runs = runs.astype(dict.fromkeys(factors, object)).fillna(dict.fromkeys(factors, "none"))
    levels: dict[str, Levels] = {factor: tuple(runs[factor].unique().tolist()) for factor in factors}
    seeds = looks.seeds or tuple(frame["seed"].unique().tolist())
    cells = list(product(*levels.values()))
    values = runs.groupby([*factors, "seed"], sort=False)[metric].mean().to_dict()
    table = np.array([[values.get((*cell, seed), np.nan) for cell in cells] for seed in seeds], dtype=float)
    _check_complete(levels, cells, table, paired)
    grid = _Grid(levels, table, looks, paired)
    tested: dict[Term, list[Effect]] = {(factor,): grid.contrasts(factor) for factor in factors}
    tested |= {pair: grid.interaction(*pair) for pair in combinations(factors, 2)}
    tests = _adjust(tested, families, grid)
    return Factorial(
        factors=tuple(factors),
        levels=levels,
        seeds=tuple(seed for seed, used in zip(seeds, grid.complete, strict=True) if used),
        seeds_left_out=tuple(seed for seed, used in zip(seeds, grid.complete, strict=True) if paired and not used),
        contrasts=pd.DataFrame(effect for term, effects in tested.items() if len(term) == 1 for effect in effects),
        interactions=pd.DataFrame(effect for term, effects in tested.items() if len(term) == 2 for effect in effects),
        tests=tests,
    )


def _adjust(tested: Mapping[Term, list[Effect]], families: int, grid: "_Grid") -> dict[str, int]:
    """Replace `same` and `row` of each effect by its tests, and return `Factorial.tests`."""
    tests = {}
    for term, effects in tested.items():
        different = len({effect.pop("same") for effect in effects})
        factor = families * len(tested) * different / grid.looks.share
        intervals = grid.estimates([effect.pop("row") for effect in effects], 1 - ALPHA / factor)
        for effect, interval in zip(effects, intervals, strict=True):
            effect["adjusted"] = interval
            effect["p_adjusted"] = float(np.minimum(factor * effect["p"], 1.0))
            effect["verdict"] = effect["verdict_of_finished"] = _verdict(interval)
        tests["+".join(term)] = different
    return tests


def _verdict(interval: Estimate) -> str:
    return "not tested" if np.isnan(interval.low) else "shown" if interval.excludes_zero else "not shown"


def cover_failed(model: Factorial, counted: Factorial | None) -> Factorial:
    """The effects of the finished runs, of which each interval also covers that of `counted`.

    There, failed runs count as runs at chance level; None where that is not known, and then nothing is shown.
    """

    def covered(name: str) -> pd.DataFrame:
        frame = getattr(model, name).copy()
        others = [UNKNOWN] * len(frame) if counted is None else getattr(counted, name)["adjusted"]
        frame["adjusted"] = list(map(Estimate.covering, frame["adjusted"], others))
        frame["verdict"] = frame["adjusted"].map(_verdict)
        frame["p_adjusted"] = frame["p_adjusted"].where(frame["verdict"] == "shown", 1.0)
        frame[["p", "p_adjusted"]] = frame[["p", "p_adjusted"]].mask(frame["verdict"] == "not tested")
        return frame

    return replace(model, contrasts=covered("contrasts"), interactions=covered("interactions"))


def _check_complete(levels: dict[str, Levels], cells: Sequence[Levels], table: np.ndarray, paired: bool) -> None:
    for factor, values in levels.items():
        if len(values) < 2:
            only = "".join(map(str, values)) or "no level"
            raise UserError(f"factors: {factor} takes only {only} in these runs; two levels or more are needed")
    finite = np.isfinite(table)
    least, few = (len(table) / 2, "half of the seeds have a") if paired else (2, "two")
    missing = [cell for cell, n in zip(cells, finite.sum(axis=0), strict=True) if n < least]
    if missing:
        named = (", ".join(f"{factor} = {level}" for factor, level in zip(levels, cell)) for cell in missing)
        cells_of = first_few(named, "; ")
        raise UserError(f"factors: fewer than {few} finished run{'s' * (not paired)} of {cells_of}")
    if paired and (complete := int(finite.all(axis=1).sum())) < 2:
        raise UserError(
            f"factors: seeds with a finished run of every combination of {' and '.join(levels)}: {complete} of "
            f"{len(table)}; two are needed"
        )


class _Grid:
    """The values of a complete grid, and the weights of each effect over its cells."""

    def __init__(self, levels: dict[str, Levels], table: np.ndarray, looks: Looks, paired: bool) -> None:
        """`table`: values (seeds, cells), NaN where there is none."""
        self.levels, self.cells, self.table = levels, list(product(*levels.values())), table
        self.looks, self.paired = looks, paired
        self.complete = np.isfinite(table).all(axis=1) & paired
        self.columns = {factor: [cell[i] for cell in self.cells] for i, factor in enumerate(levels)}

    def weights(self, term: Term, levels: Levels) -> np.ndarray:
        """Weights (cells,) of the marginal mean at these levels of a term: equal for the cells that have them."""
        at = [[here == level for here in self.columns[factor]] for factor, level in zip(term, levels, strict=True)]
        inside = np.all(at, axis=0) if at else np.ones(len(self.cells))
        return inside / inside.sum()

    def samples(self, weights: Sequence[np.ndarray]) -> np.ndarray:
        """Each weighted sum for each seed (sums, seeds), NaN where a cell is missing."""
        complete = np.where(self.complete[:, None], self.table, np.nan)
        samples = np.array(weights) @ complete.T
        return np.where(np.abs(samples) <= RELATIVE_ROUNDING * np.nanmax(np.abs(complete)), 0.0, samples)

    def estimates(self, weights: Sequence[np.ndarray], level: float) -> list[Estimate]:
        """Each weighted sum with its t interval over the seeds, or of unpaired runs."""
        return means(self.samples(weights), level) if self.paired else self._of_cells(weights).estimates(level)

    def p(self, weights: Sequence[np.ndarray]) -> np.ndarray:
        """The p-value of each weighted sum (sums,)."""
        return t_test(self.samples(weights)) if self.paired else self._of_cells(weights).t_test()

    def _of_cells(self, weights: Sequence[np.ndarray]) -> Differences:
        return weighted_sums(self.table.T, np.array(weights))

    def contrasts(self, factor: str) -> list[Effect]:
        """The differences of all pairs of levels."""
        pairs = [(high, low) for low, high in combinations(self.levels[factor], 2)]
        places = [{"factor": factor, "level": high, "reference": low} for high, low in pairs]
        rows = [self.weights((factor,), (high,)) - self.weights((factor,), (low,)) for high, low in pairs]
        return self._tested(places, "diff", rows)

    def interaction(self, first: str, second: str) -> list[Effect]:
        """What each cell has beyond its row's and its column's effects."""
        both, overall = (first, second), self.weights((), ())
        cells = list(product(self.levels[first], self.levels[second]))
        places = [{"factor": f"{first}+{second}", "level": " x ".join(map(str, cell))} for cell in cells]
        rows = [
            self.weights(both, cell) - self.weights(both[:1], cell[:1]) - self.weights(both[1:], cell[1:]) + overall
            for cell in cells
        ]
        return self._tested(places, "effect", rows)

    def _tested(self, places: Sequence[Effect], name: str, rows: Sequence[np.ndarray]) -> list[Effect]:
        """Effects with their p. `same`: the first effect that is equal to this one, or is its negative.

        With two levels, for example, each cell's effect is another's with the opposite sign.
        """
        first: dict[bytes, int] = {}
        effects, alone, p = [], self.estimates(rows, self.looks.confidence), self.p(rows)
        for i, (place, row) in enumerate(zip(places, np.round(rows, 9), strict=True)):
            positive = row * np.sign(row[np.flatnonzero(row)[0]])
            same = first.setdefault((positive + 0.0).tobytes(), i)  # + 0.0 makes -0.0 the same as 0.0
            effects.append({**place, name: alone[i], "p": float(p[i]), "same": same, "row": rows[i]})
        return effects
