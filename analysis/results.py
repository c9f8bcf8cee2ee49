"""Every statistic that a report shows, computed once. No files, figures or wording."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd

from analysis import stats
from analysis.claims.check import ClaimResult, check
from analysis.claims.literature import published_claims
from analysis.claims.settings import Values
from analysis.image_results import ImageResults, image_results
from analysis.looks import StudyLooks, study_looks
from analysis.sources.runs_table import ENDED, RunsTable, factor_levels
from analysis.trends import Trend, trends
from analysis.tuning import TuningResults, tuning_results
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError
from experiments.metric import Metric

ALPHA = 0.05
MOST_PAIRS = 150
"""Up to this many variants every pair is compared. Beyond it the number of pairs is too large to compute and to read."""

CURVES = tuple(map(Metric, ("val/acc", "train/loss")))
"""The metrics whose learning curves are shown."""

TIMES = ("device_seconds", "wall_seconds", "images_per_second")


@dataclass(frozen=True)
class Results:
    """The study with its statistics. Values and estimates are in the data's units (accuracies as fractions)."""

    study: RunsTable
    variants: list[str]
    values: dict[str, dict[int, float]]
    """variant -> seed -> the study's metric, NaN where the run has no final value (diverged, pruned)"""
    means: dict[str, dict[str, stats.Estimate]]
    """metric -> variant -> its mean"""
    floor: float
    """the smallest standard deviation that a run of the study's metric is credited with: half a step of an accuracy"""
    divergence: dict[str, stats.Estimate]
    """variant -> share of its ended runs that diverged, with its exact interval"""
    spread: dict[str, stats.Spread]
    """variant -> how the study's metric scatters over its runs"""
    curves: dict[Metric, dict[str, stats.Band]]
    """metric -> variant -> its learning curve over the finished runs; only metrics with a curve of two epochs or more"""
    versus: dict[str, stats.PairedComparison]
    """each variant against the baseline: the same comparisons as in `pairs`"""
    pairs: dict[tuple[str, str], stats.PairedComparison]
    """(a, b) -> a - b, where b is the baseline or comes later; all pairs are one family. Empty where there are too many
    variants; then the pairs with the baseline are the family"""
    best: str | None
    equal_to_best: frozenset[str]
    counts: pd.DataFrame
    """a row for each variant, a column for each status"""
    cost: pd.DataFrame
    """a row for each variant"""
    grid: pd.DataFrame | None
    """mean metric by the first factor (rows) and the second (columns); None for a study of one factor"""
    factorial: stats.Factorial | None
    """the effects of a study of several factors. They share the level of significance with the pairs, so the adjusted p
    of both is multiplied by 2"""
    factorial_trouble: str
    """why a study of several factors has no `factorial`"""
    depending_terms: list[tuple[str, ...]]
    """its factors and interactions that are significant only with, or only without, diverged runs at chance level"""
    claims: list[ClaimResult]
    batches: stats.BatchEffect
    """finished runs of different hardware or commits, compared by the study's metric"""
    images: ImageResults | None
    """statistics of the test images; None where no record holds test predictions"""
    trends: list[Trend]
    """how differences change with the length of training or the number of training images"""
    looks: StudyLooks
    """how often the study was looked at. If it plans its looks, differences, effects and claims are those of the last
    planned look that is reached, and means are those of all finished runs"""
    tuning: TuningResults | None = None
    """how the variants were tuned; None where they were not"""

    @property
    def others(self) -> list[str]:
        """Every variant but the baseline."""
        return [variant for variant in self.variants if variant != self.study.baseline]

    @property
    def other_pairs(self) -> dict[tuple[str, str], stats.PairedComparison]:
        """Every pair without the baseline."""
        return {pair: compared for pair, compared in self.pairs.items() if self.study.baseline not in pair}

    def mean(self, variant: str) -> stats.Estimate:
        """The variant's mean of the study's metric."""
        return self.means[self.study.metric][variant]


