"""How differences between variants change with the length of training or the number of training images."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    """How variants differ: the standard deviation of their true means at each point, and whether it changes.

    `without`: variant -> (standard deviation at the first point, at the last, p) where it is left out.
    """

    sd: dict[int, float]
    change: stats.SpreadChange
    without: dict[str, tuple[float, float, float]]

    @property
    def of_all(self) -> str:
        """The verdict on all variants."""
        return verdict(self.change.p, self.change.change.value < 0)

    @property
    def verdict(self) -> str:
        """The verdict that also holds where any one variant is left out; else "not enough evidence"."""
        others = {verdict(p, last < first) for first, last, p in self.without.values()}
        return self.of_all if self.of_all == "not tested" or others == {self.of_all} else "not enough evidence"

    def p(self, shrinks: bool) -> float:
        """The largest p of all variants and of those without one, that the differences shrink or else grow; 1 if
        one does not.
        """
        every = 0.0, self.change.change.value, self.change.p
        return max(p if (last < before) == shrinks else 1.0 for before, last, p in (every, *self.without.values()))

    @property
    def range(self) -> list[tuple[str, float, float, float]]:
        """The two variants without which the change is smallest and largest, as in `without`."""
        rows = sorted(((row, *numbers) for row, numbers in self.without.items()), key=lambda row: row[2] - row[1])
        return [rows[0], rows[-1]] if rows else []


@dataclass(frozen=True)
class Trend:
    """Differences along a condition. A row is a variant without the condition; points are levels of the condition.

    `name`: "lengths", "epochs" or "train_limit"; `unit`: of its points; `metric`: at its end. `diffs`: every other row
    -> point
    -> mean paired difference from the row `baseline`. `kinds`: the rows with a positional embedding, or all rows of a
    study of something else. `spread`: that of their means. `missing`: planned rows without a finished run; `diverged`:
    diverged runs, which are left out. `planned`: whether the study plans looks; then intervals are those of the look,
    and nothing is tested.
    """

    name: str
    unit: str
    metric: Metric
    points: list[int]
    baseline: str
    diffs: dict[str, dict[int, stats.Estimate]]
    kinds: list[str]
    spread: Spread
    missing: list[str]
    diverged: int
    planned: bool

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
    if condition == "data.train_limit":  # none: all images
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
    others = [row for row in rows if row != baseline]
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
        kinds=kinds,
        spread=_spread(table, kinds, points, policy),
        missing=[row for row in planned if row not in rows],
        diverged=len(study.of("diverged")),
        planned=bool(policy.looks),
    )


def _spread(table: pd.DataFrame, rows: list[str], points: list[int], policy: Policy) -> Spread:
    ends = points[0], points[-1]
    change = stats.spread_change(*_complete(table, rows, ends))
    if policy.looks:
        change = replace(change, p=math.nan)
    without = {}
    for row in rows if math.isfinite(change.p) else ():
        first, last = _complete(table, [other for other in rows if other != row], ends)
        p = stats.spread_change(first, last).p
        without[row] = stats.sd_of_means(first), stats.sd_of_means(last), p
    sd = {at: stats.sd_of_means(_complete(table, rows, (*ends, at))[-1]) for at in points}
    return Spread(sd, change, without)


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
