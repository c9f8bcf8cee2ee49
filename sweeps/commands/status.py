"""`vit-sweep status`: what every run of a study is doing, as text or JSON, once or again and again."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from experiments.cli import positive
from experiments.errors import duration_text, printable, say
from experiments.study import STUDY
from experiments.version import now
from sweeps.commands.arguments import add_study_dir_command, existing_study
from sweeps.tuning.tuning_plan import JOURNAL, RUNS

if TYPE_CHECKING:
    from sweeps.status import RunStatus, StudyStatus

SCHEMA = 2  # of the JSON
WATCH_SECONDS = 5
DESCRIPTION = """\
Show what every run of a study is doing, and the trials of its tuning. It changes nothing, and works during a sweep,
after it and without one.

The table lists the runs in training, failed and unreadable ones; --all lists every run. --json prints one object:
  schema, study, time (UTC), counts (state -> runs), seconds_left, driver (whether a command
  trains it); for each run in `runs` run, variant, seed, state, epochs, epochs_done, error, last_epoch, reused_from.
Times are in seconds; what is not known is null. last_epoch is the time since the last epoch. The states:
  running      a process trains it
  waiting      not begun
  interrupted  begun, but no process trains it; the next sweep continues it
  failed       its last attempt has failed; the next sweep tries it again
  finished, diverged, pruned  it has ended, with a record
  unreadable   its record is damaged or that of another run; the next sweep says what to do"""


def add(commands: Any) -> None:
    """Add `status`."""
    command = add_study_dir_command(
        commands, "status", status, help="show what every run of a study is doing", description=DESCRIPTION
    )
    command.add_argument("--all", action="store_true", help="list every run")
    command.add_argument("--json", action="store_true", help="print JSON; with --watch, one line each time")
    about = f"show it at least twice, every SECONDS, until every run has ended or failed (default: {WATCH_SECONDS})"
    command.add_argument("--watch", nargs="?", type=positive, const=WATCH_SECONDS, metavar="SECONDS", help=about)


def status(arguments: argparse.Namespace, _: str) -> int:
    """Print the status once, or until every run has ended; then that of the tuning, if there is one."""
    study_dir = Path(arguments.study_dir)
    journal = study_dir / RUNS / JOURNAL
    if (study_dir / STUDY).exists() or not journal.exists():
        _show_runs(arguments)
    if journal.exists() and not arguments.json:
        from sweeps.tuning.journal import tuning_status  # imports Optuna

        _print(tuning_status(journal))
    return 0


def _show_runs(arguments: argparse.Namespace) -> None:
    from sweeps.status import read_status

    study_dir = existing_study(arguments)
    for look in itertools.count():
        start, study = time.monotonic(), read_status(study_dir)
        if arguments.json:
            tree = {"schema": SCHEMA, "time": now(), "counts": study.counts, **asdict(study)}
            say(*json.dumps(tree, indent=None if arguments.watch else 1).splitlines())
        else:
            say(_summary_line(study))
            _print(_row(run) for run in study.runs if arguments.all or run.state in ("running", "failed", "unreadable"))
        if not arguments.watch or (look and study.is_done):  # a sweep that starts now adds its runs in a moment
            break
        time.sleep(max(arguments.watch, time.monotonic() - start))  # a look at many runs takes seconds


def _summary_line(study: StudyStatus) -> str:
    """The counts of a study and its time left, in one line."""
    ended = sum(study.counts[state] for state in ("finished", "diverged", "pruned"))
    parts = [f"{ended} of {len(study.runs)} runs have ended"]
    parts += [f"{number} {state}" for state, number in study.counts.items() if number and state != "finished"]
    parts += [f"{number} reused"] if (number := sum(run.reused_from is not None for run in study.runs)) else []
    if study.seconds_left is not None:
        parts.append(f"about {duration_text(round(study.seconds_left))} left")
    if study.driver:
        parts.append("a command trains it")
    return f"{study.study}: {', '.join(parts)}"


def _row(run: RunStatus) -> dict[str, Any]:
    """What the table shows of a run."""
    ago = f"{duration_text(round(run.last_epoch))} ago" if run.last_epoch is not None else ""
    known = {"run": run.run, "state": run.state, "epochs": f"{run.epochs_done}/{run.epochs}", "last epoch": ago}
    source = f"reused from {run.reused_from}" if run.reused_from else ""
    return {**known, "note": run.error or source}


def _print(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table, if there are rows."""
    console, listed = Console(highlight=False, markup=False, emoji=False), list(rows)
    if not console.is_terminal:
        console.width = 10_000  # a file or a pipe gets every line whole
    table = Table(*(listed[0] if listed else ()), box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.overflow = "fold"
    for row in listed:
        table.add_row(*map(printable, row.values()))
    if listed:
        console.print(table)
