"""Run folders -> one tidy table: one row a run, one a run's epoch. Nothing is computed here, and no file is written.

A record that cannot be trusted stops the reading, or, where that is asked for, is listed and shown. A planned run that
has not ended is listed as incomplete. Nothing is dropped in silence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.metric import METRICS, Metric
from experiments.errors import UserError
from experiments.runs import record

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
    *PROVENANCE,
    "hardware",
    "versions",
    "digest",
)
"""Every source gives these columns, and one for each setting of the configuration by its dotted path ("model.depth").
"""

ENDED = record.STATUSES
PLACES = ("data.root", "data.download", "seed")
"""Settings that may differ between any two runs of a study: where files lie, and the seed."""


@dataclass(frozen=True)
class Study:
    """What was planned and what came of it.

    `runs`: one row a run with `COLUMNS`, the settings, and a column for each factor (its level as text), in the plan's
    order. `curves`: one row a run's epoch: run, variant, seed, epoch, lr and the metrics. `plan`: as in study.json.
    `base`: the settings that every run starts from, by dotted path. `troubles`: why a record is in no number, run -> reason.
    `folder`: where the runs' folders lie, for those who look inside a model; None where there are none.
    """

    name: str
    description: str
    factors: dict[str, list[str]]
    baseline: str
    metric: Metric
    margin: float
    runs: pd.DataFrame
    curves: pd.DataFrame
    plan: Mapping[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def command(self) -> str | None:
        """The command that made the runs, where it is known."""
        return self.plan.get("command")

    @property
    def variants(self) -> list[str]:
        """Every variant that was planned, in the plan's order."""
        planned = self.runs[self.runs["status"] != "unplanned"]
        return list(dict.fromkeys(planned["variant"]))

    def settings(self) -> pd.DataFrame:
        """A row for each variant that has a run that ended: that run's, whose settings are known."""
        return self.of(*ENDED).drop_duplicates("variant").set_index("variant")

    def of(self, *statuses: str) -> pd.DataFrame:
        """The runs with one of these statuses."""
        return self.runs[self.runs["status"].isin(statuses)]


def assemble(
    plan: Mapping[str, Any],
    rows: list[dict[str, Any]],
    curves: list[dict[str, Any]],
    troubles: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Study:
    """A `Study` from a plan (as in study.json) and its runs' rows (see `run_row`) and epochs."""
    runs = pd.DataFrame(rows, columns=list(dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)])))
    for column in ("epochs", *METRICS, *COST):
        runs[column] = pd.to_numeric(runs[column], errors="coerce")
    runs["seed"] = pd.Series(
        [row["seed"] for row in rows], dtype=object
    )  # a run without one must not turn all to floats
    if plan["metric"] not in METRICS:
        raise UserError(f"metric: {plan['metric']!r} is not among {', '.join(METRICS)}")
    return Study(
        name=str(plan["name"]),
        description=str(plan.get("description") or ""),
        factors={factor: [level_text(level) for level in levels] for factor, levels in plan["factors"].items()},
        baseline=str(plan["baseline"]),
        metric=Metric(plan["metric"]),
        margin=float(plan["margin"]),
        runs=runs,
        curves=pd.DataFrame(
            curves,
            columns=list(dict.fromkeys(["run", "variant", "seed", "epoch", *(key for row in curves for key in row)])),
        ),
        plan=plan,
        base=dict(flatten(plan.get("base") or {})),
        troubles=dict(troubles or {}),
        folder=folder,
    )


def run_row(
    entry: Mapping[str, Any], status: str, config: Mapping[str, Any], summary: Mapping[str, Any]
) -> dict[str, Any]:
    """One run as a row: `entry` is its line of the plan, `config` nested settings, `summary` as in summary.json (both
    may be empty).
    """
    settings = dict(flatten(config)) or dict(entry.get("levels") or {})
    provenance = summary.get("provenance") or {}
    hardware = provenance.get("hardware") or {}
    cost = summary.get("cost")
    cost = cost if isinstance(cost, Mapping) else {}  # in a mirror it may be another's metric
    return {
        **settings,
        "run": entry["run"],
        "run_id": summary.get("run_id") or entry.get("run_id"),
        "variant": str(entry["variant"]),
        "seed": entry["seed"],
        "status": status,
        "epochs": summary.get("epochs", 0),
        **{metric: summary.get(metric) for metric in METRICS},
        **{name: cost.get(name) for name in COST},
        **{name: provenance.get(name) for name in PROVENANCE},
        "hardware": _hardware(hardware),
        "versions": ", ".join(
            f"{package} {version}" for package, version in sorted((provenance.get("versions") or {}).items())
        ),
        "digest": summary.get("digest"),
    }


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every leaf of a nested mapping; a list is a leaf, as text."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", level_text(value) if isinstance(value, list) else value


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The opposite of `flatten`: {"model.depth": 2} -> {"model": {"depth": 2}}.

    Where one path goes on beyond another's value ("model" and "model.depth"), it stays as it is: nothing is lost.
    """
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, field = path.split(".")
        parents = [".".join(sections[: depth + 1]) for depth in range(len(sections))]
        if any(parent in flat for parent in parents):
            tree[path] = value
            continue
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[field] = value
    return tree


def level_text(level: Any) -> str:
    """A factor's level as a table shows it: `learned-1d`, or `learned-1d, every-layer` where fields move together."""
    if isinstance(level, list | tuple):
        texts = list(map(level_text, level))
        return texts[0] if len(set(texts)) == 1 else ", ".join(texts)
    if isinstance(level, bool) or level is None:
        return {True: "true", False: "false", None: "not set"}[level]
    return f"{level:g}" if isinstance(level, float) and float(f"{level:g}") == level else str(level)


def factor_levels(runs: pd.DataFrame, factor: str) -> pd.Series:
    """The level of a factor (single path or joined by "+") of every run, as text; None where the run's settings lack
    it.
    """
    paths = factor.split("+")
    if any(path not in runs for path in paths):
        return pd.Series([None] * len(runs), index=runs.index, dtype=object)
    columns = [runs[path].astype(object) for path in paths]
    return pd.Series(
        [level_text([_plain(value) for value in row]) for row in zip(*columns)], index=runs.index, dtype=object
    )


def not_held_fixed(study: Study) -> dict[str, list[str]]:
    """Settings outside the factors that differ between ended runs: path -> the values found. Empty for a clean
    ablation.
    """
    ended = study.of(*ENDED)
    moved = {path for factor in study.factors for path in factor.split("+")} | set(PLACES)
    settings = [column for column in ended.columns if column in study.base and column not in moved]
    found = {
        path: list(dict.fromkeys(level_text(_plain(value)) for value in ended[path].unique())) for path in settings
    }
    return {path: values for path, values in found.items() if len(values) > 1}


def _hardware(hardware: Mapping[str, Any]) -> str:
    threads = hardware.get("threads")
    name = str(hardware.get("name") or hardware.get("device") or "")
    return f"{name} ({hardware.get('device')}, {threads} thread{'s' * (threads != 1)})" if threads else name


def _plain(value: Any) -> Any:
    """A value that went through a column: whole floats are the ints they were, NaN the None."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value
