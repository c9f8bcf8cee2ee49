"""Sweeps of W&B that search for the hyper-parameters of a variant. Validation accuracy decides; test images are not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.canonical import plain
from experiments.config import SETTINGS, RunConfig, flatten, override
from experiments.errors import UserError, writing
from experiments.presets import preset
from experiments.runs import record
from experiments.study import RunSpec
from experiments.tuned import Range
from sweeps.plan import make_run
from sweeps.study import read_mapping
from sweeps.tuning.tuning_plan import FIRST_SEED, OBJECTIVE, TuningPlan
from sweeps.wandb_sweep import place

TRIALS = "wandb-tuning"  # the folder in the study's folder that holds the trials
NOTE = "The folders here are the trials of sweeps that `vit-sweep wandb --tune` wrote. No report uses them.\n"
PROGRAM = "vit-train"


def tuning_sweep(
    plan: TuningPlan,
    variant: RunSpec,
    method: str,
    study_dir: Path,
    options: list[str],
    project: str,
    entity: str | None,
) -> dict[str, Any]:
    """The specification of a sweep over the space of a plan, for one variant. `options`: of `vit-train`."""
    config = variant.config.model_copy(update={"seed": FIRST_SEED})
    words = [f"--{path}={plain(value)}" for path, value in changes(plan.study.preset, config).items()]
    fixed = [word for word in words if word.partition("=")[0][2:] not in plan.space]
    out = ["--out", str(study_dir.resolve() / TRIALS), "--test", "false"]
    return {
        "name": f"{plan.study.name} tuning: {variant.variant}",
        **place(project, entity),
        "program": PROGRAM,
        "method": method,
        "metric": {"name": OBJECTIVE, "goal": "maximize"},
        "run_cap": plan.trials,
        "parameters": parameters(plan),
        "command": [PROGRAM, "--preset", plan.study.preset, *fixed, *out, *options, "${args}"],
    }


def changes(preset_name: str, config: RunConfig) -> dict[str, Any]:
    """The settings in which a configuration differs from a preset, by dotted path."""
    usual = dict(flatten(preset(preset_name).model_dump()))
    found = {path: value for path, value in flatten(config.model_dump()) if value != usual[path]}
    words = {path: plain(value) for path, value in found.items()}
    assert override(preset(preset_name), words) == config, "a setting cannot be written on a command line"
    return found


def parameter(path: str, tried: Range) -> dict[str, Any]:
    """A range as W&B's parameter."""
    if tried.choices:
        return {"values": tried.choices}
    low, high = tried.ends
    if SETTINGS[path].annotation is int:
        kind = {"distribution": "q_log_uniform_values", "q": 1} if tried.log else {"distribution": "int_uniform"}
        return {**kind, "min": int(low), "max": int(high)}
    return {"distribution": "log_uniform_values" if tried.log else "uniform", "min": low, "max": high}


def make_trials_folder(study_dir: Path) -> None:
    """Make the folder of the trials, marked so that no report takes them for runs of the study. Raises `UserError`."""
    folder = study_dir / TRIALS
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        record.write_text(folder / record.TRIALS, NOTE)


def spec_file(variant: RunSpec, study_dir: Path) -> Path:
    """Where the specification of a variant's sweep is written. Other seeds of the study do not change it."""
    named = make_run(variant.variant, variant.levels, variant.config, FIRST_SEED)
    slug, _, digits = named.name.rsplit("-", 2)  # without the seed
    return study_dir / TRIALS / f"{slug}-{digits}.yaml"


def check_method(plan: TuningPlan, method: str, study_dir: Path) -> None:
    """Raise `UserError` where an earlier call wrote sweeps of this space with another method: trials would be mixed."""
    for variant in plan.variants:
        path = spec_file(variant, study_dir)
        old = read_mapping(path, "`method` and `parameters`") if path.exists() else {}
        if old.get("parameters") == parameters(plan) and old.get("method", method) != method:
            raise UserError(
                f"--method: {method} is not allowed: {path} searches with {old['method']}; give that method, or another --out"
            )


def parameters(plan: TuningPlan) -> dict[str, Any]:
    """The space of a plan as W&B's parameters."""
    return {path: parameter(path, tried) for path, tried in plan.space.items()}
