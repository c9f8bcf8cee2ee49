"""The kinds of published statement, and which hypotheses a study holds of each. No I/O."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from analysis.claims.hypotheses import AboveHypothesis, AlikeHypothesis, Hypothesis, PublishedHypothesis
from analysis.claims.settings import KIND, Values, differ_only, flat_settings, variant_settings
from analysis.stats.comparisons import paired
from experiments.study import StudyPlan


@dataclass(frozen=True)
class Claim(ABC):
    """A statement and where it was made. Subclasses say which hypotheses of a study decide it."""

    id: str
    statement: str
    source: str
    kind: ClassVar[str] = ""

    @abstractmethod
    def hypotheses(self, study: StudyPlan, values: Values, margin: float, floor: float = 0.0) -> list[Hypothesis]:
        """The hypotheses that the claim makes about a study; empty where it makes none.

        `floor` is the smallest standard deviation of one run.
        """


@dataclass(frozen=True)
class Above(Claim):
    """One level of a setting beats another, all else equal, by more than the margin or (`at_all`) by any amount."""

    kind: ClassVar[str] = "difference"
    path: str = KIND
    higher: frozenset[str] = frozenset()
    """levels; empty means all but `lower`"""
    lower: frozenset[str] = frozenset()
    at_all: bool = False

    def hypotheses(self, study: StudyPlan, values: Values, margin: float, floor: float = 0.0) -> list[Hypothesis]:
        settings = variant_settings(study, values)
        pairs = [
            (a, b)
            for a, b in permutations(settings, 2)
            if settings[b].get(self.path) in self.lower
            and self._is_higher(settings[a].get(self.path))
            and differ_only(settings[a], settings[b], self.path, study.tuned_settings)
        ]
        bound = 0.0 if self.at_all else margin
        return [
            AboveHypothesis((a, b), diffs, bound, math.sqrt(2) * floor) for (a, b), diffs in _differences(values, pairs)
        ]

    def _is_higher(self, level: object) -> bool:
        return level in self.higher if self.higher else level not in self.lower


@dataclass(frozen=True)
class Alike(Claim):
    """The levels of a setting differ by less than the margin, all else equal, for these kinds of embedding only."""

    kind: ClassVar[str] = "equivalence"
    path: str = KIND
    kinds: frozenset[str] = frozenset()
    """empty means all but none"""

    def hypotheses(self, study: StudyPlan, values: Values, margin: float, floor: float = 0.0) -> list[Hypothesis]:
        settings = {
            variant: found
            for variant, found in variant_settings(study, values).items()
            if found.get(KIND, "none") != "none" and (not self.kinds or found[KIND] in self.kinds)
        }
        pairs = [
            (a, b)
            for i, a in enumerate(settings)
            for b in list(settings)[:i]
            if settings[a].get(self.path) != settings[b].get(self.path)
            and differ_only(settings[a], settings[b], self.path, study.tuned_settings)
        ]
        return [
            AlikeHypothesis((a, b), diffs, margin, math.sqrt(2) * floor)
            for (a, b), diffs in _differences(values, pairs)
        ]


@dataclass(frozen=True)
class Published(Claim):
    """A preset reaches the test accuracy that its source reports, within the margin."""

    kind: ClassVar[str] = "published figure"
    preset: str = ""
    accuracy: float = float("nan")

    def hypotheses(self, study: StudyPlan, values: Values, margin: float, floor: float = 0.0) -> list[Hypothesis]:
        if study.preset != self.preset or study.metric != "test/acc":
            return []
        from experiments.presets import preset

        own = flat_settings(preset(self.preset).model_dump(mode="json"), {})
        return [
            PublishedHypothesis((variant,), np.array(list(values[variant].values())) - self.accuracy, margin, floor)
            for variant, settings in variant_settings(study, values).items()
            if settings == own
        ]


def _differences(values: Values, pairs: list[tuple[str, str]]) -> list[tuple[tuple[str, str], np.ndarray]]:
    """Each pair with its differences seed by seed (seeds,)."""
    if not pairs:
        return []
    a, b, _ = paired(values, pairs)
    return list(zip(pairs, a - b))