def analyze(study: RunsTable) -> Results:
    """Compute everything. Raises `UserError` where no run has ended."""
    ended, finished = study.of(*ENDED), study.of("finished")
    if ended.empty:
        raise UserError(f"{study.name}: no run has finished yet; there is nothing to report")
    variants, metric = study.variants, study.metric
    floors = {each: _floor(finished, each) for each in study.metrics}
    values = values_by_seed(ended, metric, variants)
    looks = study_looks(study)
    tested, counted = looks.limit(values), count_diverged(study, values)
    counted = None if counted is None else looks.limit(counted)
    measured = [each for each in study.metrics if finished[each].notna().any()]
    means: dict[str, dict[str, stats.Estimate]]
    means = {each: _means(finished, each, variants, floors[each]) for each in measured}
    means.setdefault(metric, _means(finished, metric, variants, floors[metric]))
    fitted, trouble = _factorial(finished, study, floors[metric], looks)
    depending = _depending_terms(fitted, ended, study, values, floors[metric], looks)
    families = 1 if fitted is None else 2
    rule = stats.Rule(study.margin, ALPHA, metric.lower_is_better, math.sqrt(2) * floors[metric], families, looks.tests)
    versus, pairs = _comparisons(study, tested, counted, rule)
    best = _best(means[metric], metric.lower_is_better)
    return Results(
        study=study,
        variants=variants,
        values=values,
        means=means,
        floor=floors[metric],
        divergence=_divergence(ended, variants),
        spread={variant: stats.spread(list(values[variant].values())) for variant in variants},
        curves=_curves(study, floors),
        versus=versus,
        pairs=pairs,
        best=best,
        equal_to_best=_equal(best, pairs),
        counts=_counts(study, variants),
        cost=_cost(ended, variants, study.baseline),
        grid=_grid(finished, study),
        factorial=fitted,
        factorial_trouble=trouble,
        depending_terms=depending,
        claims=_claims(study, tested, counted, floors[metric], looks),
        batches=_batches(finished, metric),
        images=image_results(study, floors[Metric("test/acc")], looks),
        trends=trends(study, floors[metric], looks),
        looks=looks,
        tuning=tuning_results(study),
    )


def _claims(
    study: RunsTable, tested: Values, counted: Values | None, floor: float, looks: StudyLooks
) -> list[ClaimResult]:
    """What the study says about published claims. None where its margin is of another unit than its metric."""
    if looks.waiting or Metric(study.stated_plan.metric).is_share != study.metric.is_share:
        return []
    plan = study.plan.model_copy(
        update={"metric": study.metric}
    )  # an exploratory report has another metric than the plan
    return check(published_claims(), plan, tested, ALPHA, floor, counted, looks.tests)


def values_by_seed(ended: pd.DataFrame, metric: str, variants: list[str]) -> dict[str, dict[int, float]]:
    """variant -> seed -> value; NaN for a run that did not finish, so that the seed counts as dropped, not as absent."""
    values: dict[str, dict[int, float]] = {variant: {} for variant in variants}
    for variant, seed, status, value in zip(ended["variant"], ended["seed"], ended["status"], ended[metric]):
        values[variant][int(seed)] = float(value) if status == "finished" else float("nan")
    return values


def _floor(finished: pd.DataFrame, metric: Metric) -> float:
    """Half of an accuracy's step: one image of its split, or what the accuracies themselves show where its size is not
    recorded and where they are means over support sets or shifts. 0 for other metrics, and where all accuracies are 0 or 1,
    which show no step.
    """
    if not metric.is_share:
        return 0.0
    column = f"{metric.partition('/')[0]}_images"
    images = finished[column].min() if column in finished else math.nan
    if images > 0:
        return 0.5 / images
    step = stats.accuracy_step(finished[metric].to_numpy())
    return 0.5 * step if step < 1 else 0.0


def count_diverged(study: RunsTable, values: Values) -> dict[str, dict[int, float]] | None:
    """The values where diverged runs have the metric of chance level; None where no run diverged or that is not known.

    Chance among k classes is an accuracy of 1/k and a cross-entropy of log k. An unknown chance level counts as an
    accuracy of 0, the worst case.
    """
    diverged, settings = study.of("diverged"), study.settings()
    if diverged.empty:
        return None
    counted = {variant: dict(runs) for variant, runs in values.items()}
    for variant, seed in zip(diverged["variant"], diverged["seed"]):
        share = chance_accuracy(settings.loc[variant], study.metric)
        if study.metric.lower_is_better and share is None:
            return None
        level = 0.0 if share is None else share
        counted[variant][int(seed)] = -math.log(level) if study.metric.lower_is_better else level
    return counted


def with_diverged(study: RunsTable, values: Values) -> tuple[Values, set[str]]:
    """The values where diverged runs are at chance level, and the variants with diverged runs whose level is not known.

    These keep the values of their finished runs.
    """
    counted = count_diverged(study, values)
    return (values, set(study.of("diverged")["variant"])) if counted is None else (counted, set())


def chance_accuracy(settings: pd.Series, metric: Metric) -> float | None:
    """The accuracy of guessing: 1 / the classes of the metric's images; None where they are not known.

    A few-shot metric names its dataset; every other metric is about a run's own data. Consistency under shifts is no
    accuracy and has no such level.
    """
    if metric.is_consistency:
        return None
    name, own = metric.fewshot_dataset or settings.get("data.name"), settings.get("data.num_classes")
    dataset = DATASETS.get(name)
    if dataset is not None and dataset.num_classes:
        return 1 / dataset.num_classes
    return None if own is None or pd.isna(own) else 1 / int(own)


