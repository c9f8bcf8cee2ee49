"""How differences between variants change with the length of training or the number of training images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from analysis import stats
from analysis.formatting import factor_name, level_name
from analysis.results.policy import Policy
from analysis.sources.runs_table import RunsTable, factor_levels
from experiments.metric import Metric

CONDITIONS = {"train.epochs": "epochs", "data.train_limit": "training images"}
"""The factors along which differences are followed, with the unit of their levels."""

Values = dict[str, dict[int, dict[int, float]]]
"""row -> point -> seed -> value"""


@dataclass(frozen=True)
class Trend:
    """Differences along a condition. A row is a variant without the condition; points are levels of the condition.

    `name` and `unit` of the condition; `metric` at its end. `diffs`: row -> point -> mean paired difference from
    `baseline`. `pairs`: how the difference of two rows changes from the first point to the last, with the p-value adjusted
    over all pairs. `kinds`: the rows with a positional embedding, or all rows of a study of something else. `spread`: how
    the standard deviation of their true means changes; `spreads`: this standard deviation at each point. `missing`: planned
    rows without a finished run.
    """

    name: str
    unit: str
    metric: Metric
    points: list[int]
    rows: list[str]
    baseline: str
    diffs: dict[str, dict[int, stats.Estimate]]
    pairs: dict[tuple[str, str], tuple[stats.SizeChange, float]]
    kinds: list[str]
    spread: stats.SpreadChange
    spreads: dict[int, float]
    missing: list[str]

    @property
    def others(self) -> list[str]:
        """Every row but the baseline."""
        return [row for row in self.rows if row != self.baseline]


def trends(study: RunsTable, policy: Policy) -> list[Trend]:
    """Every trend of a study with at least two rows and two points.

    With planned looks, intervals of differences are those of the look, over its seeds, and p-values are NaN: the tests are
    for one look. Nothing before the first planned look.
    """
    finished = study.of("finished")
    runs = finished[[policy.may_test(seed) for seed in finished["seed"]]]
    if runs.empty:
        return []
    every = (
        _lengths(study, runs, policy.floor, policy.confidence),
        *_factors(study, runs, policy.floor, policy.confidence),
    )
    found = [trend for trend in every if trend is not None]
    return [_untested(trend) for trend in found] if policy.plan else found


def _untested(trend: Trend) -> Trend:
    pairs = {pair: (replace(change, p=math.nan), math.nan) for pair, (change, _) in trend.pairs.items()}
    return replace(trend, pairs=pairs, spread=replace(trend.spread, p=math.nan))


def _lengths(study: RunsTable, runs: pd.DataFrame, floor: float, level: float) -> Trend | None:
    """The trend of metrics that the runs measured after several numbers of epochs."""
    base = study.metric.base
    points = {metric.epochs: str(metric) for metric in study.metrics if metric.base == base and metric.epochs}
    if not points:
        return None
    if runs["epochs"].nunique() == 1:  # the end of training is a length too
        points.setdefault(int(runs["epochs"].iloc[0]), base)
    values: Values = {}
    for point, column in sorted(points.items()):
        for variant, seed, value in zip(runs["variant"], runs["seed"], runs.get(column, [])):
            values.setdefault(variant, {}).setdefault(point, {})[int(seed)] = float(value)
    rows = {variant: variant for variant in study.variants}
    return _trend("lengths", "epochs", study, values, rows, floor, level)


def _factors(study: RunsTable, runs: pd.DataFrame, floor: float, level: float) -> list[Trend | None]:
    """The trends along the factors of the study that are conditions."""
    return [_along(study, runs, factor, floor, level) for factor in study.factors if factor in CONDITIONS]


def _along(study: RunsTable, runs: pd.DataFrame, condition: str, floor: float, level: float) -> Trend | None:
    others = [factor for factor in study.factors if factor != condition]
    if not others:
        return None
    rows, values = _row_names(study, others), Values()
    points = pd.to_numeric(factor_levels(runs, condition), errors="coerce")
    if condition == "data.train_limit":  # not set: all images
        points = points.fillna(runs["train_images"])
    for variant, point, seed, value in zip(runs["variant"], points, runs["seed"], runs[study.metric]):
        if variant in rows and math.isfinite(point):
            values.setdefault(rows[variant], {}).setdefault(int(point), {})[int(seed)] = float(value)
    return _trend(condition.rpartition(".")[2], CONDITIONS[condition], study, values, rows, floor, level)


def _row_names(study: RunsTable, factors: list[str]) -> dict[str, str]:
    """variant -> its levels of these factors, as one text."""
    first = study.runs[study.runs["status"] != "unplanned"].drop_duplicates("variant")
    levels = zip(*(factor_levels(first, factor) for factor in factors), strict=True)
    names = [factor_name(factor, study.names) for factor in factors]
    texts = (", ".join(level_name(name, str(level)) for name, level in zip(names, row, strict=True)) for row in levels)
    return dict(zip(first["variant"], texts, strict=True))


def _trend(
    name: str, unit: str, study: RunsTable, values: Values, rows_of: Mapping[str, str], floor: float, level: float
) -> Trend | None:
    """The trend from its values. `rows_of`: variant -> its row; `level`: of the intervals of differences."""
    rows = [row for row in dict.fromkeys(rows_of.values()) if row in values]
    points = sorted({point for row in rows for point in values[row]})
    baseline = rows_of.get(study.baseline, "")
    if len(rows) < 2 or len(points) < 2 or baseline not in rows:
        return None
    floor = math.sqrt(2) * floor  # of a difference of two runs
    diffs = {row: {at: stats.mean(_paired(values, row, baseline, at), level, floor) for at in points} for row in rows}
    ordered = sorted(rows, key=lambda row: row == baseline)  # the baseline second, as in the table of pairs
    found = {pair: _change(values, *pair, points, floor, level) for pair in combinations(ordered, 2)}
    adjusted = stats.holm([change.p for change in found.values()])
    pairs = {pair: (change, float(p)) for (pair, change), p in zip(found.items(), adjusted, strict=True)}
    kinds = _kinds(study, rows_of, rows)
    first, last = points[0], points[-1]
    spread = stats.spread_change(*_complete(values, kinds, (first, last)))
    spreads = {at: stats.sd_of_means(_complete(values, kinds, (first, last, at))[-1]) for at in points}
    metric = Metric(study.metric.base) if name == "lengths" else study.metric
    missing = [row for row in dict.fromkeys(rows_of.values()) if row not in values]
    return Trend(name, unit, metric, points, rows, baseline, diffs, pairs, kinds, spread, spreads, missing)


def _paired(values: Values, row: str, other: str, point: int) -> list[float]:
    """The differences row - other of the seeds that both have at a point."""
    own, base = (values[each].get(point, {}) for each in (row, other))
    return [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]


def _change(values: Values, row: str, other: str, points: list[int], floor: float, level: float) -> stats.SizeChange:
    ends = (points[0], points[-1])
    seeds = set.intersection(*(set(values[each].get(at, {})) for each in (row, other) for at in ends))
    first, last = ([values[row][at][s] - values[other][at][s] for s in sorted(seeds)] for at in ends)
    return stats.size_change(first, last, floor, level)


def _complete(values: Values, rows: list[str], points: tuple[int, ...]) -> list[np.ndarray]:
    """For each point the values (rows, seeds), over the seeds that all rows have at all of these points."""
    seeds = set.intersection(
        *({s for s, value in values[row].get(at, {}).items() if math.isfinite(value)} for row in rows for at in points)
    )
    return [np.array([[values[row][at][seed] for seed in sorted(seeds)] for row in rows]) for at in points]


def _kinds(study: RunsTable, rows_of: Mapping[str, str], rows: list[str]) -> list[str]:
    """The rows with a positional embedding; all rows where the study does not compare positional embeddings."""
    if "model.pos_embed" not in study.varied:
        return rows
    settings = study.settings()
    without = {rows_of[variant] for variant in settings.index[settings["model.pos_embed"] == "none"]}
    return [row for row in rows if row not in without] or rows
