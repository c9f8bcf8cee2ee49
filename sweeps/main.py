"""`vit-sweep`: list studies, show a study's grid, train its runs. Heavy imports wait until they are needed."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from experiments.cli import Parser, add_settings, positive, run_command, settings
from experiments.errors import UserError
from experiments.runs.tracking import MODES

if TYPE_CHECKING:
    from sweeps.plan import Plan

PROG = "vit-sweep"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point; exits 0, 1 where runs failed for good, 2 for bad input, 130 on Ctrl-C."""
    run_command(_body, PROG, argv, resumes=True)


def _parser() -> Parser:
    parser = Parser(PROG, description="Train every variant of a study over many seeds.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{list,show,run}", parser_class=Parser)
    commands.add_parser("list", help="the built-in studies", description="List the built-in studies.")
    show = commands.add_parser("show", help="a study's grid, and what is done", description="Show a study's grid.")
    run = commands.add_parser("run", help="train a study's runs", description="Train a study's runs; again: go on.")
    for command in (show, run):
        command.add_argument(
            "study",
            metavar="STUDY|FILE.yaml",
            help="a built-in study, a preset for its own runs, or a YAML file with `name` and `factors`",
        )
        command.add_argument("--preset", help="named starting point [the study's own, else digits]")
        command.add_argument(
            "--seeds",
            type=_seeds,
            metavar="N",
            help="N seeds, 0..N-1, or a list such as 0,3,7 [the study's own, else 5]",
        )
        command.add_argument("--out", default="runs", help="folder that the study's folder is made in [runs]")
        command.add_argument(
            "--set", action="append", default=[], metavar="PATH=VALUE", help="override a setting, as the flags below do"
        )
    run.add_argument(
        "--workers", type=positive, metavar="N", help="processes [one a core, of one thread each; on a GPU, 1]"
    )
    run.add_argument(
        "--cohort",
        type=_cohort,
        default="auto",
        metavar="N|auto",
        help="runs of a variant trained as one stacked model; auto: on a GPU all that fit, on a CPU 1 [auto]",
    )
    run.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    run.add_argument(
        "--tracking",
        choices=MODES,
        default="auto",
        help="W&B: auto is online where a key is configured, else offline [auto]",
    )
    for command in (show, run):
        add_settings(command)
    return parser


def _seeds(text: str) -> int | list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed: a number of seeds from 1 up, or a list such as 0,3,7"
        )
    numbers = [int(part) for part in parts]
    return numbers if "," in text else numbers[0]


def _cohort(text: str) -> int | str:
    return text if text == "auto" else positive(text)