def _divergence(ended: pd.DataFrame, variants: list[str]) -> dict[str, stats.Estimate]:
    """Runs that were stopped early do not count: whether they would have diverged is not known."""
    counts = pd.crosstab(ended["variant"], ended["status"])
    counts = counts.reindex(index=variants, columns=["finished", "diverged"], fill_value=0)
    rates = stats.proportion(counts["diverged"].to_numpy(), counts.sum(axis=1).to_numpy())
    return dict(zip(variants, rates, strict=True))


def _comparisons(
    study: RunsTable, values: dict[str, dict[int, float]], counted: dict[str, dict[int, float]] | None, rule: stats.Rule
) -> tuple[dict[str, stats.PairedComparison], dict[tuple[str, str], stats.PairedComparison]]:
    """Each variant against the baseline, and all pairs; each with its verdict where diverged runs count."""

    def compare(given: dict[str, dict[int, float]]) -> dict[tuple[str, str], stats.PairedComparison]:
        if len(study.variants) <= MOST_PAIRS:
            return stats.compare_all(given, study.baseline, rule)
        versus = stats.compare(given, study.baseline, rule)
        return {(variant, study.baseline): found for variant, found in versus.items() if variant != study.baseline}

    found, diverged = compare(values), study.of("diverged")
    lost = {v for v, seed in zip(diverged["variant"], diverged["seed"]) if seed in values[v]}
    if counted is not None:
        found = {
            pair: stats.with_diverged(found[pair], other.verdict)  # Holm's method makes any pair depend on the others
            for pair, other in compare(counted).items()
        }
    elif lost:  # chance level is not known, so no verdict stands on the finished runs alone
        found = {
            pair: stats.with_diverged(each, "not enough evidence") if lost & set(pair) else each
            for pair, each in found.items()
        }
    versus = stats.against_baseline(found, values, study.baseline)
    return versus, found if len(study.variants) <= MOST_PAIRS else {}


def _means(finished: pd.DataFrame, metric: str, variants: list[str], floor: float) -> dict[str, stats.Estimate]:
    by_variant = dict(list(finished.groupby("variant", sort=False)[metric]))
    return {
        variant: stats.mean(by_variant[variant].to_numpy() if variant in by_variant else [math.nan], floor=floor)
        for variant in variants
    }


def _curves(study: RunsTable, floors: dict[Metric, float]) -> dict[Metric, dict[str, stats.Band]]:
    """An accuracy's interval is clipped to [0, 1], which a t interval may exceed."""
    runs = study.curves
    if runs.empty or runs["epoch"].nunique() < 2:
        return {}
    finished = runs[runs["run"].isin(study.of("finished")["run"])]
    runs_of = finished.groupby("variant", sort=False)["run"].unique()
    found: dict[Metric, dict[str, stats.Band]] = {}
    for metric in CURVES:
        if metric in runs and runs[metric].notna().any():
            table = finished.pivot_table(index="epoch", columns="run", values=metric, aggfunc="last", sort=True)
            found[metric] = {
                variant: _band(table[table.columns.intersection(runs_of.get(variant, []))], metric, floors[metric])
                for variant in study.variants
            }
    return found


def _band(table: pd.DataFrame, metric: Metric, floor: float) -> stats.Band:
    """The band of a variant's curves, from a row for each epoch and a column for each of its runs."""
    table = table.dropna(how="all")
    band = stats.band(table.index.to_numpy(), table.to_numpy(dtype=float), floor=floor)
    return replace(band, low=band.low.clip(0, 1), high=band.high.clip(0, 1)) if metric.is_share else band


def _best(means: dict[str, stats.Estimate], lower: bool) -> str | None:
    known = {variant: mean.value for variant, mean in means.items() if mean.n}
    return (min if lower else max)(known, key=known.__getitem__) if known else None


def _equal(best: str | None, pairs: dict[tuple[str, str], stats.PairedComparison]) -> frozenset[str]:
    """The variants whose difference to the best is shown to be within the margin."""
    return frozenset(
        (set(pair) - {best}).pop()
        for pair, compared in pairs.items()
        if best in pair and compared.verdict == "equivalent" and not compared.depends_on_diverged
    )


def _counts(study: RunsTable, variants: list[str]) -> pd.DataFrame:
    table = pd.crosstab(study.runs["variant"], study.runs["status"])
    return table.reindex(
        index=variants, columns=["finished", "diverged", "pruned", "incomplete", "unreadable"], fill_value=0
    )


