"""How verdicts are reached (margin, family, planned looks, diverged runs), and the comparisons of all pairs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations

import pandas as pd

from analysis import stats
from analysis.results.variants import Variants, has_grid
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.stats.comparisons import SHOWN, PairedComparison, Values, Verdict, near_chance, with_diverged
from analysis.stats.differences import SHARED
from analysis.stats.estimates import accuracy_step, decimal_step
from experiments.data.catalogue import DATASETS
from experiments.metric import Metric
from experiments.sections import OTHER_CLASSES
from experiments.study import MOST_PAIRS


@dataclass(frozen=True)
class Policy:
    """How verdicts of a study are reached. All comparisons are made here."""

    metric: Metric
    margin: float | None
    """None where the study states none in the unit of the metric: no equivalence is tested"""
    floor: float
    """the smallest standard deviation that a run of the metric is credited with: half a step of an accuracy"""
    chance: dict[str, dict[int, float]]
    """variant -> seed -> the metric of chance level, for diverged runs only; NaN where that level is not known"""
    guessing: dict[str, float] = field(default_factory=dict)
    """variant -> the metric of guessing, where that is known"""
    looks: stats.Looks = stats.NO_PLAN
    variance: stats.Variance = "shared"
    """whether standard errors share what all variants tell about their spread, where there are enough of them"""
    families: int = 1
    """how many families of tests share `stats.ALPHA`: 2 where the plan has a grid of factors, so that pairs and factors
    are tested"""

    @property
    def rule(self) -> stats.Rule:
        """The rule for differences of two runs."""
        floor = stats.floor_of_difference(self.floor)
        return stats.Rule(self.margin, self.metric.lower_is_better, floor, self.families, self.looks, self.variance)

    @property
    def unknown_chance(self) -> set[str]:
        """The variants with diverged runs whose chance level is not known."""
        return {variant for variant, runs in self.chance.items() if any(map(math.isnan, runs.values()))}

    def count_diverged(self, values: Values) -> dict[str, dict[int, float]]:
        """The values where diverged runs are at chance level. Where that is not known, they keep their values."""
        unknown = self.unknown_chance
        return {
            variant: {**runs, **({} if variant in unknown else self.chance.get(variant, {}))}
            for variant, runs in values.items()
        }

    def near_chance(self, values: Values) -> set[str]:
        """The variants with a mean near that of guessing: at most the margin or, for an accuracy c, c (1 - c) / 4
        away.
        """
        near = set()
        for variant, level in self.guessing.items():
            mean = stats.mean([*values.get(variant, {}).values()]).value
            spread = level * (1 - level) / 4 if self.metric.is_share else 0.0
            near |= {variant} if abs(mean - level) <= max(self.margin or 0.0, spread) else set()
        return near

    def compare(self, values: Values, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], PairedComparison]:
        """Each pair (a, b) as a - b; the pairs are one family. A verdict also holds where diverged runs count.

        Where their chance level is not known, nothing is shown of a pair with diverged runs.
        """
        pairs, tested = list(pairs), self.looks.limit(values)
        compared, near = stats.compare(tested, pairs, self.rule), self.near_chance(tested)
        if failed := {v for v, runs in self.chance.items() if runs.keys() & tested[v].keys()}:
            counted = stats.compare(self.looks.limit(self.count_diverged(values)), pairs, self.rule)
            compared = with_diverged(
                compared,
                {
                    pair: replace(one, adjusted=stats.UNKNOWN) if self.unknown_chance & set(pair) else one
                    for pair, one in counted.items()
                    if failed & set(pair)
                },
                self.rule,
            )
        return near_chance(compared, {pair for pair in pairs if near.issuperset(pair)})


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study."""

    baseline: str
    versus: dict[str, PairedComparison]
    """each variant against the baseline: the same comparisons as in `pairs`"""
    pairs: dict[tuple[str, str], PairedComparison]
    """(a, b) -> a - b, where b is the baseline or comes later; all pairs are one family. Empty where there are too many
    variants; then the pairs with the baseline are the family"""

    @property
    def other_pairs(self) -> dict[tuple[str, str], PairedComparison]:
        """Every pair without the baseline."""
        return {pair: compared for pair, compared in self.pairs.items() if self.baseline not in pair}

    @property
    def verdicts(self) -> set[str]:
        """The verdicts that there are."""
        return {compared.verdict for compared in (*self.pairs.values(), *self.versus.values())}

    @property
    def shared(self) -> bool:
        """Whether standard errors share what all variants tell about their spread."""
        return SHARED in self.methods

    @property
    def methods(self) -> set[str]:
        """Where standard errors come from, see `stats.differences`."""
        return {compared.method for compared in (self.pairs or self.versus).values() if math.isfinite(compared.p)}

    @property
    def ranked(self) -> list[tuple[str, str]]:
        """The pairs of which a difference is shown, the better variant first."""
        better = {"better": lambda a, b: (a, b), "worse": lambda a, b: (b, a)}
        return [better[c.verdict](*pair) for pair, c in self.pairs.items() if c.verdict in better]

    def with_variant(self, variant: str | None) -> dict[str, PairedComparison]:
        """Every other variant -> its pair with this one, where that was tested."""
        return {
            (set(pair) - {variant}).pop(): compared
            for pair, compared in self.pairs.items()
            if variant in pair and math.isfinite(compared.p_adjusted)
        }

    def with_verdict(self, variant: str | None, *verdicts: Verdict) -> frozenset[str]:
        """The variants with which this one has one of these verdicts."""
        pairs = self.pairs or {(other, self.baseline): compared for other, compared in self.versus.items()}
        return frozenset(
            (set(pair) - {variant}).pop()
            for pair, compared in pairs.items()
            if variant in pair and compared.verdict in verdicts
        )

    @property
    def undecided(self) -> dict[str, list[str]]:
        """Variant -> the others with which neither a difference nor equivalence is shown."""
        shown = {name: {name} | self.with_verdict(name, *SHOWN) for name in self.versus}
        return {name: [other for other in shown if other not in known] for name, known in shown.items()}