def _body(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.command == "list":
        return _list()
    plan = _plan(arguments)
    study_dir = Path(arguments.out) / plan.study.name
    if arguments.command == "show":
        return _show(plan, study_dir)
    return _run(plan, study_dir, arguments, shlex.join([PROG, *argv]))


def _list() -> int:
    from sweeps.builtin import STUDIES

    width = max(map(len, STUDIES))
    for study in STUDIES.values():
        print(f"{study.name:{width}}  {sum(1 for _ in study.cells())} variants  {study.description}")
    print("and each preset by its name, as one variant; `vit-train presets` lists them")
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    from sweeps.builtin import find
    from sweeps.plan import make_plan
    from sweeps.study import make

    study = find(arguments.study)
    if study.name == study.base and arguments.preset not in (None, study.base):
        raise UserError(f"--preset: {arguments.preset!r} is not allowed: the study is the preset {study.base}")
    if arguments.seeds is not None:
        study = make({**study.model_dump(), "seeds": arguments.seeds}, "--seeds")
    return make_plan(study, arguments.preset, {**dict(map(_setting, arguments.set)), **settings(arguments)})


def _setting(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set: {text!r} is not allowed: write PATH=VALUE, such as train.epochs=5")
    return path, value


def _show(plan: Plan, study_dir: Path) -> int:
    from experiments.runs.record import is_finished
    from sweeps.study import text

    print(f"{plan.study.name}: {plan.study.description}".rstrip(": "))
    print(f"base      preset {plan.preset}" + "".join(f", {path}={text(value)}" for path, value in _changes(plan)))
    for factor, levels in plan.factors.items():
        print(f"factor    {factor}: " + " | ".join(text(level) for level in levels))
    print(f"baseline  {plan.baseline}")
    print(f"metric    {plan.study.metric}, margin {plan.study.margin:g}")
    done: dict[str, list[bool]] = {}
    for run in plan.runs:
        done.setdefault(run.variant, []).append(is_finished(study_dir / run.name))
    width = max(map(len, [*done, "variant"]))
    print(f"\n{'variant':{width}}  seeds  done")
    for variant, flags in done.items():
        print(f"{variant:{width}}  {len(flags):5}  {sum(flags):4}")
    print(f"\n{len(plan.runs)} runs, {sum(map(sum, done.values()))} done, in {study_dir}")
    return 0


def _changes(plan: Plan) -> list[tuple[str, Any]]:
    """The settings of the base that are not as the preset has them."""
    from experiments.presets import preset
    from sweeps.plan import flatten

    usual = dict(flatten(preset(plan.preset).model_dump()))
    return [(path, value) for path, value in flatten(plan.base.model_dump()) if value != usual[path]]


def _run(plan: Plan, study_dir: Path, arguments: argparse.Namespace, command: str) -> int:
    from experiments.runs.run import pick_device
    from sweeps.plan import write
    from sweeps.pool import LOG, sweep
    from sweeps.progress import Display
    from sweeps.worker import Duty

    device = pick_device(arguments.device).type
    on_cpu = device == "cpu"
    workers = arguments.workers or (_cores() if on_cpu else 1)
    automatic = len(plan.runs) if device == "cuda" else 1  # a worker stacks as many as its memory holds
    cohort = automatic if arguments.cohort == "auto" else arguments.cohort
    duty = Duty(plan.study.name, arguments.device, arguments.tracking, 1 if on_cpu else None, study_dir / LOG)
    try:
        new = [path for path in (study_dir, *study_dir.parents) if not path.exists()]
    except OSError as error:
        raise UserError(f"out: {str(study_dir)!r} cannot be written: {error.strerror}") from error
    try:
        write(plan, study_dir, command)
        with Display(plan.study.name, plan.runs) as display:
            state = sweep(plan, study_dir, duty, workers, display, cohort)
    except UserError:
        _leave_nothing(new, study_dir)
        raise
    return _report(plan, study_dir, state.failed)


def _leave_nothing(new: list[Path], study_dir: Path) -> None:
    """Take back the folders that this sweep made, the study's own first, unless there is something in them to lose."""
    from experiments.runs.record import CONFIG, PART
    from sweeps.pool import ERROR

    begun = (CONFIG, ERROR)  # what a run may have left before its first epoch was done
    files = [path for path in study_dir.glob("*/*") if path.parent.name != "wandb"]
    if study_dir not in new or any(path.name not in begun and not path.name.startswith(PART) for path in files):
        return
    if study_dir.exists():
        shutil.rmtree(study_dir)
    for folder in new[1:]:
        with contextlib.suppress(OSError):  # not empty: somebody else's work has begun there
            folder.rmdir()


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _report(plan: Plan, study_dir: Path, failed: dict[str, str]) -> int:
    """The last lines: what there is, where, and what to do next."""
    from collections import Counter

    from experiments.runs.record import read_summary
    from sweeps.pool import ERROR

    statuses = Counter(read_summary(study_dir / run.name)["status"] for run in plan.runs if run.name not in failed)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    print(f"{len(plan.runs)} runs: " + ", ".join(filter(None, [counts, f"{len(failed)} failed" if failed else ""])))
    for name, why in failed.items():
        print(f"failed: {name}: {why} (see {study_dir / name / ERROR})")
    print(f"study: {study_dir}")
    print(f"next: vit-report {shlex.quote(str(study_dir))}")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
