"""The kinds of published statement, and which hypotheses a study holds of each. No I/O."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from itertools import chain
from typing import Any, Literal

import numpy as np

from analysis.runs.settings import PLACES
from analysis.verdicts.comparisons import Comparison, Rule, Values
from analysis.verdicts.estimates import UNKNOWN, Estimate, moments, t_interval
from experiments.catalogue import DATASETS
from experiments.metric import Metric
from experiments.study import StudyPlan
from vit.registry import site_of

KIND, SITE, HEAD, SHUFFLED = "model.pos_embed", "model.pos_site", "model.head", "data.shuffle_patches"

Images = Literal["trained", "larger", "permuted"]
"""The test images of an accuracy: as in training, larger than these, or with permuted patches."""


@dataclass(frozen=True)
class Evidence:
    """What a study shows. `pairs`: (a, b) -> a - b; `counted`: the values where diverged runs count as runs at chance
    level, None where no run diverged.
    """

    study: StudyPlan
    values: Values
    pairs: Mapping[tuple[str, str], Comparison]
    rule: Rule
    counted: Values | None = None

    def interval(self, a: str, b: str) -> Estimate:
        """The difference a - b with its interval for all pairs of the study; unknown for a pair not compared."""
        if (a, b) in self.pairs:
            return self.pairs[a, b].adjusted
        inverse = self.pairs[b, a].adjusted if (b, a) in self.pairs else UNKNOWN
        return Estimate(-inverse.value, -inverse.high, -inverse.low, inverse.n)


@dataclass(frozen=True)
class Hypothesis:
    """A difference is "above" `bound`, or "within" ±`bound`."""

    variants: tuple[str, ...]  # (a, b) for a - b, or (a,) for a - a published figure
    interval: Estimate
    relation: Literal["above", "within"]
    bound: float

    @property
    def is_published(self) -> bool:
        """Whether it is about a published figure of one run."""
        return len(self.variants) == 1

    @property
    def tested(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.interval.low)

    @property
    def shown(self) -> bool:
        """Whether the interval lies on the side that the hypothesis says."""
        low, high = self.interval.low, self.interval.high
        return low > self.bound if self.relation == "above" else -self.bound <= low and high <= self.bound

    @property
    def contradicted(self) -> bool:
        """Whether the interval lies on the other side."""
        low, high = self.interval.low, self.interval.high
        return high < self.bound if self.relation == "above" else low > self.bound or high < -self.bound

    @property
    def support(self) -> float:
        """How far the interval stays on the side of the hypothesis; below 0 where it does not."""
        found = self.interval
        low, high = (found.value, found.value) if math.isnan(found.low) else (found.low, found.high)
        return low - self.bound if self.relation == "above" else self.bound - max(-low, high)

    @property
    def leans_for(self) -> bool:
        """Whether the hypothesis holds if the observed mean is the true one."""
        centre = self.interval.value
        return centre > self.bound if self.relation == "above" else abs(centre) < self.bound


@dataclass(frozen=True)
class Claim(ABC):
    """A statement and where it was made. Subclasses say which hypotheses of a study decide it."""

    id: str
    statement: str
    source: str = ""  # empty for a question of our own
    _: KW_ONLY
    quote: str = ""  # what the source says, in its words or figures
    incomparable: str = ""  # why no study here repeats what the source did; empty where one can
    images: Images = "trained"  # the test images of its accuracies
    both_work: bool = False  # it ranks two kinds only where both are shown to be better than none, whichever leads
    fewest_tokens: int = 0  # of an image in training, with which a study can decide it
    where: tuple[str, Any] | None = None  # a setting, and the level that the variants have which it is about

    def is_about(self, settings: Mapping[str, Any]) -> bool:
        """Whether a variant with these settings has the level of `where`."""
        return self.where is None or settings.get(self.where[0]) == self.where[1]

    @abstractmethod
    def hypotheses(self, evidence: Evidence) -> list[Hypothesis]:
        """The hypotheses that the claim makes about a study, with the rule's margin; empty where it makes none."""

    def obstacle(self, hypotheses: Sequence[Hypothesis], evidence: Evidence) -> str:
        """Why the study cannot decide the claim although it has `hypotheses`; empty where it can."""
        if self.incomparable or not (self.both_work or self.images == "larger"):
            return self.incomparable
        settings = variant_settings(evidence.study, evidence.values)
        tokens = [_tokens(settings[variant]) for one in hypotheses for variant in one.variants]
        if (fewest := min(tokens, default=math.inf)) < self.fewest_tokens:
            return f"an image has {fewest:.0f} tokens in training, and the claim is about {self.fewest_tokens} or more"
        # A ranking of models that have lost what they learned says nothing about their embeddings.
        pairs = _on_pairs(evidence, KIND, lambda a, b: b.get(KIND) == "none", "above", evidence.rule.bound)
        clear = {pair.variants[0] for pair in pairs if pair.shown}
        # that the first is better takes two models that work; the opposite only the second
        needed = (one.variants if self.both_work or one.leans_for else one.variants[1:] for one in hypotheses)
        low = [variant for variant in dict.fromkeys(chain(*needed)) if variant not in clear]
        verb = "is" if len(low) == 1 else "are"
        named = f"{' and '.join(low)} {verb} not clearly better than a model without embedding on these images"
        return named if low else ""


