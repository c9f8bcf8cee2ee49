"""The type that every source returns: a study's plan, one row for each run, one row for each run and epoch.

Last: what the values of a row may be, and settings by dotted path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.compared import Compared
from experiments.config import LOCATIONS, completed, flatten
from experiments.errors import format_level
from experiments.files import RecordError
from experiments.metric import LARGEST, METRICS, Metric, known_metrics
from experiments.runs import record
from experiments.runs.history import Look
from experiments.study import Study

DATASET = "data.name"
PLACES = (*LOCATIONS, "seed")
"""Settings that may differ between any two runs of a study: where files are, and the seed."""
ENDED = record.STATUSES
SPEED = ("wall_seconds", "device_seconds", "images_per_second")
COST = ("params", "params_fixed", "flops_per_image", *SPEED, "peak_memory_bytes", "cohort")
IMAGES = ("train_images", "val_images", "test_images")
FROM_SUMMARY = {
    **{name: f"cost.{name}" for name in COST},
    **{name: f"data.{name}" for name in IMAGES},
    "image_files": "data.files",
    "test_copies": "data.copies.test",  # test images that are training images as well
    **{name: f"provenance.{name}" for name in ("commit", "dirty", "started", "finished", "command")},
    **{f"plugin_{name}": f"provenance.plugin.{name}" for name in ("modules", "digest", "committed")},
}
"""A column -> its place in summary.json."""
COLUMNS = (
    *("run", "run_id", "variant", "seed", "status", "epochs"),
    *METRICS,
    *FROM_SUMMARY,
    *("hardware", "versions", "digest", "reused_from"),
)
"""The columns of `Runs.runs` that every source gives. Then come, in any order, the settings by dotted path
("model.depth") and the metrics that only some runs measure ("fewshot/mnist/5")."""
NUMBERS = ("epochs", *COST, *IMAGES, "test_copies")
STATUSES = (*ENDED, "incomplete", "unreadable", "unplanned")
FLAGS = ("dirty", "plugin_committed")
GIVEN = ("run", "variant", "hardware", "versions")  # texts that every row has
_OTHERS = {*METRICS, *NUMBERS, *FLAGS, "status", "seed"}
TEXTS = {name: "" if name in GIVEN else None for name in COLUMNS if name not in _OTHERS}
"""A column of texts -> its value where that is missing."""
EPOCH = ("run", "variant", "seed", "epoch")  # the first columns of curves


@dataclass(frozen=True)
class Runs:
    """A study's plan and its runs.

    `runs`: one row for each run, in the plan's order: `COLUMNS`, then the settings; NaN or None where a value is
    unknown. `curves`: one row for each run and epoch: run, variant, seed, epoch, lr and the metrics.
    """

    plan: Compared  # as in study.json, or with the metric and the baseline of an exploratory report
    runs: pd.DataFrame
    curves: pd.DataFrame
    troubles: dict[str, str] = field(default_factory=dict)  # run -> why the record is excluded
    sources: dict[str, dict[str, str]] = field(default_factory=dict)  # digest of a plug-in -> file -> its text
    looks: tuple[Look, ...] = ()  # those recorded so far
    folder: Path | None = None  # of the run folders, if any
    stated: Compared | None = None  # the plan that the runs state, if `plan` is of a part or exploratory
    noted: tuple[str, ...] = ()  # what a reader must know beside the notes of the plan

    @classmethod
    def of_rows(cls, plan: Compared, rows: list[dict[str, Any]], curves: list[dict[str, Any]], **parts: Any) -> Runs:
        """A table from the rows of runs and epochs."""
        return cls.of_frames(plan, pd.DataFrame(rows, dtype=object), pd.DataFrame(curves, dtype=object), **parts)

    @classmethod
    def of_frames(cls, plan: Compared, runs: pd.DataFrame, curves: pd.DataFrame | None = None, **parts: Any) -> Runs:
        """A table from the frames of runs and epochs, which get the columns that they lack, and numbers as numbers.

        The base of a study gets the defaults of settings that are newer than the plan. Raises
        `RecordError` where the value of a number is none.
        """
        if isinstance(plan, Study):
            plan = plan.changed(base=completed(plan.base))
        runs, epochs = _with((*COLUMNS, plan.metric), runs), _with(EPOCH, pd.DataFrame() if curves is None else curves)
        numbers = [*NUMBERS, *known_metrics(runs.columns), plan.metric]
        for frame, names in ((runs, dict.fromkeys(numbers)), (epochs, epochs.columns[3:])):
            for name in names:
                try:
                    frame[name] = pd.to_numeric(frame[name])
                except (ValueError, TypeError, OverflowError) as error:
                    raise RecordError(f"{plan.name}: the epochs have a {name} that is no number: {error}") from error
        return cls(plan, runs, epochs.infer_objects(), **parts)

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
        """The metric by which variants are compared, with the name that the study gives to it."""
        return Metric(self.plan.compared_by, label=self.plan.names.get(self.plan.metric, ""))

    @property
    def margin(self) -> float | None:
        """Smaller differences count as equal. None where it is stated for a metric of another unit."""
        same = Metric(self.stated_plan.metric).is_share == self.metric.is_share
        return self.plan.margin if same else None

    @cached_property
    def factors(self) -> dict[str, list[str]]:
        """Factor -> its levels as text."""
        return {factor: [level_text(level) for level in levels] for factor, levels in self.plan.factors.items()}

    @cached_property
    def base(self) -> dict[str, Any]:
        """The settings that every run starts from, by dotted path."""
        return dict(leaves(self.plan.base))

    @property
    def stated_plan(self) -> Compared:
        """The plan that the runs state."""
        return self.plan if self.stated is None else self.stated

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of a table, of an exploratory report and of several tables."""
        return (*self.plan.notes, *self.noted)

    @property
    def varied(self) -> list[str]:
        """The settings that the factors vary: those that a factor links count one by one."""
        return list(dict.fromkeys(path for factor in self.factors for path in factor.split("+")))

    @property
    def recorded(self) -> bool:
        """Whether looks at this study are recorded: not those at runs that no study has planned."""
        return isinstance(self.plan, Study)

    @property
    def metrics(self) -> list[Metric]:
        """Every metric that a run has measured, those of every record first."""
        return known_metrics(self.metric if name == self.metric else name for name in self.runs)

    @property
    def measured(self) -> list[Metric]:
        """The metrics of which a run has a value."""
        return [metric for metric in self.metrics if self.runs[metric].notna().any()]

    @property
    def variants(self) -> list[str]:
        """Every planned variant, in the plan's order."""
        return list(dict.fromkeys(self.runs.loc[self.runs["status"] != "unplanned", "variant"]))

    @property
    def training_known(self) -> bool:
        """Whether the source says how runs were trained. A table of results does not."""
        return bool((self.of(*ENDED)["epochs"] > 0).any())

    def one_run_each(self) -> pd.DataFrame:
        """One row for each variant with an ended run: that run's row. The index is the variant."""
        return self.of(*ENDED).drop_duplicates("variant").set_index("variant")

    def levels(self, factors: Iterable[str]) -> pd.DataFrame:
        """A row for each variant, a column for each of these factors, as text."""
        runs = self.runs.drop_duplicates("variant").set_index("variant")
        return pd.DataFrame({factor: factor_levels(runs, factor) for factor in factors}, index=runs.index)

    def of(self, *statuses: str) -> pd.DataFrame:
        """The runs with one of these statuses."""
        return self.runs[self.runs["status"].isin(statuses)]


