"""The arguments that name a study or its folder, shared by the commands; and the plan that they give.

The commands import modules that need torch, Optuna or rich in the functions that use them, so that --help is fast.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.cli import add_settings, folder, given_settings
from experiments.errors import UserError, shell_words
from experiments.runs.exports import find_source, merged, take
from experiments.study import STUDY, Study
from sweeps.engines.contract import DOWNLOAD
from sweeps.plan import apply_tuned, load_study, make_plan, with_seeds
from sweeps.study_folder import StudyFolder, read_study

PROG = "vit-sweep"
OUT = "runs"  # the default of --out
TUNED = """\
train each variant with its own settings: the tuned.yaml that `vit-sweep tune` wrote; the study.json of a tuned study;
or the folder of a study of val/acc with further factors, whose best levels are chosen; none: as in the base (default:
`tuned` of the study file, else none)"""
NOT_TUNED = "none"
REUSE = "an export, or a name in analysis/reference, whose runs are not trained again; may be repeated"


def add_study_command(
    commands: Any,
    name: str,
    execute: Callable[[argparse.Namespace, str], int],
    options: str = "[options]",
    tuned: bool = True,
    **texts: Any,
) -> argparse.ArgumentParser:
    """Add a command whose first argument is a study, with the options that make its plan. `options` ends its usage.

    `tuned`: whether the command takes the settings that `vit-sweep tune` found for each variant, and runs of others.
    """
    usage = f"{PROG} {name} STUDY|FILE.yaml [--preset NAME] [--seeds N] [--out DIR] [--SETTING VALUE ...] {options}"
    command: argparse.ArgumentParser = commands.add_parser(name, usage=usage, **texts)
    command.set_defaults(execute=execute, **({} if tuned else {"tuned": NOT_TUNED, "reuse": None}))
    option = command.add_argument
    about = "a built-in study, a preset, or a YAML file (see `vit-sweep init`)"
    option("study", metavar="STUDY|FILE.yaml", help=about)
    about = "preset that the study starts from (default: the study's, else digits)"
    option("--preset", metavar="NAME", help=about)
    about = "N for the seeds 0 to N-1, or a list such as 0,3,7 (default: the study's, else 5)"
    option("--seeds", type=_seeds, metavar="N", help=about)
    option("--out", metavar="DIR", type=folder, help=f"parent folder of the study's folder (default: {OUT})")
    if tuned:
        option("--tuned", metavar="FILE", type=os.path.expanduser, help=TUNED)
        option("--reuse", action="append", default=[], metavar="FOLDER", help=REUSE)
    add_settings(command)
    return command


def _seeds(text: str) -> int | list[int]:
    """N, or a list such as 0,3,7. "3," is the list of one seed. The study checks the numbers."""
    try:
        return list(map(int, text.removesuffix(",").split(","))) if "," in text else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed: expected a number from 1, or a list such as 0,3,7"
        ) from None


def parse_plan(arguments: argparse.Namespace) -> Study:
    """The plan of the study that the arguments name, with their changes. Raises `UserError`."""
    study = load_study(arguments.study, **({} if arguments.seeds is None else {"seeds": arguments.seeds}))
    if study.base.get("preset") == study.name != (arguments.preset or study.name):
        raise UserError(f"--preset: {arguments.preset!r} is not allowed: the study is the preset {study.name}")
    changes = given_settings(arguments)
    if "data.download" in changes:
        os.environ[DOWNLOAD] = "1"  # for the workers
    plan = make_plan(study, arguments.preset, changes)
    source = study.tuned if arguments.tuned is None else arguments.tuned
    if source not in (None, NOT_TUNED):
        from sweeps.tuning.tuned import read_tuned, tuned_by_study

        path = Path(source)
        tuned = tuned_by_study(path, plan) if path.is_dir() else read_tuned(path)
        if twice := [path for path in changes if path in tuned.space]:
            where = "with --tuned" if arguments.tuned else "without --tuned none"
            raise UserError(f"{twice[0]}: is not allowed {where}: {source} sets it for each variant")
        plan = apply_tuned(plan, tuned)
    if arguments.reuse is not None:
        folders = [*study.reuse, *(find_source(name, Path()) for name in arguments.reuse)]
        plan = plan.changed(sources=take(folders)) if folders else plan
    return plan


def read_folder(arguments: argparse.Namespace) -> StudyFolder:
    """The study, or the study's folder, that the arguments name, with its records. See `parse_plan`.

    A folder has its plan; --seeds and --reuse extend it.
    """
    study_dir = Path(arguments.study)
    if not os.path.exists(study_dir / STUDY):
        plan = parse_plan(arguments)
        return StudyFolder.read(plan, Path(arguments.out or OUT) / plan.name)
    flags = ("preset", "tuned", "out", *given_settings(arguments))
    for flag in flags:
        if vars(arguments).get(flag):
            raise UserError(
                f"--{flag.replace('_', '-')}: is not allowed with the folder of a study, which has its plan; to extend "
                f"it, change its command: {shell_words(Study.read(study_dir).command or '')}"
            )
    plan = read_study(study_dir)
    if arguments.seeds is not None:
        plan = with_seeds(plan, arguments.seeds)
    if new := take(find_source(name, Path()) for name in arguments.reuse):
        plan = plan.changed(sources=merged(new, plan.sources))
    return StudyFolder.read(plan, study_dir)


def add_study_dir_command(
    commands: Any, name: str, execute: Callable[[argparse.Namespace, str], int], **texts: Any
) -> argparse.ArgumentParser:
    """Add a command whose first argument is the folder of a study that has been started."""
    command: argparse.ArgumentParser = commands.add_parser(name, **texts)
    about = "the folder of a study, such as runs/position"
    command.add_argument("study_dir", metavar="STUDY_DIR", type=folder, help=about)
    command.set_defaults(execute=execute)
    return command


def existing_study(arguments: argparse.Namespace) -> Path:
    """The folder that a command of `add_study_dir_command` names. Raises `UserError` where it holds no study."""
    study_dir = Path(arguments.study_dir)
    if not os.path.exists(study_dir / STUDY):
        inside = Path(OUT) / study_dir
        hint = f"did you mean {inside}?" if os.path.exists(inside / STUDY) else f"`{PROG} run` makes such a folder"
        raise UserError(f"STUDY_DIR: {arguments.study_dir!r} holds no {STUDY}; {hint}")
    return study_dir
