"""The hypotheses of a claim, and how each is tested for and against it. Arrays in, numbers out; no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import stats

from analysis.stats.estimates import Estimate, mean, moments
from analysis.stats.power import fewest, power_beyond, power_of_equivalence
from analysis.stats.student import beyond, t_test, tost


@dataclass(frozen=True)
class Hypothesis(ABC):
    """The mean of `diffs` (seeds,), NaN where a seed cannot be used, stands in some relation to `bound`."""

    variants: tuple[str, ...]
    diffs: np.ndarray
    bound: float
    floor: float = 0.0
    """the smallest standard deviation of the differences (see `analysis.stats.estimates`)"""
    relation: ClassVar[Literal["above", "within"]]
    """how the mean stands to the bound if the hypothesis holds"""

    @property
    def moments(self) -> tuple[float, float, int]:
        """Mean, standard deviation and number of the differences."""
        centre, deviation, n = moments(self.diffs, self.floor)
        return float(centre), float(deviation), int(n)

    def estimate(self, alpha: float) -> Estimate:
        """The difference with the interval that goes with one-sided tests at alpha."""
        return mean(self.diffs, 1 - 2 * alpha, self.floor)

    @abstractmethod
    def p_for(self) -> float:
        """p-value of the hypothesis being false: small where the runs support it."""

    @abstractmethod
    def p_against(self) -> float:
        """p-value of the hypothesis being true: small where the runs contradict it."""

    @abstractmethod
    def leans_for(self) -> bool:
        """Whether the hypothesis holds if the observed mean is the true one."""

    @abstractmethod
    def power(self, n: np.ndarray, alpha: float, sd: float) -> np.ndarray:
        """Power with n seeds of the test that the observed mean leans towards, if mean and `sd` are the true ones."""

    @property
    def needs_prediction(self) -> bool:
        """Whether the observed mean can only be contradicted beyond the spread of a single run."""
        return False

    def missing(self, alpha: float, sd: float) -> int | None:
        """How many more seeds that test needs for 80 % power; None where no practical number is enough."""
        n = self.moments[2]
        needed = fewest(lambda seeds: self.power(seeds, alpha, sd), least=max(n + 1, 2))[0]
        return None if needed is None else needed - n


class AboveHypothesis(Hypothesis):
    """The mean difference is above the bound."""

    relation = "above"

    def p_for(self) -> float:
        return float(t_test(self.diffs, self.bound, "above", self.floor))

    def p_against(self) -> float:
        return float(t_test(self.diffs, self.bound, "below", self.floor))

    def leans_for(self) -> bool:
        return bool(beyond(self.moments[0], self.bound) > 0)

    def power(self, n: np.ndarray, alpha: float, sd: float) -> np.ndarray:
        return power_beyond(sd, abs(beyond(self.moments[0], self.bound)), n, alpha)


class AlikeHypothesis(Hypothesis):
    """The mean difference is within ±bound."""

    relation = "within"

    def p_for(self) -> float:
        return float(tost(self.diffs, self.bound, self.floor))

    def p_against(self) -> float:
        above = t_test(self.diffs, self.bound, "above", self.floor)
        below = t_test(self.diffs, -self.bound, "below", self.floor)
        return float(np.minimum(2 * np.minimum(above, below), 1))

    def leans_for(self) -> bool:
        return bool(beyond(abs(self.moments[0]), self.bound) < 0)

    def power(self, n: np.ndarray, alpha: float, sd: float) -> np.ndarray:
        centre = self.moments[0]
        if self.leans_for():
            return power_of_equivalence(sd, centre, self.bound, n, alpha)
        return power_beyond(sd, beyond(abs(centre), self.bound), n, alpha / 2)


class PublishedHypothesis(AlikeHypothesis):
    """The mean is within ±bound of a published figure.

    That figure is of one run. So it is contradicted only where it lies further away than another run would: by more than
    the bound plus the error of predicting a run, sd sqrt(1 + 1/n).
    """

    @property
    def needs_prediction(self) -> bool:
        return not self.leans_for() and not np.isnan(self.moments[1])

    def p_against(self) -> float:
        centre, deviation, n = self.moments
        away = beyond(abs(centre), self.bound)
        return float(np.minimum(2 * stats.t.sf(away / (deviation * np.sqrt(1 + 1 / max(n, 1))), n - 1), 1))

    def power(self, n: np.ndarray, alpha: float, sd: float) -> np.ndarray:
        if self.leans_for():
            return super().power(n, alpha, sd)
        critical = stats.t.isf(alpha / 2, n - 1) * np.sqrt(n + 1)
        shift = np.minimum(np.sqrt(n) * beyond(abs(self.moments[0]), self.bound) / sd, 1e4)
        return stats.nct.sf(critical, n - 1, shift)