@dataclass(frozen=True)
class Above(Claim):
    """One level of a setting beats another, all else equal, by more than the margin or (`at_all`) by any amount."""

    path: str = KIND
    higher: frozenset[Any] = frozenset()  # levels; empty means all but `lower`
    lower: frozenset[Any] = frozenset()  # levels; empty means all that are smaller numbers
    at_all: bool = False

    def hypotheses(self, evidence: Evidence) -> list[Hypothesis]:
        def concerns(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
            level = a.get(self.path)
            wins = level in self.higher if self.higher else level not in self.lower
            allowed = self.is_about(a) and (is_enlarged(Metric(evidence.study.metric), a) or self.images != "larger")
            if not self.lower:
                return allowed and level is not None and level > b[self.path]
            return allowed and wins and b.get(self.path) in self.lower

        return _on_pairs(evidence, self.path, concerns, "above", 0.0 if self.at_all else evidence.rule.bound)


@dataclass(frozen=True)
class Alike(Claim):
    """The levels of a setting differ by less than the margin, all else equal, for these kinds of embedding only."""

    path: str = KIND
    kinds: frozenset[str] = frozenset()  # empty means all but none
    levels: frozenset[Any] = frozenset()  # empty means all levels of the setting

    def hypotheses(self, evidence: Evidence) -> list[Hypothesis]:
        def concerns(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
            kinds = {a.get(KIND, "none"), b.get(KIND, "none")}
            allowed = kinds <= self.kinds if self.kinds else "none" not in kinds
            if "none" in self.kinds and "none" not in kinds:  # it is about leaving the embedding out
                return False
            levels = {a.get(self.path), b.get(self.path)}
            return allowed and self.is_about(a) and len(levels) == 2 and (not self.levels or levels <= self.levels)

        return _on_pairs(evidence, self.path, concerns, "within", evidence.rule.bound)


@dataclass(frozen=True)
class Published(Claim):
    """A preset reaches the test accuracy that its source reports, within the margin.

    The figure is of one run, so it is compared with the mean's own interval, widened by the error of one run: the
    interval for one more run, mean ± t sd sqrt(1 + 1/n).
    """

    preset: str = ""
    accuracy: float = math.nan

    def hypotheses(self, evidence: Evidence) -> list[Hypothesis]:
        study, bound = evidence.study, evidence.rule.bound
        if study.preset != self.preset or study.metric != "test/acc":
            return []
        from experiments.presets import preset

        published = flat_settings(preset(self.preset).model_dump(mode="json"), {})
        return [
            Hypothesis((variant,), self._away(variant, evidence), "within", bound)
            for variant, settings in variant_settings(study, evidence.values).items()
            if settings == published
        ]

    def _away(self, variant: str, evidence: Evidence) -> Estimate:
        """How far one more run is from the published accuracy, whether diverged runs count or not."""
        rule, found = evidence.rule, list[Estimate]()
        for values in filter(None, (evidence.values, evidence.counted)):
            centre, deviation, n = moments(np.array([*values[variant].values()]), rule.floor / math.sqrt(2))
            error, level = deviation * np.sqrt(1 + 1 / np.maximum(n, 1)), rule.looks.of([variant]).confidence
            low, high = t_interval(centre - self.accuracy, error, n - 1, level)
            found.append(Estimate(float(centre) - self.accuracy, float(low), float(high), int(n)))
        return reduce(Estimate.covering, found)


def _on_pairs(
    evidence: Evidence,
    path: str,
    concerns: Callable[[Mapping[str, Any], Mapping[str, Any]], bool],
    relation: Literal["above", "within"],
    bound: float,
) -> list[Hypothesis]:
    """A hypothesis on each pair that it `concerns` and that differs in `path` only; "within" takes a pair once."""
    settings = variant_settings(evidence.study, evidence.values)
    varied, place = {path, SITE, *evidence.study.tuned_settings}, {variant: i for i, variant in enumerate(settings)}
    same = {variant: _hashable(own, varied) for variant, own in settings.items()}
    alike: dict[Any, list[str]] = {}
    for variant, key in same.items():
        alike.setdefault(key, []).append(variant)
    return [
        Hypothesis((a, b), evidence.interval(a, b), relation, bound)
        for a, key in same.items()
        for b in alike[key]
        if a != b and (relation == "above" or place[a] > place[b])
        if concerns(settings[a], settings[b]) and _at_one_site(settings[a], settings[b], path)
    ]


def _hashable(settings: Mapping[str, Any], but: Collection[str]) -> frozenset[Any]:
    """The settings but those of `but`, equal for equal settings. None is a setting that is not there."""
    kept = {path: value for path, value in settings.items() if path not in but and value is not None}
    return frozenset((path, repr(value) if isinstance(value, list | dict) else value) for path, value in kept.items())


def _at_one_site(a: Mapping[str, Any], b: Mapping[str, Any], path: str) -> bool:
    """Whether two variants act at one site, unless this is what is compared; kinds also each at its natural site."""
    natural = all(settings.get(SITE) == site_of(settings.get(KIND, "")) for settings in (a, b))
    return path == SITE or a.get(SITE) == b.get(SITE) or (path == KIND and natural)


def variant_settings(study: StudyPlan, values: Values) -> dict[str, dict[str, Any]]:
    """Variant -> all its settings by dotted path, tuned ones too; controls and variants without values are left out."""
    runs = study.variants
    settings = {variant: flat_settings(study.base, runs[variant].settings) for variant in values if variant in runs}
    return {variant: own for variant, own in settings.items() if not is_control(own)}


def is_enlarged(metric: Metric, settings: Mapping[str, Any]) -> bool:
    """Whether a metric is measured on images that are larger than those in training."""
    trained = _trained_size(settings)
    return bool(metric.img_size and trained and metric.img_size > trained)


def _trained_size(settings: Mapping[str, Any]) -> int | None:
    """The side of the training images (pixels), where it is known."""
    dataset = DATASETS.get(str(settings.get("data.name", "")))
    size: int | None = settings.get("data.img_size") or (dataset.img_size if dataset else None)
    return size


def _tokens(settings: Mapping[str, Any]) -> float:
    """The patches of a training image; infinite where they are not known."""
    side, patch = _trained_size(settings), settings.get("model.patch_size")
    return (side // patch) ** 2 if side and patch else math.inf


def is_control(settings: Mapping[str, Any]) -> bool:
    """Whether runs with these settings say nothing about a published figure: shuffled or generated images."""
    dataset = DATASETS.get(settings.get("data.name", ""))
    return bool(settings.get(SHUFFLED)) or (dataset is not None and dataset.source == "generated")


def flat_settings(config: Mapping, levels: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration, overridden by `levels`, by dotted path; with the site resolved, without `PLACES`."""
    sections = {section: inner for section, inner in config.items() if isinstance(inner, Mapping)}
    flat = {f"{section}.{field}": value for section, inner in sections.items() for field, value in inner.items()}
    flat = {path: value for path, value in (flat | dict(levels)).items() if path not in PLACES}
    if KIND in flat:
        flat[SITE] = site_of(flat[KIND], flat.get(SITE))
    return flat
