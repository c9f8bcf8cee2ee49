"""`vit-sweep sync`: send runs to Weights & Biases from their records, also while they are trained."""

import argparse
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.cli import folder
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.mirror import END_SECONDS
from experiments.runs.tracking.notes import changed_runs
from experiments.runs.tracking.sender import POLL_SECONDS, Sender
from experiments.runs.tracking.settings import AgentRun, Tracking, add_alert_argument, add_tracking_arguments
from sweeps.commands.arguments import PROG, counted
from sweeps.study_folder import ERROR

RETRY_SECONDS = 30.0
NICENESS = 5  # training goes first


def add(commands: Any) -> None:
    """Add `sync`."""
    command = commands.add_parser(
        "sync",
        help="send runs to Weights & Biases from their records",
        description="Send the finished runs of a study to Weights & Biases from their records: metrics, summaries and "
        "files. What was sent is noted in STUDY_DIR/wandb/sent and not sent again. Run the same command again after an "
        "interruption.",
        usage=f"{PROG} sync [--follow] STUDY_DIR [run=NAME ...] [--project NAME] [--entity NAME] [--tracking MODE]",
    )
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    command.add_argument("runs", metavar="run=NAME", nargs="*", help="only these runs")
    about = "send also runs in training, epoch by epoch, until Ctrl-C; commands that train start it themselves"
    command.add_argument("--follow", action="store_true", help=about)
    # PID:SINCE, of a command that trains: end with this process, and send only runs that change after this time.
    command.add_argument("--beside", default="0:0", help=argparse.SUPPRESS)
    add_alert_argument(command)
    add_tracking_arguments(command, "online")
    command.set_defaults(execute=sync)


def sync(arguments: argparse.Namespace, _: str) -> int:
    """Send the runs. Returns 1 if records are damaged. Raises `UserError`."""
    study_dir, names = Path(arguments.folder), [run.removeprefix("run=") for run in arguments.runs]
    agent = AgentRun.asked_for() if names else None
    tracking = Tracking(arguments.tracking, arguments.project, arguments.entity, agent=agent)
    if not tracking.is_on:
        raise UserError(f"--tracking: {arguments.tracking} sends nothing; expected auto, online or offline")
    if arguments.follow:
        parent, since = map(float, arguments.beside.split(":"))
        _follow(study_dir, tracking, lambda: names or changed_runs(study_dir, since), _ending(parent), arguments.alert)
        if not parent:
            raise KeyboardInterrupt
        return 0
    return _send_finished(study_dir, names or changed_runs(study_dir), tracking)


def _send_finished(study_dir: Path, names: Sequence[str], tracking: Tracking) -> int:
    """Send the finished runs. Returns 1 if records are damaged. Raises `UserError` where W&B stops answering."""
    finished = [name for name in names if record.is_finished(study_dir / name)]
    if not finished:
        raise UserError(f"{study_dir}: holds no finished runs; give the folder of a study, OUT/STUDY")
    is_over, results = threading.Event(), dict[str, Any]()
    is_over.set()
    try:
        with server.wandb_in_use(), Sender(study_dir, tracking) as sender:
            for name, results[name] in sender.follow(lambda: finished, is_over):
                error = results[name] if isinstance(results[name], record.RecordError) else None
                print(f"not sent: {error}" if error else name, file=sys.stderr, flush=True)
    except server.Unreachable as error:
        progress = f"{len(results)} of {len(finished)} runs are checked or sent"
        raise UserError(f"W&B cannot be used ({error}); {progress}; run the same command again for the rest") from error
    words = {True: "sent", False: "already complete", None: "in another process"}
    counts = Counter(words.get(result, "damaged") for result in results.values())
    counts["not finished"] = len(names) - len(finished)
    listed = [f"{number} {what}" for what, number in counts.items() if number]
    print(f"{counted(names, 'run')}: {', '.join(listed)}; {sender.where}")
    return 1 if counts["damaged"] else 0


def _follow(
    study_dir: Path, tracking: Tracking, runs: Callable[[], Sequence[str]], is_over: threading.Event, alert: bool
) -> None:
    """Send runs as they are trained, until `is_over`; then what is there. After an error it begins again.

    Before there is a run, W&B is not asked. Prints where the runs are, and each error, once.
    """
    os.nice(NICENESS)
    told = set[str]()

    def say(kind: str, line: str) -> None:
        if kind not in told:
            print(line, flush=True)
        told.add(kind)

    while not runs() and not is_over.wait(POLL_SECONDS):
        pass
    while runs():
        try:
            with server.wandb_in_use(), Sender(study_dir, tracking) as sender:
                say("place", f"runs are mirrored to Weights & Biases: {sender.where}")
                for run, result in sender.follow(runs, is_over):
                    if isinstance(result, record.RecordError):
                        say(run, f"{run}: is not sent ({result})")
                if alert:
                    sender.alert(*_ended(study_dir))
            return
        except server.Unreachable as error:
            say("error", f"W&B cannot be used ({error}); training goes on")
        if is_over.wait(RETRY_SECONDS):
            return


def _ending(parent: float) -> threading.Event:
    """An event that is set after SIGTERM or Ctrl-C, or when the parent process is another one; 0: whichever it is.

    `END_SECONDS` later this process ends, whatever it waits for. A second Ctrl-C ends it at once.
    """
    is_over, heard = threading.Event(), list[int]()

    def hear(number: int, _: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)  # an event could be locked by the code that is interrupted

    def watch() -> None:
        while not heard and parent in (0, os.getppid()):
            time.sleep(0.1)
        is_over.set()
        time.sleep(END_SECONDS)
        os._exit(1)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # see `Mirror`
    threading.Thread(target=watch, daemon=True).start()
    return is_over


def _ended(study_dir: Path) -> tuple[str, str, str]:
    """Level, title and text of the alert that a command has ended, from the records of its runs."""
    counts = Counter[str]()
    for path in study_dir.iterdir():
        if record.is_finished(path):
            counts[record.read_summary(path)["status"]] += 1
        elif (path / ERROR).exists() or (path / record.CONFIG).exists():
            counts["failed" if (path / ERROR).exists() else "not finished"] += 1
    is_tuning = (study_dir / record.TRIALS).exists()
    title = f"{study_dir.parent.name}: tuning ended" if is_tuning else f"{study_dir.name}: sweep ended"
    listed = (f"{number} {status}" for status, number in counts.items())
    return (
        "ERROR" if counts["failed"] else "INFO",
        title[:63],
        f"{counted([*counts.elements()], 'run')}: {', '.join(listed)}",
    )
