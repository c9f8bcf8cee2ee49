"""`vit-sweep retry` and `cancel`: change what the sweeps of a study do, from outside."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.errors import UserError
from experiments.study import StudyPlan
from sweeps.commands.arguments import PROG, add_study_dir_command, counted, existing_plan

if TYPE_CHECKING:
    from sweeps.queue.queue import Queue


def add(commands: Any) -> None:
    """Add `retry` and `cancel`."""
    command = add_study_dir_command(
        commands,
        "retry",
        retry,
        help="let sweeps train failed runs again",
        description="Let sweeps train failed runs again, with all their attempts. It also ends the effect of `cancel`. "
        "A sweep "
        "that is running takes them; otherwise start one with `vit-sweep run` or `vit-sweep worker`.",
    )
    command.add_argument("runs", nargs="*", metavar="RUN", help="names of runs (default: every failed run)")
    add_study_dir_command(
        commands,
        "cancel",
        cancel,
        help="stop every sweep of a study",
        description="Stop every sweep of a study (not `vit-sweep tune`), on any machine, within half a minute. Runs in "
        "training are saved after each epoch and continue there. No worker trains a run of the study until `vit-sweep "
        "run` or `vit-sweep retry`.",
    )


def retry(arguments: argparse.Namespace, _: str) -> int:
    """Clear the failed attempts of some runs, or of all."""
    plan, study_dir = existing_plan(arguments)
    check_names(arguments.runs, plan, study_dir)
    failed = _queue(plan, study_dir).retry(arguments.runs or None)
    for name in failed:
        print(name)
    left = [name for name in arguments.runs if name not in failed]
    print(f"{counted(failed, 'failed run')} can be trained again" if failed else "no failed run to train again", end="")
    print(f"; {', '.join(left)}: no failed attempt" if left else "")
    return 0


def cancel(arguments: argparse.Namespace, _: str) -> int:
    """Ask every sweep to stop."""
    plan, study_dir = existing_plan(arguments)
    queue = _queue(plan, study_dir)
    queue.cancel()
    print(f"{plan.name}: cancelled; {counted(queue.state.running, 'run')} in training will stop")
    print(f"to continue: {PROG} retry {shlex.quote(str(study_dir))}, then {PROG} run or {PROG} worker")
    return 0


def report_cancelled(study_dir: Path | None) -> int:
    """Say that the study was cancelled, and how to continue; returns the exit status.

    `study_dir`: needs `retry` first.
    """
    first = f"{PROG} retry {shlex.quote(str(study_dir))}, then " if study_dir else ""
    print(f"{PROG}: the study was cancelled; to continue: {first}run the same command again", file=sys.stderr)
    return 1


def check_names(names: Sequence[str], plan: StudyPlan, study_dir: Path) -> None:
    """Raise `UserError` where a name is not that of a run. It shows the nearest name only: there may be thousands."""
    known = [run.name for run in plan.runs]
    for name in set(names) - set(known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"`{PROG} status {study_dir} --all` lists them"
        raise UserError(f"RUN: {name!r} is not a run of {plan.name}; {hint}")


def _queue(plan: StudyPlan, study_dir: Path) -> Queue:
    from sweeps.queue.process import current_process
    from sweeps.queue.queue import Queue

    return Queue(plan, study_dir, current_process())
