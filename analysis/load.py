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

from experiments import record
from experiments.config import completed
from experiments.errors import UserError

METRICS = record.METRIC_NAMES
COST = (
    "params", "params_fixed", "flops_per_image", "wall_seconds", "device_seconds", "images_per_second",
    "peak_memory_bytes", "cohort",
)  # fmt: skip
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
    metric: str
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


def read_folder(study_dir: Path, skip_unreadable: bool = False) -> Study:
    """Read a study's folder.

    Raises `RecordError` naming the first record that is missing, altered or at odds with the plan, unless
    `skip_unreadable`; then those are in `troubles`, with the status "unreadable". A plan that cannot be read is always
    an error.
    """
    study_dir = Path(study_dir)
    if not study_dir.is_dir():
        raise UserError(f"{study_dir}: no such folder; give the folder of a study, OUT/STUDY, as vit-sweep writes it")
    plan = _plan(study_dir)
    read = _Reader(skip_unreadable)
    for entry in plan["runs"]:
        read.planned(study_dir, entry)
    planned = {entry["run"] for entry in plan["runs"]}
    for folder in sorted(study_dir.iterdir()):
        if folder.name not in planned and (folder / record.CONFIG).is_file():
            read.unplanned(folder)
    return assemble(plan, read.rows, read.curves, read.troubles, study_dir)


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
        metric=plan["metric"],
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


class _Reader:
    """Collects rows, epochs and troubles, run by run."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.rows: list[dict[str, Any]] = []
        self.curves: list[dict[str, Any]] = []
        self.troubles: dict[str, str] = {}

    def planned(self, study_dir: Path, entry: Mapping[str, Any]) -> None:
        folder = study_dir / entry["run"]
        if not record.is_finished(folder):
            self.rows.append(run_row(entry, "incomplete", {}, {}))
            return
        try:
            run = record.read_run(folder)
            _check_plan(run, entry)
        except record.RecordError as error:
            self._trouble(entry, error)
            return
        self.rows.append(run_row(entry, run.summary["status"], completed(run.config), run.summary))
        self.curves.extend(
            {"run": run.name, "variant": str(entry["variant"]), "seed": entry["seed"], **row} for row in run.rows
        )

    def unplanned(self, folder: Path) -> None:
        """A run in the folder that the plan does not know: shown, and kept out of the numbers."""
        self.troubles[folder.name] = f"is not in {record.STUDY}, so it is in no number"
        self.rows.append(run_row({"run": folder.name, "variant": "", "seed": None}, "unplanned", {}, {}))

    def _trouble(self, entry: Mapping[str, Any], error: record.RecordError) -> None:
        if not self.skip:
            raise record.RecordError(
                f"{error}; delete the folder and run the sweep again, or report without it by --skip-unreadable"
            ) from error
        self.troubles[entry["run"]] = str(error)
        self.rows.append(run_row(entry, "unreadable", {}, {}))


def _plan(study_dir: Path) -> dict[str, Any]:
    """study.json, its list of runs checked. Raises `RecordError`."""
    path = study_dir / record.STUDY
    if not path.is_file():
        raise record.RecordError(f"{path}: is not there; give the folder of a study, OUT/STUDY, as vit-sweep writes it")
    plan = record.read_study(study_dir)
    _expect(path, "factors", plan["factors"], dict)
    _expect(path, "base", plan["base"], dict)
    _expect(path, "runs", plan["runs"], list)
    if isinstance(plan["margin"], bool) or not isinstance(plan["margin"], int | float) or not plan["margin"] > 0:
        raise record.RecordError(f"{path}: margin: {plan['margin']!r} is not a positive number")
    for entry in plan["runs"]:
        if not isinstance(entry, dict) or not {"run", "run_id", "variant", "seed"} <= entry.keys():
            raise record.RecordError(f"{path}: runs: {str(entry)[:80]!r} lacks run, run_id, variant or seed")
        if Path(str(entry["run"])).name != entry["run"]:
            raise record.RecordError(f"{path}: runs: {entry['run']!r} is not the name of a folder")
    plan["base"] = completed(plan["base"])
    if not plan["runs"]:
        raise record.RecordError(f"{path}: runs: the study is empty; there is nothing to report")
    if plan["baseline"] not in [str(entry["variant"]) for entry in plan["runs"]]:
        raise record.RecordError(f"{path}: baseline: {plan['baseline']!r} is the variant of no run")
    return plan


def _expect(path: Path, key: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise record.RecordError(f"{path}: {key}: is a {type(value).__name__}, not a {kind.__name__}")


def _check_plan(run: record.Run, entry: Mapping[str, Any]) -> None:
    """Raise `RecordError` where a record is not of the run that the plan names."""
    if run.summary.get("run_id") != entry["run_id"]:
        raise record.RecordError(
            f"{run.dir / record.SUMMARY}: run_id is {run.summary.get('run_id')!r}, planned is {entry['run_id']!r}"
        )
    settings = dict(flatten(run.config))
    for path, planned in {**(entry.get("levels") or {}), "seed": entry["seed"]}.items():
        planned = level_text(planned) if isinstance(planned, list) else planned
        if path not in settings or settings[path] != planned:
            raise record.RecordError(
                f"{run.dir / record.CONFIG}: {path} is {settings.get(path)!r}, planned is {planned!r}"
            )


def _hardware(hardware: Mapping[str, Any]) -> str:
    threads = hardware.get("threads")
    name = str(hardware.get("name") or hardware.get("device") or "")
    return f"{name} ({hardware.get('device')}, {threads} thread{'s' * (threads != 1)})" if threads else name


def _plain(value: Any) -> Any:
    """A value that went through a column: whole floats are the ints they were, NaN the None."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value
