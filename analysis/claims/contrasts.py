"""Claims about how one setting depends on another: numbers of each seed that combine the runs of several variants.

No I/O.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from analysis.claims.claim import Claim, Hypothesis, differ_only, variant_settings
from analysis.stats.comparisons import Rule, Values
from analysis.stats.differences import paired_differences
from experiments.study import StudyPlan

Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Contrast(Claim):
    """A number of each seed, of variants that differ in `path`, is larger at the level `more` of `by` than at `less`.

    `more`, `less`: None stands for the highest and the lowest level of the study.
    """

    path: str = ""
    by: str = ""
    more: Any = None
    less: Any = None

    def hypotheses(self, study: StudyPlan, values: Values, rule: Rule) -> list[Hypothesis]:
        settings = variant_settings(study, values)
        at_more, at_less = self._ends(settings)
        if at_more == at_less:
            return []
        tuned = study.tuned_settings
        partner = {
            v: w
            for v, own in settings.items()
            for w, other in settings.items()
            if (own.get(self.by), other.get(self.by)) == (at_more, at_less) and differ_only(own, other, self.by, tuned)
        }
        groups = self._groups({v: settings[v] for v in partner}, tuned)
        return [self._hypothesis(group, tuple(partner[v] for v in group), values, rule) for group in groups]

    def obstacle(self, hypotheses: Sequence[Hypothesis], study: StudyPlan, values: Values, rule: Rule) -> str:
        """Also where a level of `path` is best at an end of the tried levels of `by`: its best may lie beyond."""
        settings = variant_settings(study, values)
        means = {variant: np.mean([*values[variant].values()]) for variant in settings}
        for level in dict.fromkeys(own[self.path] for own in settings.values()) if self.more is None else ():
            best = max((v for v, own in settings.items() if own[self.path] == level), key=means.__getitem__)
            if settings[best][self.by] in self._ends(settings):
                return f"{level} is best at an end of what was tried, {self.by} = {settings[best][self.by]:g}"
        return super().obstacle(hypotheses, study, values, rule)

    def _ends(self, settings: Settings) -> tuple[Any, Any]:
        levels = [own[self.by] for own in settings.values() if self.by in own]
        if self.more is None and levels:
            return max(levels), min(levels)
        return (self.more, self.less) if {self.more, self.less} <= set(levels) else (None, None)

    def _hypothesis(self, more: tuple[str, ...], less: tuple[str, ...], values: Values, rule: Rule) -> Hypothesis:
        variants = (*more, *less)
        seeds = [seed for seed in values[variants[0]] if all(seed in values[v] for v in variants)]
        runs = np.array([[values[v][seed] for seed in seeds] for v in variants]).reshape(2, len(more), len(seeds))
        of_seeds = self._of_seeds(runs[0]) - self._of_seeds(runs[1])
        reached = rule.looks.of(variants).reached
        at_looks = [paired_differences(of_seeds[None, :n], rule.floor * np.sqrt(2)) for n in reached]
        return Hypothesis(variants, at_looks, "above", 0.0)

    @abstractmethod
    def _groups(self, settings: Settings, tuned: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The groups of variants at `more` of which the number is made."""

    @abstractmethod
    def _of_seeds(self, runs: np.ndarray) -> np.ndarray:
        """The number of each seed (seeds,) from the runs (variants, seeds) of a group."""


@dataclass(frozen=True)
class Gain(Contrast):
    """The gain of the levels `higher` of `path` over `lower` is larger at `more` of `by` than at `less`."""

    higher: frozenset[str] = frozenset()
    lower: frozenset[str] = frozenset()

    def _groups(self, settings: Settings, tuned: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for a, gained in settings.items():
            for b, other in settings.items():
                levels = gained.get(self.path) in self.higher and other.get(self.path) in self.lower
                if levels and differ_only(gained, other, self.path, tuned):
                    yield a, b

    def _of_seeds(self, runs: np.ndarray) -> np.ndarray:
        return runs[0] - runs[1]


@dataclass(frozen=True)
class Sensitivity(Contrast):
    """The standard deviation over the levels of `path` is larger at `more` of `by` than at `less`, also without any
    one level.
    """

    def _groups(self, settings: Settings, tuned: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        left = dict(settings)
        while left:
            first = next(iter(left.values()))
            group = tuple(v for v, own in left.items() if differ_only(own, first, self.path, tuned))
            left = {v: own for v, own in left.items() if v not in group}
            if len(group) > 2:
                yield from (group, *combinations(group, len(group) - 1))

    def _of_seeds(self, runs: np.ndarray) -> np.ndarray:
        return runs.std(axis=0, ddof=1)
