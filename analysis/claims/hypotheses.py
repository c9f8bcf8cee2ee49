"""The comparisons that a claim stands on, and how each is tested for and against it. Arrays in, numbers out; no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import stats

from analysis.stats.comparisons import t_test, tost
from analysis.stats.estimates import Estimate, moments, t_interval
from analysis.stats.power import fewest, power_beyond, power_of_equivalence


@dataclass(frozen=True)
class Hypothesis(ABC):
    """One comparison: `diffs` (seeds,), NaN where a seed cannot be used, and the bound their mean is held against."""

    name: str
    variants: tuple[str, ...]
    diffs: np.ndarray
    bound: float
    relation: ClassVar[str] = ""
    """how the mean stands to the bound where the case holds, in words"""

    @property
    def moments(self) -> tuple[float, float, int]:
        """Mean, deviation and number of the differences."""
        centre, spread, n = moments(self.diffs)
        return float(centre), float(spread), int(n)

    def estimate(self, alpha: float) -> Estimate:
        """The difference with the interval that goes with one-sided tests at alpha."""
        centre, spread, n = self.moments
        low, high = t_interval(centre, spread / np.sqrt(max(n, 1)), n - 1, 1 - 2 * alpha)
        return Estimate(centre, float(low), float(high), n)

    @abstractmethod
    def p_for(self) -> float:
        """Small where the runs bear the case out: the p-value of its being false."""

    @abstractmethod
    def p_against(self) -> float:
        """Small where the runs speak against the case: the p-value of its being true."""

    @abstractmethod
    def leans_for(self) -> bool:
        """Whether the observed mean, taken for the truth, bears the case out."""

    @abstractmethod
    def power(self, n: np.ndarray, alpha: float) -> np.ndarray:
        """With n seeds, the power of the test towards which the observed mean leans, were that mean the true one."""

    @property
    def why_open(self) -> str:
        """Why no practical number of seeds would decide the case."""
        return "no practical number of seeds would settle it"

    def missing(self, alpha: float) -> int | None:
        """How many more seeds that test needs for 80 % power; None where no practical number does."""
        n = self.moments[2]
        needed = fewest(lambda seeds: self.power(seeds, alpha), least=max(n + 1, 2))[0]
        return None if needed is None else needed - n


class AboveHypothesis(Hypothesis):
    """The mean difference is above the bound."""

    relation = "more than "

    def p_for(self) -> float:
        return float(t_test(self.diffs, self.bound, "above"))

    def p_against(self) -> float:
        return float(t_test(self.diffs, self.bound, "below"))

    def leans_for(self) -> bool:
        return self.moments[0] > self.bound

    def power(self, n: np.ndarray, alpha: float) -> np.ndarray:
        centre, spread, _ = self.moments
        return power_beyond(spread, abs(centre - self.bound), n, alpha)


class AlikeHypothesis(Hypothesis):
    """The mean difference is within ±bound."""

    relation = "within ±"

    def p_for(self) -> float:
        return tost(self.diffs, self.bound)

    def p_against(self) -> float:
        sides = t_test(self.diffs, self.bound, "above"), t_test(self.diffs, -self.bound, "below")
        return float(np.minimum(2 * np.minimum(*sides), 1))

    def leans_for(self) -> bool:
        return abs(self.moments[0]) < self.bound

    def power(self, n: np.ndarray, alpha: float) -> np.ndarray:
        centre, spread, _ = self.moments
        if self.leans_for():
            return power_of_equivalence(spread, centre, self.bound, n, alpha)
        return power_beyond(spread, abs(centre) - self.bound, n, alpha / 2)


class HeadlineHypothesis(AlikeHypothesis):
    """The mean is within ±bound of a published figure.

    That figure is one run's. To count against it, it must lie further off than one more run of ours would: by the bound
    and by the error of predicting a run, sd sqrt(1 + 1/n).
    """

    @property
    def why_open(self) -> str:
        _, spread, _ = self.moments
        if self.leans_for() or np.isnan(spread):
            return super().why_open
        scatter = f"{100 * spread:.1f} points (standard deviation)"
        return f"single runs scatter by {scatter} here, too widely for one published run to be contradicted by any number of ours"

    def p_against(self) -> float:
        centre, spread, n = self.moments
        beyond = abs(centre) - self.bound
        if np.isnan(spread):
            return float("nan")
        if spread == 0:
            return float(beyond <= 0)
        return float(min(2 * stats.t.sf(beyond / (spread * np.sqrt(1 + 1 / n)), n - 1), 1))

    def power(self, n: np.ndarray, alpha: float) -> np.ndarray:
        centre, spread, _ = self.moments
        if self.leans_for():
            return super().power(n, alpha)
        critical = stats.t.isf(alpha / 2, n - 1) * np.sqrt(n + 1)
        shift = np.minimum(np.sqrt(n) * (abs(centre) - self.bound) / max(spread, 1e-12), 1e4)
        return stats.nct.sf(critical, n - 1, shift)