def study_comparisons(variants: Variants, values: Values, policy: Policy) -> Comparisons:
    """Every pair of variants, or each variant with the baseline where there are too many."""
    baseline, few = variants.baseline, len(variants.names) <= MOST_PAIRS
    pairs = (
        [(b, a) if a == baseline else (a, b) for a, b in combinations(variants.names, 2)]
        if few
        else [(variant, baseline) for variant in variants.others]
    )
    compared = policy.compare(values, pairs)
    versus = stats.against_baseline(compared, policy.looks.limit(values), baseline)
    return Comparisons(baseline, versus, compared if few else {})


def study_policy(study: RunsTable) -> Policy:
    """The policy of a study, as its plan and records are now."""
    return Policy(
        metric=study.metric,
        margin=study.margin,
        floor=smallest_sd(study.of("finished"), study.metric),
        chance=_chance_levels(study),
        guessing={
            str(variant): level
            for variant, settings in study.settings().iterrows()
            if (level := chance_level(settings, study.metric)) is not None
        },
        looks=stats.Looks(tuple(study.plan.looks), _complete(study), study.plan.stopped),
        variance=study.plan.variance,
        families=2 if has_grid(study) else 1,
    )


def smallest_sd(finished: pd.DataFrame, metric: Metric) -> float:
    """The smallest standard deviation that a run is credited with: half of an accuracy's step, 0 for a loss.

    A metric that is neither has the step to which its values are rounded.

    The step is one image of its split. Where its size is not recorded, and where accuracies are means over support sets
    or shifts, it is what the accuracies themselves show; accuracies that are all 0 or 1 show none.
    """
    if not metric.is_share:
        return 0.0 if metric.is_loss else 0.5 * decimal_step(finished[metric].to_numpy())
    column = f"{metric.partition('/')[0]}_images"
    images = finished[column].min() if column in finished else math.nan
    if images > 0:
        return 0.5 / images
    step = accuracy_step(finished[metric].to_numpy())
    return 0.5 * step if step < 1 else 0.0


def chance_accuracy(settings: pd.Series, metric: Metric) -> float | None:
    """The accuracy of guessing: 1 / the classes of the metric's images; None where they are not known.

    A few-shot metric names its dataset; every other metric is about a run's own data. Consistency under shifts is no
    accuracy and has no such level.
    """
    if metric.is_consistency or not (metric.is_share or metric.is_loss):
        return None
    own, chosen = settings.get("data.name"), settings.get("data.classes")
    name, trained = metric.fewshot_dataset or own, len(str(chosen).split(",")) if chosen else 0
    if trained and name == own:
        return 1 / trained
    dataset = DATASETS.get(own if name == OTHER_CLASSES else name)
    classes = (dataset and dataset.num_classes) or settings.get("data.num_classes")
    if classes is None or pd.isna(classes):
        return None
    return 1 / (int(classes) - trained * (name == OTHER_CLASSES))


def chance_level(settings: pd.Series, metric: Metric) -> float | None:
    """The metric of guessing among k classes: an accuracy of 1/k, a cross-entropy of log k; None if unknown."""
    share = chance_accuracy(settings, metric)
    return share if share is None or metric.is_share else -math.log(share)


def _chance_levels(study: RunsTable) -> dict[str, dict[int, float]]:
    """Variant -> seed of a diverged run -> `chance_level`.

    An unknown level counts as an accuracy of 0, the worst case. One other unknown level makes all of them unknown.
    """
    diverged, settings = study.of("diverged"), study.settings()
    levels: dict[str, dict[int, float]] = {}
    for variant, seed in zip(diverged["variant"], diverged["seed"]):
        level, unknown = chance_level(settings.loc[variant], study.metric), 0.0 if study.metric.is_share else math.nan
        levels.setdefault(variant, {})[int(seed)] = unknown if level is None else level
    if any(math.isnan(level) for runs in levels.values() for level in runs.values()):
        return {variant: dict.fromkeys(runs, math.nan) for variant, runs in levels.items()}
    return levels


def _complete(study: RunsTable) -> tuple[int, ...]:
    """The seeds before the first one that has a run left to end, in the planned order."""
    planned = study.runs[study.runs["status"] != "unplanned"]
    left = set(planned.loc[~planned["status"].isin([*ENDED, "unreadable"]), "seed"])
    seeds = list(dict.fromkeys(planned["seed"]))
    first = next((i for i, seed in enumerate(seeds) if seed in left), len(seeds))
    return tuple(map(int, seeds[:first]))
