"""The folder of a study: write its plan to study.json, refuse another study, clean up after bad input."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.config import RunConfig, flatten, load, override, run_id
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError, writing
from experiments.runs import record
from experiments.runs.known_weights import with_known_weights
from experiments.runs.looks import add_look, look_now
from experiments.runs.spec import RunSpec
from experiments.runs.unsaved import is_worthless
from sweeps.plan import Plan
from sweeps.study import Levels, format_level, parse_study
from vit.registry import REGISTRY

LOCK = ".lock"  # held while study.json or the queue is changed, never during training
ERROR = "error.txt"  # in a run's folder: the traceback of its last failed attempt
STATEMENTS = ("metric", "margin", "looks")  # fields of a study that stay once a run has finished, as the baseline does
MARKS = (record.STUDY, record.TRIALS)  # a command that uses the folder writes one of them, or changes its time
LOG = "sweep.log"  # in the study's folder: what libraries print in the workers

_own_marks: dict[Path, tuple[int, int] | None] = {}  # the `MARKS` that this process has made -> their version


def write_plan(plan: Plan, study_dir: Path, command: str) -> None:
    """Write the plan to STUDY/study.json, together with the runs that earlier commands planned there.

    Raises `UserError` where the folder holds another study or cannot be written.
    """
    with writing(study_dir):
        merged_entries(plan, study_dir)  # refuses another study before anything is written
        study_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(study_dir / LOCK):
            entries = merged_entries(plan, study_dir)
            is_new = not (study_dir / record.STUDY).exists()
            _record_extension(entries, study_dir)
            tree = {
                "name": plan.study.name,
                "description": plan.study.description,
                "preset": plan.preset,
                "factors": plan.factors,
                "extra": plan.extra,
                "baseline": plan.baseline,
                "metric": plan.study.metric,
                "margin": plan.study.margin,
                "looks": plan.study.looks,
                "seeds": sorted({entry["seed"] for entry in entries}),
                "base": plan.base.model_dump(),
                "command": command,
                "study": plan.study.model_dump(exclude_defaults=True),
                **({"tuned": plan.tuned} if plan.tuned else {}),
                "runs": entries,
            }
            record.write_study(study_dir, tree)
            if is_new:
                own(study_dir / record.STUDY)


def plan_of(study_dir: Path) -> Plan:
    """The plan in STUDY/study.json, with every run that it lists. Nothing else is read, so any machine can join a sweep.

    Raises `UserError` where the file cannot be read, holds an exported study, or lists a run that has another id here:
    the source of its plug-in is another one, or this version computes something else.
    """
    path, tree = study_dir / record.STUDY, record.read_study(study_dir)
    check_not_exported(tree, f"{path}:")
    try:
        study = parse_study(tree["study"], str(path))
        base = load(tree["base"])
        tuned = tree.get("tuned", {})
        levels = {entry["variant"]: entry["levels"] for entry in tree["runs"]}
        own = {label: tuned["variants"][label]["settings"] if tuned else {} for label in levels}
        changes = {label: with_known_weights({**levels[label], **own[label]}, study_dir) for label in levels}
        variants = {label: override(base, changes[label]) for label in levels}
        runs = [_planned_run(entry, variants[entry["variant"]], path) for entry in tree["runs"]]
        extra: list[Levels] = tree.get("extra", [])
        return Plan(study, tree["preset"], base, tree["factors"], extra, tree["baseline"], runs, tuned)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: holds no plan that can be trained ({type(error).__name__}: {error})") from error


def check_not_exported(tree: Mapping[str, Any], place: str, advice: str = "see vit-report") -> None:
    """Raise `UserError` where study.json, of which this is the content, is that of an exported study."""
    if record.EXPORT in tree:
        raise UserError(f"{place} holds an exported study, which has no run folders; {advice}")


def _planned_run(entry: Mapping[str, Any], variant: RunConfig, path: Path) -> RunSpec:
    run = RunSpec(
        entry["run"], variant.model_copy(update={"seed": entry["seed"]}), entry["variant"], dict(entry["levels"])
    )
    if run.run_id != entry["run_id"]:
        kind = variant.model.pos_embed
        reason = f"the source of the plug-in {kind!r} differs" if REGISTRY[kind].is_plugin else "this version differs"
        if "init_from" in entry["levels"]:
            reason = f"the weights in {variant.init_from!r} were changed; restore them"
        raise UserError(f"{path}: {run.name} has the run id {run.run_id} here, not {entry['run_id']}: {reason}")
    return run


def merged_entries(plan: Plan, study_dir: Path) -> list[dict[str, Any]]:
    """The runs in study.json and those of the plan, the former first.

    Raises `UserError` where the folder holds an exported study, or another study, naming the first difference.
    """
    old = _old_plan(study_dir)
    if not old:
        return [_entry(run) for run in plan.runs]
    check_not_exported(old, f"out: {str(study_dir)!r}", "choose another --out")
    planned = _variants_by_id(plan, {entry["seed"] for entry in old["runs"]})
    for difference in _differences(old, plan, planned, study_dir):
        path = study_dir / record.STUDY
        raise UserError(f"{path}: holds another study: {difference}; choose another --out, or another name")
    entries = {entry["run_id"]: {**entry, **planned[entry["run_id"]]} for entry in old["runs"]}
    for run in plan.runs:
        entries.setdefault(run.run_id, _entry(run))
    seeds, labels = _places(entry["seed"] for entry in entries.values()), _places(run.variant for run in plan.runs)
    return sorted(entries.values(), key=lambda entry: (seeds[entry["seed"]], labels[entry["variant"]]))


def _places(values: Iterable[Any]) -> dict[Any, int]:
    """Value -> its place among the different values."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}


