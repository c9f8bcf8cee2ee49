"""The hypotheses of a claim, and how each is tested for and against it. Arrays in, numbers out; no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from analysis.stats.estimates import Estimate, mean, moments
from analysis.stats.looks import NO_PLAN, Looks
from analysis.stats.power import fewest, noncentral_sf, power_beyond, power_of_equivalence
from analysis.stats.student import beyond, t_test, tost


@dataclass(frozen=True)
class Hypothesis:
    """The mean of `diffs` (seeds,), NaN where a seed cannot be used, is "above" `bound`, or "within" ±`bound`.

    `variants`: (a, b) for a - b, or (a,) for a - a published figure. That figure is of one run. So it is contradicted only
    where it lies further away than another run would: by more than the bound plus the error of predicting a run,
    sd sqrt(1 + 1/n). `floor`: the smallest standard deviation of the differences (see `analysis.stats.estimates`).
    """

    variants: tuple[str, ...]
    diffs: np.ndarray
    relation: Literal["above", "within"]
    bound: float
    floor: float = 0.0

    @property
    def moments(self) -> tuple[float, float, int]:
        """Mean, standard deviation and number of the differences."""
        centre, deviation, n = moments(self.diffs, self.floor)
        return float(centre), float(deviation), int(n)

    @property
    def is_published(self) -> bool:
        """Whether it is about a published figure of one run."""
        return len(self.variants) == 1

    def estimate(self, alpha: float) -> Estimate:
        """The difference with the interval that goes with one-sided tests at alpha."""
        return mean(self.diffs, 1 - 2 * alpha, self.floor)

    def p_for(self, looks: Looks = NO_PLAN) -> float:
        """p-value of the hypothesis being false: small where the runs support it. With planned looks: of all looks so far."""
        return float(looks.p_value(self._for, self.diffs)[0])

    def p_against(self, looks: Looks = NO_PLAN) -> float:
        """p-value of the hypothesis being true: small where the runs contradict it."""
        return float(looks.p_value(self._against, self.diffs)[0])

    def _for(self, diffs: np.ndarray) -> np.ndarray:
        if self.relation == "above":
            return t_test(diffs, self.bound, "above", self.floor)
        return tost(diffs, self.bound, self.floor)

    def _against(self, diffs: np.ndarray) -> np.ndarray:
        if self.relation == "above":
            return t_test(diffs, self.bound, "below", self.floor)
        if self.is_published:
            centre, deviation, n = moments(diffs, self.floor)
            t = beyond(np.abs(centre), self.bound) / (deviation * np.sqrt(1 + 1 / np.maximum(n, 1)))
            return np.minimum(2 * special.stdtr(n - 1, -t), 1)
        above = t_test(diffs, self.bound, "above", self.floor)
        below = t_test(diffs, -self.bound, "below", self.floor)
        return np.minimum(2 * np.minimum(above, below), 1)

    def leans_for(self) -> bool:
        """Whether the hypothesis holds if the observed mean is the true one."""
        centre = self.moments[0]
        return bool(beyond(centre, self.bound) > 0 if self.relation == "above" else beyond(abs(centre), self.bound) < 0)

    def more_seeds(self, alpha: float, sd: float) -> int | None:
        """How many more seeds the test that the mean leans towards needs for 80 % power, if the mean and `sd` are true.

        None where no practical number is enough.
        """
        n = self.moments[2]
        needed = fewest(lambda seeds: self._power(seeds, alpha, sd), least=max(n + 1, 2))[0]
        return None if needed is None else needed - n

    def _power(self, n: np.ndarray, alpha: float, sd: float) -> np.ndarray:
        centre = self.moments[0]
        if self.relation == "above":
            return power_beyond(sd, abs(beyond(centre, self.bound)), n, alpha)
        if self.leans_for():
            return power_of_equivalence(sd, centre, self.bound, n, alpha)
        away = beyond(abs(centre), self.bound)
        if not self.is_published:
            return power_beyond(sd, away, n, alpha / 2)
        critical = -special.stdtrit(n - 1, alpha / 2) * np.sqrt(n + 1)
        return noncentral_sf(critical, n - 1, np.minimum(np.sqrt(n) * away / sd, 1e4))
