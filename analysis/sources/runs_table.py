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
from analysis.sources.plugin_source import Sources
from analysis.sources.settings import PLACES, cell_value, flatten, level_text
from experiments.config import completed
from experiments.metric import METRICS, Metric, known_metrics
from experiments.runs import record
from experiments.runs.looks import Look
from experiments.study import RunSpec, StudyPlan

COST = (
    "params",
    "params_fixed",
    "flops_per_image",
    "wall_seconds",
    "device_seconds",
    "images_per_second",
    "peak_memory_bytes",
    "cohort",
)
IMAGES = ("train_images", "val_images", "test_images")
PLANNED = tuple(
    f"planned_{name}" for name in (*record.COMPARISON, "fields")
)  # what the study stated when the run started
PLUGIN = ("plugin_modules", "plugin_digest", "plugin_committed")  # None for built-in kinds
PROVENANCE = ("commit", "dirty", "started", "finished", "command")
COLUMNS = (
    "run",
    "run_id",
    "variant",
    "seed",
    "status",
    "epochs",
    *METRICS,
    *COST,
    *IMAGES,
    "image_files",
    *PLANNED,
    *PROVENANCE,
    *PLUGIN,
    "hardware",
    "versions",
    "digest",
)
"""The columns of `RunsTable.runs` that every source gives. Then come, in any order, the settings by dotted path
("model.depth") and the metrics that only some runs measure ("fewshot/mnist/5")."""

CHOOSE_IMAGES = (
    "data.name",
    "data.root",
    "data.split_seed",
    "data.val_fraction",
    "data.test_fraction",
    "data.train_limit",
)
"""The settings that determine which images a run uses."""

NUMBERS = ("epochs", *METRICS, *COST, *IMAGES, "planned_margin")
ENDED = record.STATUSES


@dataclass(frozen=True)
class RunsTable:
    """A study's plan and its runs.

    `runs`: one row for each run, in the plan's order: `COLUMNS`, then the settings; NaN or None where a value is
    unknown. `curves`: one row for each run and epoch: run, variant, seed, epoch, lr and the metrics. `plan`: as in
    study.json, or with the metric and the baseline of an exploratory report. `troubles`: run -> why the record is
    excluded. `hits`: run -> its hits on the test images, for records that hold them. `sources`: the source of plug-ins by
    digest. `looks`: the looks recorded so far. `folder`: the folder of the run folders; None where there is none.
    `stated`: the plan that the runs state, where it is not `plan`: for a part of a study, and for an exploratory report.
    """

    plan: StudyPlan
    runs: pd.DataFrame
    curves: pd.DataFrame
    troubles: dict[str, str] = field(default_factory=dict)
    hits: dict[str, RunHits] = field(default_factory=dict)
    sources: Sources = field(default_factory=dict)
    looks: tuple[Look, ...] = ()
    folder: Path | None = None
    stated: StudyPlan | None = None

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


def assemble(
    plan: StudyPlan,
    rows: list[dict[str, Any]],
    curves: list[dict[str, Any]],
    troubles: Mapping[str, str] | None = None,
    folder: Path | None = None,
    hits: Mapping[str, RunHits] | None = None,
    sources: Sources | None = None,
    looks: Iterable[Look] = (),
) -> RunsTable:
    """A `RunsTable` from a plan, the rows of its runs (see `run_row`) and their epochs.

    The base of a plan that was not inferred gets the defaults of settings that are newer than the plan.
    """
    if plan.source is None:
        plan = plan.model_copy(update={"base": completed(plan.base)})
    runs = pd.DataFrame(rows, columns=list(dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)])))
    if plan.metric not in runs:
        runs[plan.metric] = math.nan  # no run has measured it yet
    for column in dict.fromkeys([*NUMBERS, *known_metrics(runs.columns)]):
        runs[column] = pd.to_numeric(runs[column], errors="coerce")
    seeds = [row["seed"] for row in rows]
    runs["seed"] = pd.Series(seeds, dtype=object)  # a run without a seed must not turn the others into floats
    return RunsTable(
        plan=plan,
        runs=runs,
        curves=pd.DataFrame(
            curves,
            columns=list(dict.fromkeys(["run", "variant", "seed", "epoch", *(key for row in curves for key in row)])),
        ),
        troubles=dict(troubles or {}),
        hits=dict(hits or {}),
        sources=dict(sources or {}),
        looks=tuple(looks),
        folder=folder,
    )


