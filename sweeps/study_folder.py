"""The folder of a study: write its plan to study.json, refuse another study."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.config import RunConfig, flatten, load, override, run_id
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError, writing
from experiments.runs import record
from experiments.runs.known_weights import with_known_weights
from experiments.runs.looks import add_look, look_now
from experiments.study import RunSpec, StudyPlan
from experiments.tuned import Tuned
from sweeps.study import format_level
from vit.registry import REGISTRY

LOCK = ".lock"  # held while study.json or the queue is changed, never during training
ERROR = "error.txt"  # in a run's folder: the traceback of its last failed attempt
STATEMENTS = ("metric", "margin", "looks")  # fields of a study that stay once a run has finished, as the baseline does
LOG = "sweep.log"  # in the study's folder: what libraries print in the workers


def write_plan(plan: StudyPlan, study_dir: Path, command: str) -> None:
    """Write the plan to STUDY/study.json, together with the runs that earlier commands planned there.

    Raises `UserError` where the folder holds another study or cannot be written.
    """
    with writing(study_dir):
        merged_runs(plan, study_dir)  # refuses another study before anything is written
        study_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(study_dir / LOCK):
            runs = merged_runs(plan, study_dir)
            _record_extension(runs, study_dir)
            seeds = sorted({run.seed for run in runs})
            plan.model_copy(update={"runs": runs, "seeds": seeds, "command": command}).write(study_dir)


def plan_of(study_dir: Path) -> StudyPlan:
    """The plan in STUDY/study.json, with every run that it lists. Nothing else is read, so any machine can join a sweep.

    Raises `UserError` where the file cannot be read, holds an exported study, or lists a run that has another id here:
    the source of its plug-in is another one, or this version computes something else.
    """
    path, plan = study_dir / record.STUDY, StudyPlan.read(study_dir)
    plan.check_has_folders(f"{path}:")
    base, levels = load(plan.base), {run.variant: run.levels for run in plan.runs}
    changes = {label: with_known_weights({**levels[label], **plan.tuned_for(label)}, study_dir) for label in levels}
    variants = {label: override(base, changes[label]) for label in levels}
    return plan.model_copy(update={"runs": [_configured(run, variants[run.variant], path) for run in plan.runs]})


def _configured(run: RunSpec, variant: RunConfig, path: Path) -> RunSpec:
    """A run of study.json with its configuration."""
    config = variant.model_copy(update={"seed": run.seed})
    if (here := run_id(config)) != run.run_id:
        kind = variant.model.pos_embed
        reason = f"the source of the plug-in {kind!r} differs" if REGISTRY[kind].is_plugin else "this version differs"
        if "init_from" in run.levels:
            reason = f"the weights in {variant.init_from!r} were changed; restore them"
        raise UserError(f"{path}: {run.name} has the run id {here} here, not {run.run_id}: {reason}")
    return run.with_config(config)


def merged_runs(plan: StudyPlan, study_dir: Path) -> list[RunSpec]:
    """The runs in study.json and those of the plan, the former first.

    Raises `UserError` where the folder holds an exported study, or another study, naming the first difference.
    """
    old = _old_plan(study_dir)
    if not old:
        return plan.runs
    old.check_has_folders(f"out: {str(study_dir)!r}", "choose another --out")
    planned = _variants_by_id(plan, {run.seed for run in old.runs})
    for difference in _differences(old, plan, planned, study_dir):
        path = study_dir / record.STUDY
        raise UserError(f"{path}: holds another study: {difference}; choose another --out, or another name")
    runs = {run.run_id: planned[run.run_id].model_copy(update={"name": run.name}) for run in old.runs}
    for run in plan.runs:
        runs.setdefault(run.run_id, run)
    seeds, labels = _places(run.seed for run in runs.values()), _places(plan.labels)
    return sorted(runs.values(), key=lambda run: (seeds[run.seed], labels[run.variant]))


def _places(values: Iterable[Any]) -> dict[Any, int]:
    """Value -> its place among the different values."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}


def check_images(plan: StudyPlan, study_dir: Path) -> None:
    """Raise `UserError` where runs are left to train and the user's images were changed since another run of the study."""
    runs = [run for run in plan.runs if DATASETS[run.config.data.name].source == "folder"]
    finished = {run.name: run for run in runs if record.is_finished(study_dir / run.name)}
    if finished and len(finished) < len(runs):
        from experiments.runs.run import check_images as check_run  # it imports torch

        for run in {run.config.data.root: run for run in finished.values()}.values():  # one for each folder of images
            try:
                summary = record.read_summary(study_dir / run.name)
            except record.RecordError:
                continue  # a damaged record does not say which images it used
            check_run(run.config.data, summary.get("data", {}).get("files"), study_dir / run.name)


def with_known_names(plan: StudyPlan, study_dir: Path) -> StudyPlan:
    """The plan with the names, and so the folders, that study.json already gives to some of its runs.

    A study that gains a factor gives its variants longer labels. The records stay in the folders that they are in.
    """
    old = _old_plan(study_dir)
    names = {run.run_id: run.name for run in old.runs} if old else {}
    runs = [run.model_copy(update={"name": names.get(run.run_id, run.name)}) for run in plan.runs]
    return plan.model_copy(update={"runs": runs})


