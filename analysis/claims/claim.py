"""The kinds of published statement, which hypotheses a study holds of each, and how these are tested. No I/O."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Literal

import numpy as np
from scipy import special

from analysis.sources.settings import PLACES
from analysis.stats.comparisons import Rule, Values, differences_at_looks
from analysis.stats.differences import Differences, differences
from analysis.stats.estimates import ALPHA, Estimate, beyond
from analysis.stats.looks import NO_PLAN, Looks
from experiments.data.catalogue import DATASETS
from experiments.metric import Metric
from experiments.study import StudyPlan
from vit.registry import REGISTRY

KIND, SITE, HEAD, SHUFFLED = "model.pos_embed", "model.pos_site", "model.head", "data.shuffle_patches"


Images = Literal["trained", "larger", "permuted"]
"""The test images of an accuracy: as in training, larger than these, or with permuted patches."""


@dataclass(frozen=True)
class Hypothesis:
    """The mean difference of one pair is "above" `bound`, or "within" ±`bound`.

    `variants`: (a, b) for a - b, or (a,) for a - a published figure. That figure is of one run. So it is contradicted
    only where it lies further away than another run would: by more than the bound plus the error of predicting a run,
    sd sqrt(1 + 1/n). `at_looks`: the difference at each look so far; the last is that of all seeds.
    """

    variants: tuple[str, ...]
    at_looks: Sequence[Differences]
    relation: Literal["above", "within"]
    bound: float

    @property
    def moments(self) -> tuple[float, float, int]:
        """Mean, standard deviation and number of the differences."""
        now = self.at_looks[-1]
        return float(now.mean[0]), float(now.sd[0]), int(now.n[0])

    @property
    def is_published(self) -> bool:
        """Whether it is about a published figure of one run."""
        return len(self.variants) == 1

    def estimate(self, alpha: float) -> Estimate:
        """The difference with the interval that goes with one-sided tests at alpha."""
        return self.at_looks[-1].estimates(1 - 2 * alpha)[0]

    def p_for(self, looks: Looks = NO_PLAN) -> float:
        """p-value of the hypothesis being false: small where the runs support it.

        With planned looks: of all looks so far.
        """
        return float(looks.smallest_p(map(self._for, self.at_looks))[0][0])

    def p_against(self, looks: Looks = NO_PLAN) -> float:
        """p-value of the hypothesis being true: small where the runs contradict it."""
        return float(looks.smallest_p(map(self._against, self.at_looks))[0][0])

    def _for(self, at: Differences) -> np.ndarray:
        return at.t_test(self.bound, "above") if self.relation == "above" else at.tost(self.bound)

    def _against(self, at: Differences) -> np.ndarray:
        if self.relation == "above":
            return at.t_test(self.bound, "below")
        if self.is_published:
            t = beyond(np.abs(at.mean), self.bound) / (at.sd * np.sqrt(1 + 1 / np.maximum(at.n, 1)))
            return np.minimum(2 * special.stdtr(at.n - 1, -t), 1)
        above, below = at.t_test(self.bound, "above"), at.t_test(-self.bound, "below")
        return np.minimum(2 * np.minimum(above, below), 1)

    def support(self, alpha: float) -> float:
        """How far the interval of `estimate` stays on the side of the hypothesis; below 0 where it does not."""
        found = self.estimate(alpha)
        low, high = (found.low, found.high) if found.low == found.low else (found.value, found.value)
        return low - self.bound if self.relation == "above" else self.bound - max(-low, high)

    def leans_for(self) -> bool:
        """Whether the hypothesis holds if the observed mean is the true one."""
        centre = self.moments[0]
        return bool(beyond(centre, self.bound) > 0 if self.relation == "above" else beyond(abs(centre), self.bound) < 0)


@dataclass(frozen=True)
class Claim(ABC):
    """A statement and where it was made. Subclasses say which hypotheses of a study decide it."""

    id: str
    statement: str
    source: str
    """empty for a question of our own"""
    quote: str = field(default="", kw_only=True)
    """what the source says, in its words or figures"""
    incomparable: str = field(default="", kw_only=True)
    """why no study here repeats what the source did; empty where one can"""
    images: Images = field(default="trained", kw_only=True)
    """the test images of its accuracies"""
    both_work: bool = field(default=False, kw_only=True)
    """whether it ranks two kinds only where both are shown to be better than none, whichever leads"""
    where: tuple[str, Any] | None = field(default=None, kw_only=True)
    """a setting, and the level that the variants have which it is about"""

    def is_about(self, settings: Mapping[str, Any]) -> bool:
        """Whether a variant with these settings has the level of `where`."""
        return self.where is None or settings.get(self.where[0]) == self.where[1]

    @abstractmethod
    def hypotheses(self, study: StudyPlan, values: Values, rule: Rule) -> list[Hypothesis]:
        """The hypotheses that the claim makes about a study, with the rule's margin; empty where it makes none."""

    def obstacle(self, hypotheses: Sequence[Hypothesis], study: StudyPlan, values: Values, rule: Rule) -> str:
        """Why the study cannot decide the claim although it has `hypotheses`; empty where it can."""
        if self.incomparable or not (self.both_work or self.images == "larger"):
            return self.incomparable
        # that the first is better takes two models that work; the opposite only the second
        needed = [
            name
            for one in hypotheses
            for name in (one.variants if self.both_work or one.leans_for() else one.variants[1:])
        ]
        return _collapsed(dict.fromkeys(needed), study, values, rule)


