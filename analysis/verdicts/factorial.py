"""Studies of several factors: differences between levels and two-way interactions, each tested over the seeds.

Every effect is a weighted sum of a seed's cells (a cell is one combination of levels), computed from the complete grid
of that seed, and its mean is tested by Student's t over the seeds. So its error includes factor x seed variation, which
a pooled residual would leave out, and cells may scatter differently. Of unpaired runs, it is a weighted sum of the
means of cells (see `weighted_sums`).

All effects are one family (Bonferroni): each term, a factor or an interaction of two, has the same share of the level,
divided equally among its effects: the pairs of levels of a factor, the cells of an interaction. An effect is shown
where its interval leaves zero out, a term where one of its effects is. This needs no estimate of a covariance matrix,
for which few seeds do not suffice.

The grid must be complete: only seeds with a finite value in every cell count. Of unpaired runs, every cell has two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from analysis.verdicts.differences import Differences, weighted_sums
from analysis.verdicts.estimates import ALPHA, RELATIVE_ROUNDING, UNKNOWN, Estimate, moments
from analysis.verdicts.looks import NO_PLAN, Looks


@dataclass(frozen=True)
class Effect:
    """The difference of two levels of a factor, or what a combination of levels of two has beyond the effects of both.

    `alone` has the interval of this effect alone, `adjusted` the one for all effects together, of which `verdict` is
    read: "shown", "not shown", or "not tested" where there is none. `p_adjusted` is at most `ALPHA` where that leaves
    zero out.
    """

    term: str  # the factor, or both of an interaction, joined by "+"
    level: str  # of an interaction "a x b"
    reference: str  # the other level; "" of an interaction
    alone: Estimate
    adjusted: Estimate
    p: float
    p_adjusted: float
    verdict: str
    verdict_of_finished: str  # that of the finished runs alone


@dataclass(frozen=True)
class Factorial:
    """The effects of a study of several factors."""

    effects: tuple[Effect, ...]
    left_out: tuple[int, ...]  # the places of seeds without a finite value in every cell
    tests: dict[str, int]  # term -> how many different effects it has

    @property
    def contrasts(self) -> list[Effect]:
        """The differences of all pairs of levels of each factor."""
        return [effect for effect in self.effects if effect.reference]

    @property
    def interactions(self) -> list[Effect]:
        """Those of each combination of two levels."""
        return [effect for effect in self.effects if not effect.reference]

    @property
    def verdicts(self) -> dict[str, str]:
        """Factor or interaction -> "shown" where one of its effects is, else "not shown" or "not tested"."""
        return self._verdicts("verdict")

    @property
    def failure_sensitive(self) -> list[str]:
        """The factors and interactions that are not shown, and that the finished runs alone would show."""
        finished = self._verdicts("verdict_of_finished")
        return [term for term, verdict in self.verdicts.items() if (verdict, finished[term]) == ("not shown", "shown")]

    def _verdicts(self, name: str) -> dict[str, str]:
        order = ("shown", "not shown", "not tested").index
        return {term: min((getattr(e, name) for e in self.effects if e.term == term), key=order) for term in self.tests}


def factorial(
    x: np.ndarray, levels: Mapping[str, Sequence[str]], families: int = 1, looks: Looks = NO_PLAN, paired: bool = True
) -> Factorial:
    """The contrasts and two-way interactions of a complete grid.

    `x`: values (cells, seeds), NaN where there is none, with planned looks of the current look. `levels`: factor -> its
    level in each cell; every combination is one cell. `families`: of tests that share the level of significance.
    `paired`: whether the values of a seed belong together.
    """
    columns = {factor: np.array([str(level) for level in cells]) for factor, cells in levels.items()}
    of = {factor: list(dict.fromkeys(cells.tolist())) for factor, cells in columns.items()}

    def at(**chosen: str) -> np.ndarray:
        """Weights (cells,) of the mean at these levels."""
        inside = np.all([columns[factor] == level for factor, level in chosen.items()] or [np.ones(len(x))], axis=0)
        return inside / inside.sum()

    terms: list[list[tuple[str, str, str, np.ndarray]]] = []
    for factor in levels:
        pairs = [(high, low) for low, high in combinations(of[factor], 2)]
        terms.append([(factor, high, low, at(**{factor: high}) - at(**{factor: low})) for high, low in pairs])
    for a, b in combinations(levels, 2):
        cells = [{a: first, b: second} for first, second in product(of[a], of[b])]
        beyond = [at(**cell) - at(**{a: cell[a]}) - at(**{b: cell[b]}) + at() for cell in cells]
        terms.append([(f"{a}+{b}", " x ".join(cell.values()), "", row) for cell, row in zip(cells, beyond)])
    effects, tests = list[Effect](), dict[str, int]()
    for term in terms:
        rows = np.array([row for *_, row in term])
        tests[term[0][0]] = different = _different(rows)
        factor_of_p = families * len(terms) * different / looks.share
        tested = _sums(x, rows, paired)
        alone, adjusted, p = (
            tested.estimates(looks.confidence),
            tested.estimates(1 - ALPHA / factor_of_p),
            tested.t_test(),
        )
        for i, (name, level, reference, _) in enumerate(term):
            at_most_one, verdict = float(np.minimum(factor_of_p * p[i], 1.0)), _verdict(adjusted[i])
            numbers = (alone[i], adjusted[i], float(p[i]), at_most_one)
            effects.append(Effect(name, level, reference, *numbers, verdict, verdict))
    left_out = np.flatnonzero(~np.isfinite(x).all(axis=0)) if paired else ()
    return Factorial(tuple(effects), tuple(map(int, left_out)), tests)


def _different(rows: np.ndarray) -> int:
    """How many rows of weights (effects, cells) are not equal to another, or its negative.

    With two levels, for example, each cell's effect is another's with the opposite sign.
    """
    rows = np.round(rows, 9)
    signs = [np.sign(row[np.flatnonzero(row)[0]]) for row in rows]
    return len(np.unique(rows * np.array(signs)[:, None] + 0.0, axis=0))  # + 0.0 makes -0.0 the same as 0.0


def _verdict(interval: Estimate) -> str:
    return "not tested" if np.isnan(interval.low) else "shown" if interval.excludes_zero else "not shown"


def cover_failed(model: Factorial, counted: Factorial | None) -> Factorial:
    """The effects of the finished runs, of which each interval also covers that of `counted`.

    There, failed runs count as runs at chance level; None where that is not known, and then nothing is shown.
    """

    def covered(effect: Effect, other: Estimate) -> Effect:
        adjusted = effect.adjusted.covering(other)
        verdict = _verdict(adjusted)
        p = np.nan if verdict == "not tested" else effect.p
        p_adjusted = effect.p_adjusted if verdict == "shown" else p if np.isnan(p) else 1.0
        return replace(effect, adjusted=adjusted, verdict=verdict, p=p, p_adjusted=p_adjusted)

    others = [UNKNOWN] * len(model.effects) if counted is None else [effect.adjusted for effect in counted.effects]
    return replace(model, effects=tuple(map(covered, model.effects, others)))


def _sums(x: np.ndarray, rows: np.ndarray, paired: bool) -> Differences:
    """Weighted sums `rows` (sums, cells) of the values x (cells, seeds): over the seeds that have every cell."""
    if not paired:
        return weighted_sums(x, rows)
    complete = np.where(np.isfinite(x).all(axis=0), x, np.nan)
    samples = rows @ complete
    samples = np.where(np.abs(samples) <= RELATIVE_ROUNDING * np.nanmax(np.abs(complete)), 0.0, samples)
    mean, deviation, n = moments(samples)
    return Differences(mean, n, deviation / np.sqrt(np.maximum(n, 1)), n - 1.0, np.isnan(deviation))
