"""`vit-sweep sync`: send runs to Weights & Biases from their records: finished ones, or also those in training."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from experiments.cli import folder
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.process import DIED, WandbProcess
from experiments.runs.tracking.sender import follow
from experiments.runs.tracking.settings import Tracking, add_place_arguments
from experiments.study import STUDY, StudyPlan
from sweeps.commands.arguments import PROG, count

POLL_SECONDS = 2.0


def add(commands: Any) -> None:
    """Add `sync`."""
    command = commands.add_parser(
        "sync",
        help="send runs to Weights & Biases from their records",
        description="Send the finished runs of a study to Weights & Biases from their records: metrics, summaries and "
        "files. What is there already is not sent again. Run the same command again after an interruption.",
        usage=f"{PROG} sync [--follow] STUDY_DIR [--project NAME] [--entity NAME]",
    )
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    command.add_argument(
        "--follow",
        action="store_true",
        help="go on until Ctrl-C: send the epochs of runs in training, and runs as they end. For sweeps with --tracking off, "
        "for example on machines without internet; other sweeps do the same themselves",
    )
    add_place_arguments(command)
    command.set_defaults(execute=sync)


def sync(arguments: argparse.Namespace, _: str) -> int:
    """Send the runs."""
    study_dir, tracking = Path(arguments.folder), Tracking("online", arguments.project, arguments.entity)
    names = _names(study_dir)
    if arguments.follow:
        _follow(study_dir, tracking)
    finished = [name for name in names if record.is_finished(study_dir / name)]
    if not finished:
        raise UserError(f"{study_dir}: holds no finished runs; give the folder of a study, OUT/STUDY")
    _send(study_dir, tracking, finished, len(names) - len(finished))
    return 0


def _names(study_dir: Path) -> list[str]:
    """The names of the runs in a folder."""
    if not study_dir.is_dir():
        raise UserError(f"{study_dir}: does not exist; give the folder of a study, OUT/STUDY")
    if (study_dir / STUDY).exists():
        plan = StudyPlan.read(study_dir)
        plan.check_has_folders(str(study_dir))
        return [run.name for run in plan.runs]
    return sorted(path.parent.name for path in study_dir.glob(f"*/{record.CONFIG}"))


def _send(study_dir: Path, tracking: Tracking, finished: list[str], unfinished: int) -> None:
    """Send finished runs, and print what was sent. Raises `UserError` where W&B stops answering."""
    sender = WandbProcess(follow, study_dir, tracking, finished)
    was_new, said = dict[str, bool](), {"error": DIED}
    try:
        sender.send(None)
        for kind, content, *more in sender.messages():
            if kind == "run":
                was_new[content] = more[0]
                print(content, file=sys.stderr, flush=True)
            else:
                said[kind] = content
    finally:
        sender.kill()
    if len(was_new) < len(finished):
        progress = (
            f"{len(was_new)} of {len(finished)} runs are checked or sent; run the same command again for the rest"
        )
        raise UserError(f"W&B cannot be used ({said['error']}); {progress}")
    sent = [name for name in finished if was_new[name]]
    parts = [f"{count(sent, 'run')} sent", f"{len(finished) - len(sent)} already complete"]
    parts += [f"{unfinished} not finished"] * bool(unfinished)
    print(f"{', '.join(parts)}; {said['where']}")


def _follow(study_dir: Path, tracking: Tracking) -> NoReturn:
    """Send every run of the folder that has begun, until the command is interrupted."""
    with Mirror(tracking, study_dir, hint="end with Ctrl-C") as mirror:
        while True:
            for path in sorted(study_dir.glob(f"*/{record.CONFIG}")):
                mirror.follow(path.parent.name)
            time.sleep(POLL_SECONDS)