def check_images(plan: Plan, study_dir: Path) -> None:
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


def with_known_names(plan: Plan, study_dir: Path) -> Plan:
    """The plan with the names, and so the folders, that study.json already gives to some of its runs.

    A study that gains a factor gives its variants longer labels. The records stay in the folders that they are in.
    """
    names = {entry["run_id"]: entry["run"] for entry in _old_plan(study_dir).get("runs", [])}
    known = [(run, names.get(run.run_id, run.name) if names else run.name) for run in plan.runs]
    return replace(plan, runs=[run if run.name == name else replace(run, name=name) for run, name in known])


def _old_plan(study_dir: Path) -> dict[str, Any]:
    """What study.json holds; empty where there is none."""
    with writing(study_dir):
        return record.read_study(study_dir) if (study_dir / record.STUDY).exists() else {}


def _variants_by_id(plan: Plan, seeds: set[int]) -> dict[str, dict[str, Any]]:
    """Run id -> variant and levels, for the runs of the plan, and for every variant of it with each of these seeds."""
    more = seeds - {run.seed for run in plan.runs}
    others = (
        replace(run, config=run.config.model_copy(update={"seed": seed}))
        for run in {run.variant: run for run in plan.runs}.values()
        for seed in more
    )
    return {run.run_id: {"variant": run.variant, "levels": run.levels} for run in (*plan.runs, *others)}


def _record_extension(entries: list[dict[str, Any]], study_dir: Path) -> None:
    """Record a look where new seeds are planned after runs have finished: their results may be the reason."""
    old = _old_plan(study_dir)
    if not old or {entry["seed"] for entry in entries} <= {entry["seed"] for entry in old["runs"]}:
        return
    finished = Counter({entry["variant"]: 0 for entry in old["runs"]})
    for entry in old["runs"]:
        with contextlib.suppress(record.RecordError):  # a damaged record is no result; the report names it
            if record.is_finished(study_dir / entry["run"]):
                finished[entry["variant"]] += record.read_summary(study_dir / entry["run"])["status"] == "finished"
    add_look(study_dir, look_now(finished.values(), old["metric"], "vit-sweep"))


def _entry(run: RunSpec) -> dict[str, Any]:
    """A run as study.json lists it."""
    own = {"variant": run.variant, "levels": run.levels, "seed": run.seed}
    return {"run": run.name, "run_id": run.run_id, **own}


def _differences(old: Mapping[str, Any], plan: Plan, planned: Mapping[str, Any], study_dir: Path) -> Iterator[str]:
    """What makes the study in the folder another study than the plan's. More seeds, levels and factors do not, if the
    plan has every run of the folder.
    """
    missing = [entry for entry in old["runs"] if entry["run_id"] not in planned]
    if missing and (difference := _tuned_difference(old.get("tuned"), plan.tuned)):
        yield difference
    elif missing:
        before, now = (dict(flatten(config.model_dump())) for config in (load(old["base"]), plan.base))
        for path in now:
            if before[path] != now[path] and _changes_run_id(plan.base, path, before[path]):
                yield _differ(f"base.{path}", before[path], now[path])
        for path in (*old["factors"], *plan.factors):
            if old["factors"].get(path) != plan.factors.get(path):
                yield _differ(f"factors.{path}", old["factors"].get(path), plan.factors.get(path))
        if old.get("extra", []) != plan.extra:
            yield _differ("extra", old.get("extra", []), plan.extra)
        yield f"{missing[0]['run']} is not among the runs here{_plugin_reason(missing[0], plan)}"
    yield from _changed_statements(old, plan, planned, study_dir)


