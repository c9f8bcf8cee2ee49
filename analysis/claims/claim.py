"""The kinds of published statement, and which hypotheses a study holds of each. No I/O."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np

from analysis.claims.hypotheses import Hypothesis
from analysis.claims.settings import KIND, differ_only, flat_settings, variant_settings
from analysis.stats.comparisons import Values, paired
from experiments.study import StudyPlan


@dataclass(frozen=True)
class Claim(ABC):
    """A statement and where it was made. Subclasses say which hypotheses of a study decide it."""

    id: str
    statement: str
    source: str

    @abstractmethod
    def hypotheses(self, study: StudyPlan, values: Values, floor: float = 0.0) -> list[Hypothesis]:
        """The hypotheses that the claim makes about a study, with its margin; empty where it makes none.

        `floor` is the smallest standard deviation of one run.
        """


@dataclass(frozen=True)
class Above(Claim):
    """One level of a setting beats another, all else equal, by more than the margin or (`at_all`) by any amount."""

    path: str = KIND
    higher: frozenset[str] = frozenset()
    """levels; empty means all but `lower`"""
    lower: frozenset[str] = frozenset()
    at_all: bool = False

    def hypotheses(self, study: StudyPlan, values: Values, floor: float = 0.0) -> list[Hypothesis]:
        settings = variant_settings(study, values)
        level = {variant: settings[variant].get(self.path) for variant in settings}
        pairs = [
            (a, b)
            for a, b in permutations(settings, 2)
            if level[b] in self.lower
            and (level[a] in self.higher if self.higher else level[a] not in self.lower)
            and differ_only(settings[a], settings[b], self.path, study.tuned_settings)
        ]
        return _on_pairs(values, pairs, "above", 0.0 if self.at_all else study.margin, floor)


@dataclass(frozen=True)
class Alike(Claim):
    """The levels of a setting differ by less than the margin, all else equal, for these kinds of embedding only."""

    path: str = KIND
    kinds: frozenset[str] = frozenset()
    """empty means all but none"""

    def hypotheses(self, study: StudyPlan, values: Values, floor: float = 0.0) -> list[Hypothesis]:
        settings = {
            variant: own
            for variant, own in variant_settings(study, values).items()
            if own.get(KIND, "none") != "none" and (not self.kinds or own[KIND] in self.kinds)
        }
        pairs = [
            (a, b)
            for i, a in enumerate(settings)
            for b in list(settings)[:i]
            if settings[a].get(self.path) != settings[b].get(self.path)
            and differ_only(settings[a], settings[b], self.path, study.tuned_settings)
        ]
        return _on_pairs(values, pairs, "within", study.margin, floor)


@dataclass(frozen=True)
class Published(Claim):
    """A preset reaches the test accuracy that its source reports, within the margin."""

    preset: str = ""
    accuracy: float = math.nan

    def hypotheses(self, study: StudyPlan, values: Values, floor: float = 0.0) -> list[Hypothesis]:
        if study.preset != self.preset or study.metric != "test/acc":
            return []
        from experiments.presets import preset

        published = flat_settings(preset(self.preset).model_dump(mode="json"), {})
        return [
            Hypothesis((variant,), np.array([*values[variant].values()]) - self.accuracy, "within", study.margin, floor)
            for variant, settings in variant_settings(study, values).items()
            if settings == published
        ]


def _on_pairs(
    values: Values, pairs: Iterable[tuple[str, str]], relation: Literal["above", "within"], bound: float, floor: float
) -> list[Hypothesis]:
    """A hypothesis on the differences of each pair, seed by seed."""
    if not (pairs := list(pairs)):
        return []
    a, b, _ = paired(values, pairs)
    return [Hypothesis(pair, row, relation, bound, math.sqrt(2) * floor) for pair, row in zip(pairs, a - b)]