def _cost(ended: pd.DataFrame, variants: list[str], baseline: str) -> pd.DataFrame:
    """Sizes are the variant's (the largest, should its runs differ); times are medians over its runs, diverged ones too.

    One run beside which the machine had other work must not make a variant slow. `device_seconds_ratio` is the median,
    over the seeds that were trained on the same hardware as the baseline's run, of the ratio to it; `slowest` the longest
    run over the median of its variant's on its hardware.
    """
    grouped = ended.groupby("variant", sort=False)
    sizes = grouped[["params", "params_fixed", "flops_per_image", "peak_memory_bytes"]].max()
    seconds = ended.set_index(["seed", "hardware"])["device_seconds"]
    alike = seconds[(ended["variant"] == baseline).to_numpy()]
    alike = alike[~alike.index.duplicated()]
    ratio = pd.Series(seconds.to_numpy() / alike.reindex(seconds.index).to_numpy(), index=ended.index)
    usual = ended.groupby(["variant", "hardware"], dropna=False)["device_seconds"].transform("median")
    beside = pd.DataFrame({"device_seconds_ratio": ratio, "slowest": ended["device_seconds"] / usual})
    beside = beside.groupby(ended["variant"], sort=False).agg({"device_seconds_ratio": "median", "slowest": "max"})
    return pd.concat([sizes, grouped[list(TIMES)].median(), beside], axis=1).reindex(variants)


def _grid(finished: pd.DataFrame, study: RunsTable) -> pd.DataFrame | None:
    """Levels stand in the order of the study, and levels that it does not name after them."""
    if len(study.factors) < 2:
        return None
    down, across = list(study.factors)[:2]
    frame = finished.assign(_down=factor_levels(finished, down), _across=factor_levels(finished, across))
    table = frame.pivot_table(index="_down", columns="_across", values=study.metric, aggfunc="mean", sort=False)
    rows, columns = (
        [
            *(level for level in study.factors[factor] if level in axis),
            *axis.difference(study.factors[factor], sort=False),
        ]
        for factor, axis in ((down, table.index), (across, table.columns))
    )
    return table.reindex(index=rows, columns=columns)


def _batches(finished: pd.DataFrame, metric: Metric) -> stats.BatchEffect:
    batch = finished["hardware"].fillna("").astype(str) + " " + finished["commit"].fillna("").astype(str)
    return stats.batch_effect(finished.assign(batch=batch), metric, "batch")


def _at_chance(ended: pd.DataFrame, study: RunsTable, counted: Values) -> pd.DataFrame:
    """The finished and the diverged runs, the latter with their metric in `counted`."""
    runs = ended[ended["status"].isin(["finished", "diverged"])]
    metric = [counted[variant][int(seed)] for variant, seed in zip(runs["variant"], runs["seed"])]
    return runs.assign(**{study.metric: metric}).dropna(subset=[study.metric])


def _depending_terms(
    fitted: stats.Factorial | None,
    ended: pd.DataFrame,
    study: RunsTable,
    values: Values,
    floor: float,
    looks: StudyLooks,
) -> list[tuple[str, ...]]:
    """The terms of a model that are significant only with, or only without, diverged runs at chance level.

    Every significant term where that level is not known.
    """
    if fitted is None or study.of("diverged").empty:
        return []
    counted, unknown = with_diverged(study, values)
    if unknown:
        return [term for term, test in fitted.terms.items() if test.p_holm <= ALPHA]
    refitted, _ = _factorial(_at_chance(ended, study, counted), study, floor, looks)
    again = {term for term, test in refitted.terms.items() if test.p_holm <= ALPHA} if refitted else set()
    return [term for term, test in fitted.terms.items() if (test.p_holm <= ALPHA) != (term in again)]


def _factorial(
    finished: pd.DataFrame, study: RunsTable, floor: float, looks: StudyLooks
) -> tuple[stats.Factorial | None, str]:
    """The effects of a study of several factors, or why there are none."""
    if len(study.factors) < 2:
        return None, ""
    if looks.waiting:
        return None, f"the first planned look is at {looks.plan[0]} seeds"
    if looks.plan:
        finished = finished[[looks.may_test(seed) for seed in finished["seed"]]]
    frame = finished[["seed", study.metric]].copy()
    for factor in study.factors:
        frame[factor] = factor_levels(finished, factor)
    try:
        fitted = stats.factorial(frame, study.metric, list(study.factors), floor=floor, families=2, looks=looks.tests)
    except UserError as error:
        return None, str(error)
    return fitted, ""