def factor_levels(runs: pd.DataFrame, factor: str) -> pd.Series:
    """The level of a factor, one dotted path or several joined by "+", for every run, as text; None if unknown."""
    paths = factor.split("+")
    if any(path not in runs for path in paths):
        return pd.Series([None] * len(runs), index=runs.index, dtype=object)
    levels = [level_text(list(row)) for row in zip(*(runs[path] for path in paths))]
    return pd.Series(levels, index=runs.index, dtype=object)


def _with(first: Iterable[str], frame: pd.DataFrame) -> pd.DataFrame:
    """The columns `first`, of None where there is none, then all others."""
    empty = pd.Series(None, frame.index, dtype=object)
    return pd.DataFrame({name: frame.get(name, empty) for name in dict.fromkeys([*first, *frame])})


def column_name(name: str, kind: str) -> str:
    """What `Runs.runs` calls a column of a user's table: `KIND.NAME` where the name means something else there."""
    return f"{kind}.{name}" if name in (*COLUMNS, *FROM_SUMMARY.values(), *PLACES) else name


def check_row(row: Mapping[str, Any], source: object) -> None:
    """Raise `RecordError` where a value has another type or cannot be, such as an accuracy of 70.

    Every source checks its rows: a digest shows that values are unchanged, not that they are possible.
    """
    if missing := [name for name in ("run", "variant", "seed", "status") if name not in row]:
        raise RecordError(f"{source}: {missing[0]}: is required")
    metrics: dict[str, Metric] = {str(metric): metric for metric in known_metrics(row)}
    for name, value in row.items():
        may_lack = value is None and name not in (*GIVEN, "status")
        if not may_lack and (expected := _expected(name, value, metrics.get(name))):
            shown = f"{value:g}" if type(value) in (int, float) else repr(str(value)[:60])
            raise RecordError(f"{source}: {name}: {shown} is not allowed: expected {expected}")


def _expected(name: str, value: Any, metric: Metric | None) -> str:
    """What a column holds, where the value is something else; else nothing."""
    size = abs(value) if type(value) in (int, float) else math.nan
    if metric is not None and metric.is_share and not math.isnan(size) and not 0 <= value <= 1:
        return "a fraction from 0 to 1; divide percent by 100, or give the column another name, such as acc"
    if metric is not None or name in NUMBERS:
        return "" if size <= LARGEST and (metric is not None or value >= 0) else "a number"
    if name == "status":
        return "" if value in STATUSES else ", ".join(STATUSES)
    if name in (*TEXTS, *FLAGS, "seed"):
        kind = str if name in TEXTS else bool if name in FLAGS else int
        return "" if type(value) is kind else kind.__name__
    return "one value" if isinstance(value, dict | list) else ""


def leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every leaf of a nested mapping, for a row of a table: a list becomes text."""
    return ((path, level_text(value) if isinstance(value, list) else value) for path, value in flatten(tree))


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `leaves`. Where "model" has a value of its own, "model.depth" keeps its dotted path."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, name = path.split(".")
        if any(".".join(sections[:depth]) in flat for depth in range(1, len(sections) + 1)):
            tree[path] = value
            continue
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    return tree


def in_order(levels: Iterable[str]) -> list[str]:
    """Different levels, as text: in the order of their numbers where all are numbers, else as they come."""
    levels = list(dict.fromkeys(levels))
    try:
        numbers = {level: float(level) for level in levels}
    except (ValueError, TypeError):
        return levels
    return sorted(levels, key=numbers.__getitem__) if all(map(math.isfinite, numbers.values())) else levels


def level_text(level: Any) -> str:
    """A factor's level as tables show it: `learned-1d`, or `learned-1d, every-layer` for linked settings."""
    if isinstance(level, list | tuple):
        texts = list(map(level_text, level))
        return texts[0] if len(set(texts)) == 1 else ", ".join(texts)
    return "nan" if level != level else format_level(level.item() if isinstance(level, np.generic) else level)
