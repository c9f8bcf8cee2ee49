"""How differences between variants change with the length of training or the number of training images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from analysis import stats
from analysis.results.policy import Policy
from analysis.results.variants import Variants, levels_by_variant, names_by_levels
from analysis.sources.runs_table import RunsTable, factor_levels
from analysis.stats.comparisons import estimated_differences
from experiments.metric import Metric

CONDITIONS = {"train.epochs": "epochs", "data.train_limit": "training images"}
"""The factors along which differences are followed, with the unit of their levels."""


@dataclass(frozen=True)
class Spread:
    """How variants differ on a scale: the standard deviation of their true means at each point, and whether it changes."""

    sd: dict[int, float]
    change: stats.SpreadChange
    verdict: str


@dataclass(frozen=True)
class Trend:
    """Differences along a condition. A row is a variant without the condition; points are levels of the condition.

    `name`: "lengths", "epochs" or "train_limit"; `unit`: of its points; `metric`: at its end. `diffs`: every other row -> point
    -> mean paired difference from the row `baseline`. `changes`: how the difference of each pair of rows (`a`, `b`) changes from the
    `first` to the `last` point, with the test of its size and the `verdict`. `kinds`: the rows with a positional embedding, or
    all rows of a study of something else. `spread`: that of their means; `log_odds`: that of their log odds, for an accuracy. `missing`: planned rows without a finished run; `diverged`: diverged runs, which are left out. `planned`: whether
    the study plans looks; then intervals are those of the look, and nothing is tested.
    """

    name: str
    unit: str
    metric: Metric
    points: list[int]
    baseline: str
    diffs: dict[str, dict[int, stats.Estimate]]
    changes: pd.DataFrame
    kinds: list[str]
    spread: Spread
    log_odds: Spread | None
    missing: list[str]
    diverged: int
    planned: bool

    @property
    def verdict(self) -> str:
        """The verdict of both scales, on whether the differences shrink."""
        same = self.log_odds is None or self.log_odds.verdict == self.spread.verdict
        return self.spread.verdict if same else "depends on the scale"

    @property
    def tested(self) -> int:
        """How many pairs are tested."""
        return int(self.changes["p_holm"].notna().sum())

    @property
    def seeds(self) -> list[int]:
        """Numbers of seeds of the differences."""
        return [diff.n for diffs in self.diffs.values() for diff in diffs.values()]


def verdict(p: float, shrinks: bool) -> str:
    """Return "shrinks", "grows", "not enough evidence" or "not tested"."""
    if not math.isfinite(p):
        return "not tested"
    return "not enough evidence" if p > stats.ALPHA else "shrinks" if shrinks else "grows"


def study_trends(study: RunsTable, variants: Variants, policy: Policy) -> list[Trend]:
    """Every trend of a study with at least two rows and two points; none before the first planned look.

    With planned looks, p-values are NaN: the tests are for one look.
    """
    policy = replace(policy, looks=policy.looks.of(study.variants))  # the rows of a trend have the same seeds
    finished = study.of("finished")
    runs = finished.loc[[policy.looks.may_test(seed) for seed in finished["seed"]]]
    if runs.empty:
        return []
    trends = [_lengths(study, runs, policy)]
    trends += [_along(study, variants, runs, factor, policy) for factor in study.factors if factor in CONDITIONS]
    return [trend for trend in trends if trend is not None]


def _lengths(study: RunsTable, runs: pd.DataFrame, policy: Policy) -> Trend | None:
    """The trend of metrics that the runs measured after several numbers of epochs."""
    base = study.metric.base
    columns = {metric.epochs: metric for metric in study.metrics if metric.base == base and metric.epochs}
    if columns and runs["epochs"].nunique() == 1:  # the end of training is a length too
        columns.setdefault(int(runs["epochs"].iloc[0]), Metric(base))
    values = [
        pd.DataFrame({"row": runs["variant"], "point": point, "seed": runs["seed"], "value": runs[column]})
        for point, column in columns.items()
        if column in runs
    ]
    rows = {variant: variant for variant in study.variants}
    return _trend("lengths", "epochs", study, pd.concat(values), rows, policy) if values else None


def _along(study: RunsTable, variants: Variants, runs: pd.DataFrame, condition: str, policy: Policy) -> Trend | None:
    """The trend along a factor of the study."""
    rows = names_by_levels(levels_by_variant(study).drop(columns=condition), variants.factors)
    points = pd.to_numeric(factor_levels(runs, condition), errors="coerce")
    if condition == "data.train_limit":  # not set: all images
        points = points.fillna(runs["train_images"])
    frame = {"row": runs["variant"].map(rows), "point": points, "seed": runs["seed"], "value": runs[study.metric]}
    values = pd.DataFrame(frame).dropna(subset=["row", "point"]).astype({"point": int})
    return _trend(condition.rpartition(".")[2], CONDITIONS[condition], study, values, rows, policy)


def _trend(
    name: str, unit: str, study: RunsTable, values: pd.DataFrame, rows_of: Mapping[str, str], policy: Policy
) -> Trend | None:
    """The trend from its values: columns row, point, seed and value. `rows_of`: variant -> its row."""
    planned = list(dict.fromkeys(rows_of.values()))
    rows, points = [row for row in planned if row in set(values["row"])], sorted(set(values["point"]))
    baseline = rows_of.get(study.baseline, "")
    if len(rows) < 2 or len(points) < 2 or baseline not in rows:
        return None
    table = values.pivot_table(index="seed", columns=["row", "point"], values="value", aggfunc="last", dropna=False)
    table = table.reindex(columns=pd.MultiIndex.from_product([rows, points]))
    others, floor = [row for row in rows if row != baseline], policy.rule.floor
    pairs = combinations([*others, baseline], 2)  # the baseline comes second, as in the table of pairs
    changes = pd.DataFrame(_change(table, *pair, (points[0], points[-1]), floor, policy) for pair in pairs)
    changes["p_holm"] = stats.holm(changes["p"])
    changes["verdict"] = list(map(verdict, changes["p_holm"], changes.pop("shrinks")))
    differences = {
        at: estimated_differences(
            {row: table[row, at].to_dict() for row in rows}, [(row, baseline) for row in others], policy.rule
        )
        for at in points
    }
    kinds = _kinds(study, rows_of, rows)
    return Trend(
        name=name,
        unit=unit,
        metric=Metric(study.metric.base) if name == "lengths" else study.metric,
        points=points,
        baseline=baseline,
        diffs={row: {at: estimates[i] for at, estimates in differences.items()} for i, row in enumerate(others)},
        changes=changes,
        kinds=kinds,
        spread=_spread(table, kinds, points, policy),
        log_odds=_spread(_log_odds(table, policy.floor), kinds, points, policy)
        if study.metric.is_share and policy.floor
        else None,
        missing=[row for row in planned if row not in rows],
        diverged=len(study.of("diverged")),
        planned=bool(policy.looks),
    )


def _change(
    table: pd.DataFrame, a: str, b: str, ends: tuple[int, int], floor: float, policy: Policy
) -> dict[str, object]:
    """How a - b changes, over the seeds that both have at both ends."""
    both = table[[(row, at) for at in ends for row in (a, b)]].dropna()
    first, last = (both[a, at] - both[b, at] for at in ends)
    change = stats.size_change(first, last, floor, policy.looks.confidence)
    estimates = {"first": change.first, "last": change.last, "change": change.change}
    return {"a": a, "b": b, **estimates, "p": math.nan if policy.looks else change.p, "shrinks": change.shrinks}


def _spread(table: pd.DataFrame, rows: list[str], points: list[int], policy: Policy) -> Spread:
    first, last = points[0], points[-1]
    change = stats.spread_change(*_complete(table, rows, (first, last)))
    if policy.looks:
        change = replace(change, p=math.nan)
    sd = {at: stats.sd_of_means(_complete(table, rows, (first, last, at))[-1]) for at in points}
    return Spread(sd, change, verdict(change.p, change.change.value < 0))


def _log_odds(accuracies: pd.DataFrame, floor: float) -> pd.DataFrame:
    """The log odds of accuracies; half an image keeps them finite where all images are right."""
    return np.log((accuracies + floor) / (1 - accuracies + floor))


def _complete(table: pd.DataFrame, rows: list[str], points: tuple[int, ...]) -> list[np.ndarray]:
    """For each point the values (rows, seeds), over the seeds that all rows have at all of these points."""
    seeds = table[[(row, at) for row in rows for at in dict.fromkeys(points)]].dropna()
    return [seeds[[(row, at) for row in rows]].to_numpy().T for at in points]


def _kinds(study: RunsTable, rows_of: Mapping[str, str], rows: list[str]) -> list[str]:
    """The rows with a positional embedding; all rows where the study does not compare positional embeddings."""
    if "model.pos_embed" not in study.varied:
        return rows
    settings = study.settings()
    without = {rows_of[variant] for variant in settings.index[settings["model.pos_embed"] == "none"]}
    return [row for row in rows if row not in without] or rows
