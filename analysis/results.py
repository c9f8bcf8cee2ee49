"""Every statistic that a report shows, computed once. No files, figures or wording."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from analysis import stats
from analysis.claims.check import ClaimResult, check
from analysis.claims.literature import published_claims
from analysis.metric import Metric
from analysis.sources.study import ENDED, METRICS, Study, factor_levels
from experiments.errors import UserError

ALPHA = 0.05
MOST_PAIRS = 150
"""Up to this many variants every pair is compared. Beyond it the number of pairs is too large to compute and to read."""

CURVES = tuple(map(Metric, ("val/acc", "train/loss")))
"""The metrics whose learning curves are shown."""

TIMES = ("device_seconds", "wall_seconds", "images_per_second")


@dataclass(frozen=True)
class Results:
    """The study with its statistics. Values and estimates are in the data's units (accuracies as fractions)."""

    study: Study
    variants: list[str]
    values: dict[str, dict[int, float]]
    """variant -> seed -> the study's metric, NaN where the run has no final value (diverged, pruned)"""
    means: dict[str, dict[str, stats.Estimate]]
    """metric -> variant -> its mean"""
    spread: dict[str, stats.Spread]
    """variant -> how the study's metric scatters over its runs"""
    curves: dict[Metric, dict[str, stats.Band]]
    """metric -> variant -> its learning curve over the finished runs; only metrics with a curve of two epochs or more"""
    versus: dict[str, stats.Comparison]
    """each variant against the baseline"""
    pairs: dict[tuple[str, str], stats.Comparison]
    """(a, b) -> a - b; empty where there are too many variants"""
    best: str | None
    equal_to_best: frozenset[str]
    counts: pd.DataFrame
    """a row for each variant, a column for each status"""
    cost: pd.DataFrame
    """a row for each variant"""
    grid: pd.DataFrame | None
    """mean metric by the first factor (rows) and the second (columns); None for a study of one factor"""
    factorial: stats.Factorial | None
    factorial_trouble: str
    claims: list[ClaimResult]
    batches: stats.BatchEffect
    """finished runs of different hardware or commits, compared by the study's metric"""

    @property
    def others(self) -> list[str]:
        """Every variant but the baseline."""
        return [variant for variant in self.variants if variant != self.study.baseline]

    def mean(self, variant: str) -> stats.Estimate:
        """The variant's mean of the study's metric."""
        return self.means[self.study.metric][variant]


def analyze(study: Study) -> Results:
    """Compute everything. Raises `UserError` where no run has ended."""
    if study.of(*ENDED).empty:
        raise UserError(f"{study.name}: no run has finished yet; there is nothing to report")
    variants, lower = study.variants, study.metric.lower_is_better
    ended = study.of(*ENDED)
    values = values_by_seed(ended, study.metric, variants)
    finished = study.of("finished")
    means: dict[str, dict[str, stats.Estimate]] = {
        metric: _means(finished, metric, variants) for metric in METRICS if finished[metric].notna().any()
    }
    means.setdefault(study.metric, _means(finished, study.metric, variants))
    versus = stats.compare(values, study.baseline, study.margin, ALPHA, lower_is_better=lower)
    pairs = stats.compare_all(values, study.margin, ALPHA, lower_is_better=lower) if len(variants) <= MOST_PAIRS else {}
    best = _best(means[study.metric], lower)
    fitted, trouble = _factorial(finished, study)
    return Results(
        study,
        variants,
        values,
        means,
        {variant: stats.spread(list(values[variant].values())) for variant in variants},
        _curves(study),
        versus,
        pairs,
        best,
        _equal(best, pairs),
        _counts(study, variants),
        _cost(ended, variants, study.baseline),
        _grid(finished, study),
        fitted,
        trouble,
        check(published_claims(), study.plan, values, ALPHA),
        _batches(finished, study.metric),
    )


def values_by_seed(ended: pd.DataFrame, metric: str, variants: list[str]) -> dict[str, dict[int, float]]:
    """variant -> seed -> value; NaN for a run that did not finish, so that the seed counts as dropped, not as absent."""
    values: dict[str, dict[int, float]] = {variant: {} for variant in variants}
    for variant, seed, status, value in zip(ended["variant"], ended["seed"], ended["status"], ended[metric]):
        values[variant][int(seed)] = float(value) if status == "finished" else float("nan")
    return values


def _means(finished: pd.DataFrame, metric: str, variants: list[str]) -> dict[str, stats.Estimate]:
    by_variant = dict(list(finished.groupby("variant", sort=False)[metric]))
    return {
        variant: stats.mean(by_variant[variant].to_numpy() if variant in by_variant else [float("nan")])
        for variant in variants
    }


def _curves(study: Study) -> dict[Metric, dict[str, stats.Band]]:
    """An accuracy's interval is clipped to [0, 1], which a t interval may exceed."""
    runs = study.curves
    if runs.empty or runs["epoch"].nunique() < 2:
        return {}
    finished = runs[runs["run"].isin(study.of("finished")["run"])]
    found: dict[Metric, dict[str, stats.Band]] = {}
    for metric in CURVES:
        if metric in runs and runs[metric].notna().any():
            found[metric] = {
                variant: _band(finished[finished["variant"] == variant], metric) for variant in study.variants
            }
    return found


def _band(runs: pd.DataFrame, metric: Metric) -> stats.Band:
    table = runs.pivot_table(index="epoch", columns="run", values=metric, aggfunc="last", sort=True)
    band = stats.band(table.index.to_numpy(), table.to_numpy(dtype=float))
    return replace(band, low=band.low.clip(0, 1), high=band.high.clip(0, 1)) if metric.is_share else band


def _best(means: dict[str, stats.Estimate], lower: bool) -> str | None:
    known = {variant: mean.value for variant, mean in means.items() if mean.n}
    return (min if lower else max)(known, key=known.__getitem__) if known else None


def _equal(best: str | None, pairs: dict[tuple[str, str], stats.Comparison]) -> frozenset[str]:
    """The variants whose difference to the best is shown to be within the margin."""
    return frozenset(
        (set(pair) - {best}).pop()
        for pair, compared in pairs.items()
        if best in pair and compared.verdict == "equivalent"
    )


def _counts(study: Study, variants: list[str]) -> pd.DataFrame:
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


def _grid(finished: pd.DataFrame, study: Study) -> pd.DataFrame | None:
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


def _factorial(finished: pd.DataFrame, study: Study) -> tuple[stats.Factorial | None, str]:
    """The linear model of a study of several factors, or why there is none."""
    if len(study.factors) < 2:
        return None, ""
    frame = finished[["seed", study.metric]].copy()
    for factor in study.factors:
        frame[factor] = factor_levels(finished, factor)
    try:
        return stats.factorial(frame, study.metric, list(study.factors)), ""
    except UserError as error:
        return None, str(error)