def _collapsed(compared: Iterable[str], study: StudyPlan, values: Values, rule: Rule) -> str:
    """Which of these variants is not shown to be better than the one without embedding by more than the margin.

    A ranking of models that have lost what they learned says nothing about their embeddings.
    """
    pairs = _on_pairs(study, values, KIND, lambda a, b: b.get(KIND) == "none", "above", rule.bound, rule)
    clear = {pair.variants[0] for pair in pairs if pair.p_for(rule.looks) <= ALPHA}
    low = [variant for variant in compared if variant not in clear]
    verb = "is" if len(low) == 1 else "are"
    return (
        f"{' and '.join(low)} {verb} not clearly better than a model without embedding on these images" if low else ""
    )


@dataclass(frozen=True)
class Above(Claim):
    """One level of a setting beats another, all else equal, by more than the margin or (`at_all`) by any amount."""

    path: str = KIND
    higher: frozenset[Any] = frozenset()
    """levels; empty means all but `lower`"""
    lower: frozenset[Any] = frozenset()
    """levels; empty means all that are smaller numbers"""
    at_all: bool = False

    def hypotheses(self, study: StudyPlan, values: Values, rule: Rule) -> list[Hypothesis]:
        def concerns(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
            level = a.get(self.path)
            wins = level in self.higher if self.higher else level not in self.lower
            allowed = self.is_about(a) and (is_enlarged(Metric(study.metric), a) or self.images != "larger")
            if not self.lower:
                return allowed and level is not None and level > b[self.path]
            return allowed and wins and b.get(self.path) in self.lower

        return _on_pairs(study, values, self.path, concerns, "above", 0.0 if self.at_all else rule.bound, rule)


@dataclass(frozen=True)
class Alike(Claim):
    """The levels of a setting differ by less than the margin, all else equal, for these kinds of embedding only."""

    path: str = KIND
    kinds: frozenset[str] = frozenset()
    """empty means all but none"""
    levels: frozenset[Any] = frozenset()
    """empty means all levels of the setting"""

    def hypotheses(self, study: StudyPlan, values: Values, rule: Rule) -> list[Hypothesis]:
        def concerns(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
            kinds = {a.get(KIND, "none"), b.get(KIND, "none")}
            allowed = kinds <= self.kinds if self.kinds else "none" not in kinds
            if "none" in self.kinds and "none" not in kinds:  # it is about leaving the embedding out
                return False
            levels = {a.get(self.path), b.get(self.path)}
            return allowed and self.is_about(a) and len(levels) == 2 and (not self.levels or levels <= self.levels)

        return _on_pairs(study, values, self.path, concerns, "within", rule.bound, rule)


@dataclass(frozen=True)
class Published(Claim):
    """A preset reaches the test accuracy that its source reports, within the margin."""

    preset: str = ""
    accuracy: float = math.nan

    def hypotheses(self, study: StudyPlan, values: Values, rule: Rule) -> list[Hypothesis]:
        if study.preset != self.preset or study.metric != "test/acc":
            return []
        from experiments.presets import preset

        published = flat_settings(preset(self.preset).model_dump(mode="json"), {})
        reproduced = [v for v, settings in variant_settings(study, values).items() if settings == published]
        return [
            Hypothesis((variant,), self._away(variant, values[variant], rule), "within", rule.bound)
            for variant in reproduced
        ]

    def _away(self, variant: str, runs: Mapping[int, float], rule: Rule) -> list[Differences]:
        """How far the runs are from the published accuracy, at each look so far."""
        values, floor = np.array([*runs.values()]), rule.floor / math.sqrt(2)  # of one run
        both, one, other = np.stack([values, np.full_like(values, self.accuracy)]), np.array([0]), np.array([1])
        reached = rule.looks.of([variant]).reached
        return [differences(both[:, :n], one, other, floor, "paired") for n in reached]


def _on_pairs(
    study: StudyPlan,
    values: Values,
    path: str,
    concerns: Callable[[Mapping[str, Any], Mapping[str, Any]], bool],
    relation: Literal["above", "within"],
    bound: float,
    rule: Rule,
) -> list[Hypothesis]:
    """A hypothesis on each pair of variants whose settings it `concerns` and that differ in `path` only.

    The differences are seed by seed. A pair whose order does not matter ("within") counts once.
    """
    pairs = [
        (a, b)
        for (i, (a, higher)), (j, (b, lower)) in permutations(enumerate(variant_settings(study, values).items()), 2)
        if (relation == "above" or i > j)
        and concerns(higher, lower)
        and differ_only(higher, lower, path, study.tuned_settings)
    ]
    if not pairs:
        return []
    at_looks = differences_at_looks(values, pairs, rule)
    reached = [at_looks[: len(rule.looks.of(pair).reached)] for pair in pairs]
    return [Hypothesis(pair, [at[i] for at in reached[i]], relation, bound) for i, pair in enumerate(pairs)]


def site_of(kind: str, site: str | None = None) -> str:
    """The site where a kind acts: `site`, or the kind's natural site where none is set ("stem" for an unknown kind)."""
    if site is not None and site != "natural":
        return site
    return REGISTRY[kind].sites[0] if kind in REGISTRY else "stem"


def variant_settings(study: StudyPlan, values: Values) -> dict[str, dict[str, Any]]:
    """Variant -> all its settings by dotted path, with the site resolved and those that were tuned for it.

    Variants without values and controls are left out.
    """
    runs = study.variants
    settings = {variant: flat_settings(study.base, runs[variant].settings) for variant in values if variant in runs}
    return {variant: own for variant, own in settings.items() if not is_control(own)}


def is_enlarged(metric: Metric, settings: Mapping[str, Any]) -> bool:
    """Whether a metric is measured on images that are larger than those in training."""
    dataset = DATASETS.get(settings.get("data.name", ""))
    trained = settings.get("data.img_size") or (dataset and dataset.img_size)
    return bool(metric.img_size and trained and metric.img_size > trained)


def is_control(settings: Mapping[str, Any]) -> bool:
    """Whether runs with these settings say nothing about a published figure: shuffled or generated images."""
    dataset = DATASETS.get(settings.get("data.name", ""))
    return bool(settings.get(SHUFFLED)) or (dataset is not None and dataset.source == "generated")


def flat_settings(config: Mapping, levels: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration, overridden by `levels`, as dotted path -> value.

    The seed and file locations are left out.
    """
    sections = {section: inner for section, inner in config.items() if isinstance(inner, Mapping)}
    flat = {f"{section}.{field}": value for section, inner in sections.items() for field, value in inner.items()}
    flat = {path: value for path, value in (flat | dict(levels)).items() if path not in PLACES}
    if KIND in flat:
        flat[SITE] = site_of(flat[KIND], flat.get(SITE))
    return flat


def differ_only(a: Mapping[str, Any], b: Mapping[str, Any], path: str, tuned: Collection[str]) -> bool:
    """Whether two variants are equal but for `path` and the `tuned` settings.

    Kinds are compared at one site, or each at its natural site.
    """
    if any(a.get(other) != b.get(other) for other in (a.keys() | b.keys()) - {path, SITE, *tuned}):
        return False
    natural = all(settings.get(SITE) == site_of(settings.get(KIND, "")) for settings in (a, b))
    return path == SITE or a.get(SITE) == b.get(SITE) or (path == KIND and natural)