def _old_plan(study_dir: Path) -> StudyPlan | None:
    """The plan in study.json; None where there is none."""
    with writing(study_dir):
        return StudyPlan.read(study_dir) if (study_dir / record.STUDY).exists() else None


def _variants_by_id(plan: StudyPlan, seeds: set[int]) -> dict[str, RunSpec]:
    """Run id -> run, for the runs of the plan, and for every variant of it with each of these seeds."""
    more = seeds - {run.seed for run in plan.runs}
    others = (
        RunSpec.of(run.name, run.config.model_copy(update={"seed": seed}), run.variant, run.levels)
        for run in {run.variant: run for run in plan.runs}.values()
        for seed in more
    )
    return {run.run_id: run for run in (*plan.runs, *others)}


def _record_extension(runs: list[RunSpec], study_dir: Path) -> None:
    """Record a look where new seeds are planned after runs have finished: their results may be the reason."""
    old = _old_plan(study_dir)
    if not old or {run.seed for run in runs} <= {run.seed for run in old.runs}:
        return
    finished = Counter({run.variant: 0 for run in old.runs})
    for run in old.runs:
        with contextlib.suppress(record.RecordError):  # a damaged record is no result; the report names it
            if record.is_finished(study_dir / run.name):
                finished[run.variant] += record.read_summary(study_dir / run.name)["status"] == "finished"
    add_look(study_dir, look_now(finished.values(), old.metric, "vit-sweep"))


def _differences(old: StudyPlan, plan: StudyPlan, planned: Mapping[str, RunSpec], study_dir: Path) -> Iterator[str]:
    """What makes the study in the folder another study than the plan's. More seeds, levels and factors do not, if the
    plan has every run of the folder.
    """
    missing = [run for run in old.runs if run.run_id not in planned]
    if missing and (difference := _tuned_difference(old.tuned, plan.tuned)):
        yield difference
    elif missing:
        base = load(plan.base)
        before, now = (dict(flatten(config.model_dump())) for config in (load(old.base), base))
        for path in now:
            if before[path] != now[path] and _changes_run_id(base, path, before[path]):
                yield _differ(f"base.{path}", before[path], now[path])
        for path in (*old.factors, *plan.factors):
            if old.factors.get(path) != plan.factors.get(path):
                yield _differ(f"factors.{path}", old.factors.get(path), plan.factors.get(path))
        if old.extra != plan.extra:
            yield _differ("extra", old.extra, plan.extra)
        yield f"{missing[0].name} is not among the runs here{_plugin_reason(missing[0], plan)}"
    yield from _changed_statements(old, plan, planned, study_dir)


def _differ(path: str, before: Any, now: Any) -> str:
    return f"{path} is {format_level(before)} there and {format_level(now)} here"


def _changed_statements(
    old: StudyPlan, plan: StudyPlan, planned: Mapping[str, RunSpec], study_dir: Path
) -> Iterator[str]:
    """What the plan states otherwise than the study in the folder, of which a run has finished.

    A baseline that neither states is the first variant, which may change when the study gains levels and factors.
    """
    before, now = ({field: getattr(tree, field) for field in STATEMENTS} for tree in (old, plan))
    if any(tree.study.get("baseline") is not None for tree in (old, plan)):
        before["baseline"], now["baseline"] = _baseline_now(old, planned), plan.baseline
    changed = [field for field in before if before[field] != now[field]]
    if changed and any(record.is_finished(study_dir / run.name) for run in old.runs):
        field = changed[0]
        yield f"{_differ(field, before[field], now[field])}, and it cannot change after the first run has finished"


def _baseline_now(old: StudyPlan, planned: Mapping[str, RunSpec]) -> str:
    """The present label of the baseline in the folder: a study that gains a factor gives its variants longer labels."""
    ids = [run.run_id for run in old.runs if run.variant == old.baseline]
    return next((planned[digits].variant for digits in ids if digits in planned), old.baseline)


def _tuned_difference(old: Tuned | None, new: Tuned | None) -> str:
    """How the tuned settings in the folder differ from the plan's; empty if they are equal."""
    before, now = (
        {label: chosen.settings for label, chosen in tuned.variants.items()} if tuned else {} for tuned in (old, new)
    )
    if before == now:
        return ""
    if not old:
        return "its runs are not tuned (--tuned was not given)"
    return "its runs have other tuned settings" if new else "its runs are tuned (--tuned FILE was given)"


def _plugin_reason(missing: RunSpec, plan: StudyPlan) -> str:
    """Why a run has another id although its settings are the same: the source of its plug-in."""
    for run in plan.runs:
        kind = run.config.model.pos_embed
        if run.variant == missing.variant and REGISTRY[kind].is_plugin:
            return f": the source of the plug-in {kind!r} was changed, or is not recorded there"
    return ""


def _changes_run_id(config: RunConfig, path: str, value: Any) -> bool:
    """Whether this setting would give the run another id. True for a value that is not allowed by itself."""
    try:
        return run_id(override(config, {path: value})) != run_id(config)
    except UserError:
        return True
