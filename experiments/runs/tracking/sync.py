"""Send the runs of a folder to Weights & Biases from their records, also while they are trained."""

import argparse
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from experiments.cli import folder
from experiments.errors import UserError, plural, say
from experiments.files import check_name
from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.notes import changed_runs, lacking
from experiments.runs.tracking.sender import Sender
from experiments.runs.tracking.settings import AgentRun, Tracking, add_alert_argument, add_tracking_arguments
from experiments.study import STUDY, StudyPlan

POLL_SECONDS, RETRY_SECONDS = 1.0, 30.0
NICENESS = 5  # training goes first
FOLLOW = "send also runs in training, epoch by epoch, until Ctrl-C; commands that train start it themselves"


def add_sync_arguments(command: argparse.ArgumentParser) -> None:
    """Add what `sync` takes."""
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    command.add_argument("runs", metavar="run=NAME", nargs="*", help="only these runs")
    command.add_argument("--follow", action="store_true", help=FOLLOW)
    # PID:SINCE, of a command that trains: end with this process, and send only runs that change after this time.
    command.add_argument("--beside", default="0:0", help=argparse.SUPPRESS)
    add_alert_argument(command)
    add_tracking_arguments(command, "online")


def sync(arguments: argparse.Namespace) -> int:
    """Send the runs. Returns 1 if some of them cannot be sent. Raises `UserError` where W&B cannot be used."""
    study_dir, names = Path(arguments.folder), [check_name(run.removeprefix("run="), "run") for run in arguments.runs]
    agent = AgentRun.asked_for() if names else None
    tracking = Tracking(arguments.tracking, arguments.project, arguments.entity, agent=agent)
    if not tracking.is_on:
        raise UserError(f"--tracking: {arguments.tracking} sends nothing; expected auto, online or offline")
    if (study_dir / STUDY).is_file():
        StudyPlan.read(study_dir)
    parent, since = map(float, arguments.beside.split(":"))
    if arguments.follow:
        _follow(study_dir, tracking, lambda: names or changed_runs(study_dir, since), parent, arguments.alert)
        return 0
    finished = [run for run in names or changed_runs(study_dir) if record.is_finished(study_dir / run)]
    if not finished:
        which = f"none of {', '.join(names)} has finished" if names else "holds no finished runs"
        raise UserError(f"{study_dir}: {which}; give the folder of a study, OUT/STUDY")
    try:
        with server.wandb_in_use(), Sender(study_dir, tracking) as sender:
            say(f"runs are mirrored to Weights & Biases: {sender.where}")
            sender.send(finished, say)
    except server.Unreachable as error:
        raise UserError(f"W&B cannot be used ({error}); run the same command again for the rest") from error
    missing = lacking(study_dir, finished, agent)
    say(f"W&B has {len(finished) - len(missing)} of {plural(len(finished), 'finished run')}")
    return 1 if missing else 0


def _follow(study_dir: Path, tracking: Tracking, runs: Callable[[], Sequence[str]], parent: float, alert: bool) -> None:
    """Send runs as they are trained, until `_ending`. It begins when there is a run, and again after an error."""
    is_over, reason = _ending(parent), ""
    os.nice(NICENESS)
    tell = cache(say)  # each line once
    while not runs() and not is_over(POLL_SECONDS):
        pass
    while runs():
        try:
            with server.wandb_in_use(), Sender(study_dir, tracking) as sender:
                tell(f"runs are mirrored to Weights & Biases: {sender.where}")
                while not is_over(POLL_SECONDS):
                    sender.send(runs(), tell)
                sender.send(runs(), tell)
                if alert:
                    sender.alert(*_alert(study_dir))
            return
        except server.Unreachable as error:
            reason = reason or str(error)
            tell(f"W&B cannot be used ({reason}); training goes on")
        if is_over(RETRY_SECONDS):
            return


def _ending(parent: float) -> Callable[[float], bool]:
    """A function that waits so many seconds, or until SIGTERM, Ctrl-C or the end of the parent. Whether that came.

    `parent`: its process id; 0: whichever it is.
    """
    heard: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):  # an exception could be lost within wandb
        signal.signal(number, lambda number, _: heard.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # `Mirror` has blocked it until it can be heard

    def is_over(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not (over := bool(heard) or parent not in (0, os.getppid())) and time.monotonic() < end:
            time.sleep(0.1)
        return over

    return is_over


def _alert(study_dir: Path) -> tuple[str, str, str]:
    """Level, title and text of the alert that a command has ended, from the records of its runs."""
    summaries, errors, configs = (study_dir.glob(f"*/{name}") for name in (record.SUMMARY, record.ERROR, record.CONFIG))
    states = {path.parent: "not finished" for path in configs} | {path.parent: "failed" for path in errors}
    states |= {path.parent: record.read_summary(path.parent)["status"] for path in summaries}
    counts, is_tuning = Counter(states.values()), (study_dir / record.TRIALS).exists()
    title = f"{study_dir.parent.name}: tuning ended" if is_tuning else f"{study_dir.name}: sweep ended"
    text = ", ".join(f"{number} {status}" for status, number in counts.items())
    return "ERROR" if counts["failed"] else "INFO", title[:63], f"{plural(len(states), 'run')}: {text}"
