"""From a study to its runs: each cell checked against a base configuration, named, kept in study.json. No training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.config import RunConfig, load, override, run_id
from experiments.errors import UserError
from experiments.presets import preset
from experiments.runs import record
from experiments.runs.spec import RunSpec
from sweeps.study import Cell, Study, expand, text
from vit.registry import nearest

LOCK = ".lock"  # held while study.json or the queue is changed, and never while anything is trained
SLUG = 60  # characters of a variant's label that a folder's name takes, at most


@dataclass(frozen=True)
class Plan:
    """A study on a base configuration: what a command trains. `runs` go seed by seed, so that early results pair."""

    study: Study
    preset: str
    base: RunConfig
    factors: dict[str, list[Any]]  # as the configuration understood them: "1e-3" as 0.001
    extra: list[Cell]
    baseline: str
    runs: list[RunSpec]


def make_plan(study: Study, preset_name: str | None = None, changes: Mapping[str, Any] | None = None) -> Plan:
    """Check every cell of a study and list its runs. `preset_name` and `changes` go before the study's own base.

    Raises `UserError` naming the first setting, level or combination that is not possible.
    """
    name, base = base_config(study, preset_name, changes or {})
    cells = [_understood(study, base, cell) for cell in study.cells()]
    product, extra = cells[: len(cells) - len(study.extra)], cells[len(cells) - len(study.extra) :]
    variants = _variants(study, cells)
    factors: dict[str, list[Any]] = {factor: [] for factor in study.factors}
    for cell, _ in product:
        for factor, level in cell.items():
            if level not in factors[factor]:
                factors[factor].append(level)
    baseline = _baseline(study, {label: levels for label, (levels, _) in variants.items()})
    runs = [_run(label, *variant, seed) for seed in study.seed_list for label, variant in variants.items()]
    return Plan(study, name, base, factors, [cell for cell, _ in extra], baseline, runs)


def base_config(study: Study, preset_name: str | None, changes: Mapping[str, Any]) -> tuple[str, RunConfig]:
    """(the preset's name, what every cell starts from): the preset, then the study's settings, then `changes`."""
    own = {"preset": study.base} if isinstance(study.base, str) else dict(study.base)
    name = own.pop("preset", "digits")
    config = preset(preset_name or str(name))
    factors = {path for factor in study.factors for path in factor.split("+")}
    for path in (*own, *changes):
        if path.replace("-", "_") in factors:
            raise UserError(f"{path}: is a factor of the study {study.name}; the base cannot set it")
        if path == "seed":
            raise UserError("seed: a study decides its seeds; use --seeds, or `seeds` in its file")
    return preset_name or str(name), override(config, {**own, **changes})


def _understood(study: Study, base: RunConfig, cell: Cell) -> tuple[Cell, RunConfig]:
    """A cell with its levels as the configuration understands them, and that configuration."""
    try:
        config = override(base, expand(cell))
    except UserError as error:
        raise UserError(f"{study.name}: variant {study.label(cell)!r}: {error}") from error
    flat = dict(flatten(config.model_dump()))
    return {f: [flat[path] for path in f.split("+")] if "+" in f else flat[f] for f in cell}, config


def _variants(study: Study, cells: list[tuple[Cell, RunConfig]]) -> dict[str, tuple[Cell, RunConfig]]:
    """Label -> (levels of every single path, configuration). Raises `UserError` for two that are one."""
    variants: dict[str, tuple[Cell, RunConfig]] = {}
    labels: dict[str, str] = {}  # run id -> label
    for cell, config in cells:
        label, flat = study.label(cell), dict(flatten(config.model_dump()))
        twin = labels.setdefault(run_id(config), label)
        if label in variants or twin != label:
            raise UserError(f"{study.name}: factors: the variants {twin!r} and {label!r} are one and the same")
        variants[label] = {path: flat[path] for factor in study.factors for path in factor.split("+")}, config
    return variants


def _baseline(study: Study, variants: Mapping[str, Cell]) -> str:
    """The label that `study.baseline` means, be it a label, a level or a cell."""
    given = study.baseline
    if given is None:
        return next(iter(variants))
    if isinstance(given, Mapping):
        try:
            wanted = expand({str(factor).replace("-", "_"): level for factor, level in given.items()})
        except (TypeError, ValueError):  # a linked factor without a list of as many values
            wanted = {}
        found = [
            label
            for label, levels in variants.items()
            if wanted and all(path in levels and text(levels[path]) == text(level) for path, level in wanted.items())
        ]
        given = ", ".join(f"{factor}={text(level)}" for factor, level in given.items())
    else:
        given = ", ".join(map(text, given)) if isinstance(given, list) else text(given)
        found = [label for label in variants if label == given]
    if len(found) > 1:
        raise UserError(f"{study.name}: baseline: {given!r} is several variants: {'; '.join(found)}")
    if not found:
        raise UserError(f"{study.name}: baseline: {given!r} is no variant; {nearest(given, list(variants))}")
    return found[0]


def _run(label: str, levels: Cell, config: RunConfig, seed: int) -> RunSpec:
    config = override(config, {"seed": seed})
    slug = re.sub(r"[^A-Za-z0-9._=,-]+", "-", label.replace(", ", ","))[:SLUG].strip(".-,") or "variant"
    return RunSpec(f"{slug}-s{seed}-{run_id(config)[:8]}", config, label, levels)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every leaf of a nested mapping."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def write(plan: Plan, study_dir: Path, command: str) -> dict[str, Any]:
    """Put the plan into STUDY/study.json, beside what earlier commands planned there. Returns what now stands.

    Raises `UserError` where the folder belongs to another study, or cannot be written.
    """
    try:
        if (study_dir / record.STUDY).exists() and record.EXPORT in record.read_study(study_dir):
            raise UserError(
                f"out: {str(study_dir)!r} holds an exported study, which has no run folders; choose another --out"
            )
        study_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(study_dir / LOCK):
            entries = [_entry(run) for run in plan.runs]
            if (study_dir / record.STUDY).exists():
                entries = _merged(record.read_study(study_dir), plan, study_dir)
            tree = {
                "name": plan.study.name,
                "description": plan.study.description,
                "preset": plan.preset,
                "factors": plan.factors,
                "extra": plan.extra,
                "baseline": plan.baseline,
                "metric": plan.study.metric,
                "margin": plan.study.margin,
                "seeds": sorted({entry["seed"] for entry in entries}),
                "base": plan.base.model_dump(),
                "command": command,
                "study": plan.study.model_dump(exclude_defaults=True),
                "runs": entries,
            }
            record.write_study(study_dir, tree)
    except OSError as error:
        raise UserError(f"out: {str(study_dir)!r} cannot be written: {error.strerror}") from error
    return tree


def _entry(run: RunSpec) -> dict[str, Any]:
    """The run as study.json lists it."""
    own = {"variant": run.variant, "levels": run.levels, "seed": run.seed}
    return {"run": run.name, "run_id": run.run_id, **own}


def _merged(old: Mapping[str, Any], plan: Plan, study_dir: Path) -> list[dict[str, Any]]:
    """The runs of both plans, the old ones first. Raises `UserError` naming the first path in which they differ."""
    where = f"{study_dir / record.STUDY}: holds another study"
    advice = "choose another --out, or another name"
    for path, before, now in _differences(old, plan):
        raise UserError(f"{where}: {path} is {text(before)} there and {text(now)} here; {advice}")
    known = {(entry["variant"], entry["seed"]): entry for entry in old["runs"]}
    labels = {entry["run_id"]: entry["variant"] for entry in old["runs"]}
    if any(record.is_finished(study_dir / entry["run"]) for entry in old["runs"]):  # before, they may be thought over
        for path, now in (("metric", plan.study.metric), ("margin", plan.study.margin)):
            if old[path] != now:
                told = f"{path} is {text(old[path])} there and {text(now)} here, and is to be stated before the runs"
                raise UserError(f"{where}: {told}; {advice}")
    for run in plan.runs:
        if run.run_id in labels and labels[run.run_id] != run.variant:
            raise UserError(f"{where}: {labels[run.run_id]!r} there is called {run.variant!r} here; {advice}")
        entry = known.setdefault((run.variant, run.seed), _entry(run))
        if entry["run_id"] != run.run_id:
            ids = f"the run id {entry['run_id']} there and {run.run_id} here"
            raise UserError(f"{where}: {entry['run']} has {ids}; {advice}")
    return list(known.values())


def _differences(old: Mapping[str, Any], plan: Plan) -> Iterator[tuple[str, Any, Any]]:
    """(path, there, here) where base or variants differ; what is no part of a run's identity may."""
    before, now = (dict(flatten(config.model_dump())) for config in (load(old["base"]), plan.base))
    for path in now:
        if before[path] != now[path] and _matters(plan.base, path, before[path]):
            yield f"base.{path}", before[path], now[path]
    for path in (*old["factors"], *plan.factors):
        if old["factors"].get(path) != plan.factors.get(path):
            yield f"factors.{path}", old["factors"].get(path), plan.factors.get(path)
    if old.get("extra", []) != plan.extra:
        yield "extra", old.get("extra", []), plan.extra


def _matters(config: RunConfig, path: str, value: Any) -> bool:
    """Whether a run would be another one with this setting; one that cannot stand alone would."""
    try:
        return run_id(override(config, {path: value})) != run_id(config)
    except UserError:
        return True
