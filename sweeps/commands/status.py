"""`vit-sweep status`: what every run of a study is doing, as text or JSON, once or again and again."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from experiments.errors import duration_text, printable, say
from experiments.version import now
from sweeps.commands.arguments import add_study_dir_command, existing_study

if TYPE_CHECKING:
    from sweeps.status import StudyStatus

SCHEMA = 2  # of the JSON
WATCH_SECONDS = 5.0
DESCRIPTION = """\
Show what every run of a study is doing. It changes nothing, and works during a sweep, after it and without one.

The table lists the runs in training, failed and unreadable ones; --all lists every run. --json prints one object:
  schema, study, time (UTC), counts (state -> runs), seconds_left, driver (whether a command that
  trains the study); for each run in `runs`
  run, variant, seed, state, epochs, epochs_done, error, last_epoch, reused_from.
Times are in seconds; what is not known is null. last_epoch is the time since the last epoch. The states:
  running      a process trains it
  waiting      not begun
  interrupted  begun, but no process trains it; the next sweep continues it
  failed       its last attempt has failed; the next sweep tries it again
  finished, diverged, pruned  it has ended, with a record
  unreadable   its record is damaged or that of another run; the next sweep says what to do"""
FOLDED = {"variant", "run", "worker", "last error", "reused from"}  # columns of a table that may need several lines


def add(commands: Any) -> None:
    """Add `status`."""
    command = add_study_dir_command(
        commands, "status", status, help="show what every run of a study is doing", description=DESCRIPTION
    )
    command.add_argument("--all", action="store_true", help="list every run")
    command.add_argument("--json", action="store_true", help="print JSON; with --watch, one line each time")
    command.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=WATCH_SECONDS,
        metavar="SECONDS",
        help=f"show it at least twice, every SECONDS, until every run has ended or failed (default: {WATCH_SECONDS:g})",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected a number of seconds from 0.1 to 86400")
    return seconds


def status(arguments: argparse.Namespace, _: str) -> int:
    """Print the status once, or until every run has ended."""
    from sweeps.status import read_status

    study_dir = existing_study(arguments)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000  # a file or a pipe gets every line whole
    for look in itertools.count():
        start, study = time.monotonic(), read_status(study_dir)
        if arguments.json:
            tree = {"schema": SCHEMA, "time": now(), "counts": study.counts, **asdict(study)}
            say(*json.dumps(tree, indent=None if arguments.watch else 1).splitlines())
        else:
            if look and console.is_terminal:
                console.clear()
            for part in filter(None, _parts(study, arguments.all)):
                console.print(part)
        if not arguments.watch or (look and study.is_done):  # a sweep that starts now adds its runs in a moment
            break
        time.sleep(max(arguments.watch, time.monotonic() - start))  # a look at many runs takes seconds
    return 0


def _parts(study: StudyStatus, every: bool) -> Iterator[str | Table | None]:
    """The summary, the counts by variant, and the runs that a reader wants to see; `every`: all of them."""
    yield _summary_line(study)
    counts: dict[str, Counter[str]] = {}
    for run in study.runs:
        counts.setdefault(run.variant, Counter())[run.state] += 1
    yield _table(
        {"variant": variant, "runs": number.total(), **{state: number[state] for state in study.counts}}
        for variant, number in counts.items()
    )
    yield _table(
        {
            "run": run.run,
            "state": run.state,
            "epochs": f"{run.epochs_done}/{run.epochs}",
            "last epoch": f"{duration_text(round(run.last_epoch))} ago" if run.last_epoch is not None else "",
            "last error": run.error,
            "reused from": run.reused_from,
        }
        for run in study.runs
        if every or run.state in ("running", "failed", "unreadable")
    )


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
    return printable(f"{study.study}: {', '.join(parts)}")


def _table(rows: Iterable[Mapping[str, Any]]) -> Table | None:
    """A table. Columns that are empty for all rows are left out; without rows, there is none."""
    cells = [{column: printable(value or "") for column, value in row.items()} for row in rows]
    if not cells:
        return None
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [column for column in cells[0] if any(row[column] for row in cells)]
    for column in columns:
        is_number = all(row[column].replace("/", "").isdigit() or not row[column] for row in cells)
        table.add_column(
            column, justify="right" if is_number else "left", overflow="fold", no_wrap=column not in FOLDED
        )
    for row in cells:
        table.add_row(*(row[column] for column in columns))
    return table
