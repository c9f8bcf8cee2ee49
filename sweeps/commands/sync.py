"""`vit-sweep sync`: send runs to Weights & Biases from their records, also while they are trained."""

import argparse
import signal
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.cli import folder
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.sender import Sender, follow
from experiments.runs.tracking.settings import LEFT, AgentRun, Tracking, add_tracking_arguments
from experiments.study import STUDY, StudyPlan
from sweeps.commands.arguments import PROG, counted


def add(commands: Any) -> None:
    """Add `sync`."""
    command = commands.add_parser(
        "sync",
        help="send runs to Weights & Biases from their records",
        description="Send the finished runs of a study to Weights & Biases from their records: metrics, summaries and "
        "files. What is there already is not sent again. Run the same command again after an interruption.",
        usage=f"{PROG} sync [--follow] STUDY_DIR [--project NAME] [--entity NAME] [--tracking MODE]",
    )
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    command.add_argument(
        "--follow",
        action="store_true",
        help="send also runs in training, epoch by epoch, until Ctrl-C. Sweeps start it themselves, unless they have "
        "--tracking off, as on machines without internet",
    )
    command.add_argument(
        "--stdin",
        action="store_true",
        help="with --follow: only the runs that standard input names, one in a line, until it is closed",
    )
    add_tracking_arguments(command, "online")
    command.set_defaults(execute=sync)


def sync(arguments: argparse.Namespace, _: str) -> int:
    """Send the runs."""
    study_dir = Path(arguments.folder)
    agent = AgentRun.asked_for() if arguments.stdin else None
    tracking = Tracking(arguments.tracking, arguments.project, arguments.entity, agent=agent)
    if not tracking.is_on:
        raise UserError(f"--tracking: {arguments.tracking} sends nothing; expected auto, online or offline")
    if arguments.stdin and not arguments.follow:
        raise UserError("--stdin: is allowed only with --follow")
    if arguments.stdin:
        _follow_named(study_dir, tracking)
    elif arguments.follow:
        _names(study_dir)
        _follow_all(study_dir, tracking)
    else:
        return _send_finished(study_dir, tracking)
    return 0


def _follow_all(study_dir: Path, tracking: Tracking) -> None:
    """Send every run of the folder, until Ctrl-C; a second one ends it at once."""
    is_over = threading.Event()

    def end(*_: Any) -> None:  # an exception could be lost within wandb
        if is_over.is_set():
            raise KeyboardInterrupt
        is_over.set()

    signal.signal(signal.SIGINT, end)
    follow(study_dir, tracking, lambda: _begun(study_dir), is_over, deque(), _say, "end with Ctrl-C")
    raise KeyboardInterrupt


def _follow_named(study_dir: Path, tracking: Tracking) -> None:
    """Send the runs and the alerts that standard input names, until it is closed. An alert has tabs in its line."""
    names, alerts, is_closed = dict[str, None](), deque[Sequence[str]](), threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            name, *alert = line.strip().split("\t")
            if alert == [LEFT]:
                names.pop(name, None)
            elif alert:
                alerts.append((name, *alert))
            else:
                names[name] = None
        is_closed.set()

    threading.Thread(target=listen, daemon=True).start()
    follow(study_dir, tracking, lambda: list(names), is_closed, alerts, _say, "switch off with --tracking off")


def _send_finished(study_dir: Path, tracking: Tracking) -> int:
    """Send the finished runs. Returns 1 if records are damaged. Raises `UserError` where W&B stops answering."""
    names = _names(study_dir)
    finished = [name for name in names if record.is_finished(study_dir / name)]
    if not finished:
        raise UserError(f"{study_dir}: holds no finished runs; give the folder of a study, OUT/STUDY")
    was_new, damaged = dict[str, bool | None](), list[record.RecordError]()
    try:
        with server.wandb_in_use() as stderr:
            sender = Sender(study_dir, tracking)
            for name in finished:
                try:
                    was_new[name] = sender.send(name)
                    print(name, file=stderr, flush=True)
                except record.RecordError as error:
                    damaged.append(error)
            sender.close()
    except server.Unreachable as error:
        progress = (
            f"{len(was_new)} of {len(finished)} runs are checked or sent; run the same command again for the rest"
        )
        raise UserError(f"W&B cannot be used ({error}); {progress}") from error
    sent = [name for name, is_new in was_new.items() if is_new]
    parts = [f"{counted(sent, 'run')} sent", f"{len(was_new) - len(sent)} already complete"]
    parts += [f"{len(damaged)} damaged"] * bool(damaged)
    parts += [f"{len(names) - len(finished)} not finished"] * (len(names) > len(finished))
    print(f"{', '.join(parts)}; {sender.where}")
    for each in damaged:
        print(f"not sent: {each}")
    return 1 if damaged else 0


def _names(study_dir: Path) -> list[str]:
    """The names of the runs in a folder. Raises `UserError` where it is no folder, or an exported study."""
    if not study_dir.is_dir():
        raise UserError(f"{study_dir}: is no folder; give the folder of a study, OUT/STUDY")
    if not (study_dir / STUDY).exists():
        return _begun(study_dir)
    plan = StudyPlan.read(study_dir)
    plan.check_has_folders(str(study_dir))
    return [run.name for run in plan.runs]


def _begun(study_dir: Path) -> list[str]:
    """The names of the runs that have begun."""
    return sorted(path.parent.name for path in study_dir.glob(f"*/{record.CONFIG}"))


def _say(line: str) -> None:
    print(line, flush=True)
