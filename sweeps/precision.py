"""`train.precision` auto of a study: float32 or bfloat16, whichever is faster, measured before it is planned."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, load
from experiments.errors import UserError
from experiments.runs import record
from experiments.study import StudyPlan
from sweeps.engines.contract import Engine
from sweeps.plan import make_plan
from sweeps.study import Study
from vit.plugins import PluginError

PRECISION = "train.precision"
AUTO = "auto"
MIN_SPEEDUP = 1.05  # bfloat16 rounds more, so it is not used for less


def resolved(
    study: Study, preset_name: str | None, changes: Mapping[str, Any], study_dir: Path, engine: Callable[[], Engine]
) -> str | None:
    """The precision that auto stands for, which is printed; None where the base of the study gives another value.

    It is that of the study, or of its tuning, in `study_dir`. Where there is none, it is measured by the
    engine. Raises `UserError` where the study is not
    allowed, and where the device is not available or has too little memory.
    """
    base = study.base if isinstance(study.base, Mapping) else {}
    if {**base, **changes}.get(PRECISION) != AUTO:
        return None
    if known := _stored(study_dir):
        print(f"{PRECISION}: auto is {known}, as in {study_dir}", flush=True)
        return known
    plan = make_plan(study, preset_name, {**changes, PRECISION: "float32"})  # refuses before it is measured
    ratio = engine().call(speedup, load(plan.base))
    if ratio is None:
        raise UserError(f"{PRECISION}: {AUTO!r} cannot be measured in time here; set float32 or bfloat16")
    if ratio >= MIN_SPEEDUP:
        precision, reason = "bfloat16", f"{ratio:.2f} times as fast as float32"
    else:
        precision, reason = "float32", f"bfloat16 is only {ratio:.2f} times as fast"
    print(f"{PRECISION}: auto is {precision} here ({reason})", flush=True)
    return precision


def _stored(study_dir: Path) -> str | None:
    """The precision of the study in the folder, else of a trial that tunes it there."""
    if (study_dir / record.STUDY).exists():
        return load(StudyPlan.read(study_dir).base).train.precision
    trials = sorted(study_dir.glob(f"*tuning/*/{record.CONFIG}"))
    return load(record.read_json(trials[0])).train.precision if trials else None


def speedup(device: str, config: RunConfig) -> float:
    """How many times as fast a training step is in bfloat16 as in float32. Raises `UserError`."""
    from experiments.runs.run import pick_device
    from experiments.training.step_time import bfloat16_speedup

    try:
        return bfloat16_speedup(config, pick_device(device))
    except (UserError, PluginError, RuntimeError) as error:  # RuntimeError: a plug-in that fails in one precision
        raise UserError(f"{PRECISION}: {AUTO!r} cannot be measured here, set float32 or bfloat16: {error}") from error