def run_row(run: RunSpec, status: str, config: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    """One row of `RunsTable.runs`.

    `config`: nested settings. `summary`: as in summary.json. `config` and
    `summary` are empty for a run without a record.
    """
    settings = dict(flatten(config)) or dict(run.levels)
    provenance, cost, images, planned = (_section(summary, key) for key in ("provenance", "cost", "data", "planned"))
    versions = sorted(_section(provenance, "versions").items())
    return {
        **settings,
        "run": run.name,
        "run_id": summary.get("run_id") or run.run_id or None,
        "variant": run.variant,
        "seed": run.seed,
        "status": status,
        "epochs": summary.get("epochs", 0),
        **{metric: summary.get(metric) for metric in known_metrics(summary)},
        **{name: cost.get(name) for name in COST},
        **{name: images.get(name) for name in IMAGES},
        "image_files": images.get("files"),
        **{f"planned_{name}": planned_cell(planned.get(name)) for name in (*record.COMPARISON, "fields")},
        **{name: provenance.get(name) for name in PROVENANCE},
        **{name: _section(provenance, "plugin").get(name.removeprefix("plugin_")) for name in PLUGIN},
        "hardware": _hardware(_section(provenance, "hardware")),
        "versions": ", ".join(f"{package} {version}" for package, version in versions),
        "digest": summary.get("digest"),
    }


def factor_levels(runs: pd.DataFrame, factor: str) -> pd.Series:
    """The level of a factor for every run, as text; None where a run lacks the setting.

    `factor`: a dotted path, or several joined by "+".
    """
    paths = factor.split("+")
    if any(path not in runs for path in paths):
        return pd.Series([None] * len(runs), index=runs.index, dtype=object)
    columns = [runs[path].astype(object) for path in paths]
    return pd.Series(
        [level_text([cell_value(cell) for cell in row]) for row in zip(*columns)], index=runs.index, dtype=object
    )


def changed_images(study: RunsTable) -> list[str]:
    """Variants whose runs used other images than another run with the same settings of the data, in the order of the runs.

    The records state the numbers of images and, for the user's own files, a hash. A missing value is not compared.
    """
    ended = study.of(*ENDED)
    settings = [path for path in CHOOSE_IMAGES if path in ended and (path in study.varied or path not in PLACES)]
    alike = factor_levels(ended, "+".join(settings)).fillna("")
    changed = (ended[[*IMAGES, "image_files"]].groupby(alike).transform("nunique") > 1).any(axis=1)
    return [str(variant) for variant in ended.loc[changed, "variant"].unique()]


def not_held_fixed(study: RunsTable) -> dict[str, list[str]]:
    """Settings outside the factors that differ between ended runs: path -> values. Empty for a clean ablation.

    Settings that were tuned for each variant are not listed, nor the initial weights that follow from a factor.
    """
    ended = study.of(*ENDED)
    ignored = {*study.varied, *PLACES, *study.plan.tuned_settings} | (
        {"init_weights"} if "init_from" in study.varied else set()
    )
    settings = [column for column in ended.columns if column in study.base and column not in ignored]
    found = {
        path: list(dict.fromkeys(level_text(cell_value(cell)) for cell in ended[path].unique())) for path in settings
    }
    return {path: values for path, values in found.items() if len(values) > 1}


def planned_cell(value: Any) -> Any:
    """A value of the plan as a cell: a list of seeds becomes text, and so do digests of fields."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={digest}" for key, digest in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _section(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A nested part of a summary. In an imported run the name may belong to a metric of another program."""
    value = tree.get(name)
    return value if isinstance(value, Mapping) else {}


def _hardware(hardware: Mapping[str, Any]) -> str:
    threads = hardware.get("threads")
    name = str(hardware.get("name") or hardware.get("device") or "")
    return f"{name} ({hardware.get('device')}, {threads} thread{'s' * (threads != 1)})" if threads else name
