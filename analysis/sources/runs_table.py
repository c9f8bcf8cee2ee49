"""The type that every source returns: a study's plan, one row for each run, one row for each run and epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.sources.hits import RunHits
from analysis.sources.settings import cell_value, flatten, level_text
from analysis.sources.source_run import COLUMNS, ENDED, NUMBERS, SourceRun, run_row
from experiments.config import completed
from experiments.metric import Metric, known_metrics
from experiments.runs.looks import Look
from experiments.study import StudyPlan


@dataclass(frozen=True)
class RunsTable:
    """A study's plan and its runs.

    `runs`: one row for each run, in the plan's order: `COLUMNS`, then the settings; NaN or None where a value is
    unknown. `curves`: one row for each run and epoch: run, variant, seed, epoch, lr and the metrics. `plan`: as in
    study.json, or with the metric and the baseline of an exploratory report. `troubles`: run -> why the record is
    excluded. `hits`: run -> its hits on the test images, for records that hold them. `sources`: the source of plug-ins:
    digest -> name of a file -> its text. `looks`: the looks recorded so far. `folder`: the folder of the run folders; None
    where there is none. `stated`: the plan that the runs state, where it is not `plan`: for a part of a study, and for an
    exploratory report.
    """

    plan: StudyPlan
    runs: pd.DataFrame
    curves: pd.DataFrame
    troubles: dict[str, str] = field(default_factory=dict)
    hits: dict[str, RunHits] = field(default_factory=dict)
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    looks: tuple[Look, ...] = ()
    folder: Path | None = None
    stated: StudyPlan | None = None

    @classmethod
    def of_runs(cls, plan: StudyPlan, runs: Iterable[SourceRun], **parts: Any) -> RunsTable:
        """A table of these runs, in their order. `parts`: the other fields."""
        planned, runs = {run.name: run for run in plan.runs}, list(runs)
        rows = [run_row(run, planned.get(run.name)) for run in runs]
        curves = [
            {"run": run.name, "variant": planned[run.name].variant, "seed": planned[run.name].seed, **row}
            for run in runs
            for row in run.rows
        ]
        return cls.of_rows(plan, rows, curves, **parts)

    @classmethod
    def of_rows(
        cls, plan: StudyPlan, rows: list[dict[str, Any]], curves: list[dict[str, Any]], **parts: Any
    ) -> RunsTable:
        """A table from the rows of runs and epochs.

        The base of a plan that was not inferred gets the defaults of settings that are newer than the plan.
        """
        if plan.source is None:
            plan = plan.model_copy(update={"base": completed(plan.base)})
        runs = _frame(COLUMNS, rows)
        if plan.metric not in runs:
            runs[plan.metric] = math.nan  # no run has measured it yet
        for column in dict.fromkeys([*NUMBERS, *known_metrics(runs.columns)]):
            runs[column] = pd.to_numeric(runs[column], errors="coerce")
        seeds = [row["seed"] for row in rows]
        runs["seed"] = pd.Series(seeds, dtype=object)  # a run without a seed must not turn the others into floats
        return cls(plan, runs, _frame(("run", "variant", "seed", "epoch"), curves), **parts)

    @property
    def name(self) -> str:
        """The study's name."""
        return self.plan.name

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with."""
        return self.plan.baseline

    @property
    def metric(self) -> Metric:
        """The metric by which variants are compared."""
        return Metric(self.plan.metric)

    @property
    def margin(self) -> float:
        """Smaller differences count as equal."""
        return self.plan.margin

    @cached_property
    def factors(self) -> dict[str, list[str]]:
        """Factor -> its levels as text."""
        return {factor: [level_text(level) for level in levels] for factor, levels in self.plan.factors.items()}

    @cached_property
    def base(self) -> dict[str, Any]:
        """The settings that every run starts from, by dotted path."""
        return dict(flatten(self.plan.base))

    @property
    def stated_plan(self) -> StudyPlan:
        """The plan that the runs state."""
        return self.plan if self.stated is None else self.stated

    @property
    def names(self) -> dict[str, str]:
        """The names that the study gives to factors: factor -> name."""
        given = self.plan.study.get("names")
        return {str(key): str(name) for key, name in given.items()} if isinstance(given, Mapping) else {}

    @property
    def varied(self) -> list[str]:
        """The settings that the factors vary: those that a factor links count one by one."""
        return list(dict.fromkeys(path for factor in self.factors for path in factor.split("+")))

    @property
    def recorded(self) -> bool:
        """Whether looks at this study are recorded: not those at runs that no study has planned."""
        return self.plan.source is None

    @property
    def metrics(self) -> list[Metric]:
        """Every metric that a run has measured, those of every record first."""
        return known_metrics(self.runs.columns)

    @property
    def variants(self) -> list[str]:
        """Every planned variant, in the plan's order."""
        planned = self.runs[self.runs["status"] != "unplanned"]
        return list(dict.fromkeys(planned["variant"]))

    def settings(self) -> pd.DataFrame:
        """One row for each variant with an ended run: that run's row. The index is the variant."""
        return self.of(*ENDED).drop_duplicates("variant").set_index("variant")

    def of(self, *statuses: str) -> pd.DataFrame:
        """The runs with one of these statuses."""
        return self.runs[self.runs["status"].isin(statuses)]


def factor_levels(runs: pd.DataFrame, factor: str) -> pd.Series:
    """The level of a factor for every run, as text; None where a run lacks the setting.

    `factor`: a dotted path, or several joined by "+".
    """
    paths = factor.split("+")
    if any(path not in runs for path in paths):
        return pd.Series([None] * len(runs), index=runs.index, dtype=object)
    columns = [runs[path].astype(object) for path in paths]
    levels = [level_text([cell_value(cell) for cell in row]) for row in zip(*columns)]
    return pd.Series(levels, index=runs.index, dtype=object)


def _frame(first: Iterable[str], rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows as a frame. The columns are `first`, then every other key in the order of the rows."""
    return pd.DataFrame(rows, columns=list(dict.fromkeys([*first, *(key for row in rows for key in row)])))
