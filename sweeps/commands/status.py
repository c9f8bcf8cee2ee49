"""`vit-sweep status`: what every run of a study is doing, as text or JSON, once or again and again."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sweeps.commands.arguments import add_study_dir_command, existing_study

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from sweeps.queue.status import RunStatus, StudyStatus

SCHEMA = 1  # of the JSON
WATCH_SECONDS = 5.0
DESCRIPTION = """\
Show what every run of a study is doing. It changes nothing, and works during a sweep, after it and without one.

The table lists the runs in training and the failed ones; --all lists every run. --json prints one object:
  schema, study, time (UTC), counts (state -> runs), runs_per_hour, seconds_left; for each run in `runs`
  run, variant, seed, state, epochs, epochs_done, attempts, error, host, pid, heartbeat, seconds_left;
  for each job in `jobs` (see `vit-sweep submit`) that has not ended: job, cluster, state, node.
Times are in seconds; what is not known is null. heartbeat is the time since the last one. The states:
  running      a worker trains it
  waiting      not begun
  interrupted  begun, but no worker trains it; the next sweep continues it
  failed       given up after its last attempt; `vit-sweep retry` lets sweeps try it again
  finished, diverged, pruned  it has ended, with a record"""


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
        help=f"show it again every SECONDS, until every run has ended or failed (default: {WATCH_SECONDS:g})",
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
    study_dir = existing_study(arguments)
    from rich.console import Console

    from sweeps.cluster import read_jobs
    from sweeps.queue.status import read_status

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000  # a file or a pipe gets every line whole
    for look in itertools.count():
        start, found = time.monotonic(), read_status(study_dir)
        jobs = read_jobs(study_dir, found.study)
        if arguments.json:
            print(json.dumps(as_json(found, jobs), indent=None if arguments.watch else 1), flush=True)
        else:
            if look and console.is_terminal:
                console.clear()
            elif look:
                console.print()
            for part in _parts(found, jobs, arguments.all):
                console.print(part)
        if not arguments.watch or found.is_done:
            break
        time.sleep(max(arguments.watch, time.monotonic() - start))  # a look at many runs takes seconds
    return 0


def as_json(found: StudyStatus, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The status as the JSON that --json prints; see `DESCRIPTION`."""
    return {
        "schema": SCHEMA,
        "study": found.study,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "counts": found.counts,
        "runs_per_hour": found.runs_per_hour,
        "seconds_left": found.seconds_left,
        "jobs": jobs,
        "runs": [asdict(run) for run in found.runs],
    }


def summary_line(found: StudyStatus) -> str:
    """The counts of a study, its rate and its time left, in one line."""
    from sweeps.workers.progress import format_duration

    counts = found.counts
    ended = sum(counts[state] for state in ("finished", "diverged", "pruned"))
    parts = [f"{ended} of {len(found.runs)} runs have ended"]
    parts += [f"{number} {state}" for state, number in counts.items() if number and state != "finished"]
    if found.runs_per_hour:
        parts.append(f"{found.runs_per_hour:,.{0 if found.runs_per_hour >= 10 else 1}f} runs/h")
    if found.seconds_left is not None:
        parts.append(f"about {format_duration(found.seconds_left)} left")
    return f"{found.study}: {', '.join(parts)}"


def _parts(found: StudyStatus, jobs: Sequence[Mapping[str, Any]], every: bool) -> list[RenderableType]:
    """The summary, the counts by variant, the jobs, and the runs that a reader wants to see."""
    shown = [run for run in found.runs if every or run.state in ("running", "failed")]
    parts: list[RenderableType] = [summary_line(found), _variant_table(found)]
    if jobs:
        parts.append(_job_table(jobs))
    return [*parts, _run_table(shown)] if shown else parts


def _table(*columns: str, numbers: Sequence[str] = (), folded: Sequence[str] = ()) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column, justify="right" if column in numbers else "left", overflow="fold", no_wrap=column not in folded
        )
    return table


def _variant_table(found: StudyStatus) -> Table:
    """A row for each variant: its number of runs in each state that occurs."""
    counts: dict[str, Counter[str]] = {}
    for run in found.runs:
        counts.setdefault(run.variant, Counter())[run.state] += 1
    states = [state for state, number in found.counts.items() if number]
    table = _table("variant", "runs", *states, numbers=("runs", *states), folded=("variant",))
    for variant, own in counts.items():
        table.add_row(variant, str(own.total()), *(str(own[state] or "") for state in states))
    return table


def _job_table(jobs: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each job of a cluster that has not ended."""
    table = _table("job", "cluster", "state", "node or reason", folded=("node or reason",))
    for job in jobs:
        table.add_row(job["job"], job["cluster"], job["state"].lower(), job["node"] or "")
    return table


def _run_table(runs: Sequence[RunStatus]) -> Table:
    """A row for each of these runs. Columns that are empty for all are left out."""
    from sweeps.workers.progress import format_duration

    rows = [
        {
            "run": run.run,
            "state": run.state,
            "epochs": f"{run.epochs_done}/{run.epochs}",
            "left": format_duration(run.seconds_left) if run.state == "running" and run.seconds_left else "",
            "attempt": str(run.attempts or ""),
            "worker": f"{run.pid} on {run.host}" if run.host else "",
            "heartbeat": f"{format_duration(run.heartbeat)} ago" if run.heartbeat is not None else "",
            "last error": run.error or "",
        }
        for run in runs
    ]
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    table = _table(*columns, numbers=("epochs", "left", "attempt"), folded=("run", "worker", "last error"))
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    return table
