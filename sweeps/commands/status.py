"""`vit-sweep status`: what every run of a study is doing, as text or JSON.

It is read from the plan, the records and the locks. It changes nothing.
"""

import argparse
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.compared import RunSpec
from experiments.config import DEFAULTS
from experiments.errors import duration_text, printable, say
from experiments.files import DRIVER_LOCK, LOCKS, UNUSABLE, is_locked, read_bytes
from experiments.runs import record
from experiments.runs.exports import reused_runs
from experiments.runs.resume import NAME as RESUME
from experiments.runs.resume import read_note
from experiments.study import STUDY, Study
from experiments.version import now
from sweeps.commands.arguments import add_study_dir_command, existing_study
from sweeps.tuning.tuning_plan import JOURNAL, RUNS

SCHEMA = 3  # of the JSON
STATES = ("running", "waiting", "interrupted", "failed", "finished", "diverged", "pruned", "unreadable")
DESCRIPTION = """\
Show what every run of a study is doing, and the trials of its tuning. It changes nothing, and works during a sweep,
after it and without one.

The table lists the runs in training, failed and unreadable ones; --all lists every run. --json prints one object:
  schema, study, time (UTC), counts (state -> runs), driver (whether a command trains it);
  for each run in `runs` run, variant, seed, state, epochs, epochs_done, error, last_epoch, reused_from.
What is not known is null. last_epoch is the time since the last epoch of a run in training, in seconds. The states:
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
    command.add_argument("--json", action="store_true", help="print JSON")


def status(arguments: argparse.Namespace, _: str) -> int:
    """Print the status, and that of the tuning, if there is one."""
    study_dir = Path(arguments.study_dir)
    journal = study_dir / RUNS / JOURNAL
    if (study_dir / STUDY).exists() or not journal.exists():
        _show_runs(existing_study(arguments), arguments)
    if journal.exists() and not arguments.json:
        from sweeps.tuning.optuna_studies import tuning_status  # imports Optuna

        _print(tuning_status(journal))
    return 0


def _show_runs(study_dir: Path, arguments: argparse.Namespace) -> None:
    study = Study.read(study_dir)
    runs, is_driven = read_states(study, study_dir), is_locked(study_dir / DRIVER_LOCK)
    counts = {state: sum(run["state"] == state for run in runs) for state in STATES}
    if arguments.json:
        head = {"schema": SCHEMA, "study": study.name, "time": now(), "counts": counts, "driver": is_driven}
        say(*json.dumps({**head, "runs": runs}, indent=1).splitlines())
        return
    reused = sum(run["reused_from"] is not None for run in runs)
    said = {**{state: n for state, n in counts.items() if state != "finished"}, "reused": reused}
    parts = [f"{sum(counts[state] for state in record.STATUSES)} of {len(runs)} runs have ended"]
    parts += [*(f"{n} {state}" for state, n in said.items() if n), *["a command trains it"] * is_driven]
    say(f"{study.name}: {', '.join(parts)}")
    _print([_row(run) for run in runs if arguments.all or run["state"] in ("running", "failed", "unreadable")])


def read_states(study: Study, study_dir: Path) -> list[dict[str, Any]]:
    """What the JSON says of every run, in the order of the plan. Raises `UserError` where a source of runs that the
    study reuses is missing or was changed.
    """
    reused, runs = reused_runs(study), []
    settings = {label: study.settings(run) for label, run in study.variants.items()}
    for run in study.runs:
        epochs = settings[run.variant].get("train.epochs", DEFAULTS["train.epochs"])
        fields = {"epochs": epochs, "epochs_done": 0, "error": None, "last_epoch": None, "reused_from": None}
        source = reused.get(run.run_id)
        runs.append({**run.model_dump(by_alias=True, include={"name", "variant", "seed"}), "state": "", **fields})
        try:
            summary = record.read_ended(study_dir, run)
        except record.RecordError as damage:
            runs[-1] |= {"state": "unreadable", "error": str(damage)}
            continue
        if summary:
            runs[-1] |= {"state": summary["status"], "epochs_done": summary.get("epochs", epochs)}
        elif source:
            runs[-1] |= {"state": source.summary["status"], "epochs_done": epochs, "reused_from": source.source.name}
        else:
            runs[-1] |= _without_record(study_dir, run)
    return runs


def _without_record(study_dir: Path, run: RunSpec) -> dict[str, Any]:
    """The state of a run that has not ended: running where its lock is held; failed where an attempt has left
    error.txt; interrupted where it has begun; else waiting.
    """
    folder, error, last_epoch, done = study_dir / run.name, None, None, 0
    with contextlib.suppress(record.RecordError):
        lines = read_bytes(folder / record.ERROR).decode(errors="replace").split("\n")
        error = next((line.strip() for line in reversed(lines) if line.strip()), "unknown")
    with contextlib.suppress(record.RecordError):
        done = max(0, read_bytes(folder / record.METRICS).count(b"\n") - 1)
    with contextlib.suppress(*UNUSABLE):  # none, being written, or damaged
        done = len(read_note(folder)["rows"])
    if is_locked(study_dir / LOCKS / run.name):
        with contextlib.suppress(OSError):
            last_epoch = max(0.0, time.time() - (folder / RESUME).stat().st_mtime)
        return {"state": "running", "epochs_done": done, "error": error, "last_epoch": last_epoch}
    begun = done or (folder / record.CONFIG).exists()
    state = "failed" if error else "interrupted" if begun else "waiting"
    return {"state": state, "epochs_done": done, "error": error}


def _row(run: Mapping[str, Any]) -> dict[str, Any]:
    """What the table shows of a run."""
    ago = f"{duration_text(round(run['last_epoch']))} ago" if run["last_epoch"] is not None else ""
    note = run["error"] or (f"reused from {run['reused_from']}" if run["reused_from"] else "")
    epochs = f"{run['epochs_done']}/{run['epochs']}"
    return {"run": run["run"], "state": run["state"], "epochs": epochs, "last epoch": ago, "note": note}


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table, if there are rows."""
    if not rows:
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000  # a file or a pipe gets every line whole
    table = Table(*rows[0], box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(printable, row.values()))
    console.print(table)
