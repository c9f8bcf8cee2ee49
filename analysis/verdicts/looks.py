"""Tests at each of several planned numbers of seeds (group-sequential tests): "Looks" in README.md says why.

A look at a share t_k of the final number of seeds has t_k^3 - t_{k-1}^3 of the level (Bonferroni): early looks get
little, and the last one is nearly as strict as a single test. A pair is judged by the interval of the last look only.

Source of the shares: Kim and DeMets, Biometrika 74 (1987), 149-154. They also use that the tests of several looks are
correlated; at the last of 5, 8, 12 and 20 seeds, intervals would be 1 to 4 % narrower.
"""

from dataclasses import dataclass

import numpy as np

from analysis.verdicts.estimates import ALPHA


@dataclass(frozen=True)
class Looks:
    """The looks that a study plans, and how far it has come. Without a plan (`NO_PLAN`, false) all seeds are one look.

    Tests use the seeds of the last planned look that is reached: one for whose seeds all runs have ended. Seeds beyond
    it are not tested before the next planned look, and never after the last one.
    """

    plan: tuple[int, ...] = ()  # the planned numbers of seeds
    complete: tuple[int, ...] = ()  # the seeds of which all runs have ended, in the planned order

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

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the level that each planned look has; they sum to 1."""
        plan = self.plan or (1,)
        return tuple(np.diff([(n / plan[-1]) ** 3 for n in (0, *plan)]).tolist())

    @property
    def share(self) -> float:
        """The share of the level that the current look has."""
        return self.shares[len(self.reached) - 1]

    @property
    def confidence(self) -> float:
        """The confidence level of an interval of differences: it is wider where several looks share `ALPHA`."""
        return 1 - ALPHA * self.share


NO_PLAN = Looks()