def _differ(path: str, before: Any, now: Any) -> str:
    return f"{path} is {format_level(before)} there and {format_level(now)} here"


def _changed_statements(
    old: Mapping[str, Any], plan: Plan, planned: Mapping[str, Any], study_dir: Path
) -> Iterator[str]:
    """What the plan states otherwise than the study in the folder, of which a run has finished.

    A baseline that neither states is the first variant, which may change when the study gains levels and factors.
    """
    before = {field: old.get(field, []) for field in STATEMENTS}
    now = {field: getattr(plan.study, field) for field in STATEMENTS}
    if any(stated is not None for stated in (plan.study.baseline, (old.get("study") or {}).get("baseline"))):
        before["baseline"], now["baseline"] = _baseline_now(old, planned), plan.baseline
    changed = [field for field in before if before[field] != now[field]]
    if changed and any(record.is_finished(study_dir / entry["run"]) for entry in old["runs"]):
        field = changed[0]
        yield f"{_differ(field, before[field], now[field])}, and it cannot change after the first run has finished"


def _baseline_now(old: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    """The present label of the baseline in the folder: a study that gains a factor gives its variants longer labels."""
    ids = [entry["run_id"] for entry in old["runs"] if entry["variant"] == old["baseline"]]
    return next((planned[run_id]["variant"] for run_id in ids if run_id in planned), old["baseline"])


def _tuned_difference(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> str:
    """How the tuned settings in the folder differ from the plan's; empty if they are equal."""
    before, now = (
        {label: each["settings"] for label, each in (tuned or {"variants": {}})["variants"].items()}
        for tuned in (old or None, new or None)
    )
    if before == now:
        return ""
    if not old:
        return "its runs are not tuned (--tuned was not given)"
    return "its runs have other tuned settings" if new else "its runs are tuned (--tuned FILE was given)"


def _plugin_reason(entry: Mapping[str, Any], plan: Plan) -> str:
    """Why a run has another id although its settings are the same: the source of its plug-in."""
    for run in plan.runs:
        kind = run.config.model.pos_embed
        if run.variant == entry["variant"] and REGISTRY[kind].is_plugin:
            return f": the source of the plug-in {kind!r} was changed, or is not recorded there"
    return ""


def _changes_run_id(config: RunConfig, path: str, value: Any) -> bool:
    """Whether this setting would give the run another id. True for a value that is not allowed by itself."""
    try:
        return run_id(override(config, {path: value})) != run_id(config)
    except UserError:
        return True


@contextlib.contextmanager
def removed_on_bad_input(study_dir: Path) -> Iterator[None]:
    """Where the body raises `UserError`, remove the folders that this process made.

    They stay if they hold anything to lose, or if another process has written or joined the study in them.
    """
    with writing(study_dir):
        made = _make(study_dir)
    if study_dir in made:
        for name in MARKS:
            _own_marks.pop(study_dir / name, None)
    try:
        yield
    except UserError:
        _remove(made, study_dir)
        raise


def own(path: Path) -> None:
    """Note that this process has just written one of the `MARKS`, where there was none before."""
    _own_marks[path] = _version(path)


def join(study_dir: Path) -> None:
    """Change study.json's time, so that the process that made the folder sees that another one uses it."""
    with contextlib.suppress(OSError), FileLock(study_dir / LOCK):
        os.utime(study_dir / record.STUDY)


def _version(path: Path) -> tuple[int, int] | None:
    """What differs after another process has written a file, or set its time; None where there is none."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns
    return None


def _make(folder: Path) -> list[Path]:
    """Make a folder and its parents. Returns those that this process made and no other one, the innermost first."""
    made: list[Path] = []
    try:
        for path in reversed([folder, *folder.parents]):
            if not path.exists():
                with contextlib.suppress(FileExistsError):  # another process has just made it
                    path.mkdir()
                    made.insert(0, path)
    except OSError:
        _remove_empty(made)
        raise
    return made


def _remove(made: list[Path], study_dir: Path) -> None:
    files = [path for path in study_dir.glob("*/*") if path.parent.name != "wandb"]
    if study_dir not in made or not all(is_worthless(path.name) or path.name == ERROR for path in files):
        return
    with contextlib.suppress(OSError), FileLock(study_dir / LOCK):
        if all(_version(study_dir / name) == _own_marks.get(study_dir / name) for name in MARKS):
            shutil.rmtree(study_dir)
    _remove_empty(made[1:])


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # not empty: another command has written there meanwhile
            folder.rmdir()
