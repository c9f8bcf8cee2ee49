"""Runs from Weights & Biases: a project by its API, or offline run folders. Reads only; `experiments.tracking` does the
writing.

Records are the truth and W&B mirrors them; this is for runs of which only the mirror is at hand.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.sources.imported import ImportedRun
from analysis.sources.study import ENDED, METRICS
from experiments.errors import UserError

SECONDS = 20  # to wait for a server; W&B's own default is longer than anybody waits
MOST_EPOCHS = 100_000  # of a run's history; without a number W&B samples 500


def find_runs(place: str, metric: str) -> tuple[str, list[ImportedRun]]:
    """The study's name and its runs. `place`: ENTITY/PROJECT[/STUDY], or a folder that holds `offline-run-*`.

    A study is W&B's job type, a variant its group. Raises `UserError` where nothing is there or W&B does not answer.
    """
    if Path(place).is_dir():
        return _one_study(f"wandb:{place}", _offline(Path(place)), "")
    parts = place.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UserError(f"wandb:{place}: is neither a folder nor ENTITY/PROJECT[/STUDY]")
    return _one_study(f"wandb:{parts[0]}/{parts[1]}", _online("/".join(parts[:2])), "".join(parts[2:]))


def _one_study(where: str, runs: Iterable[tuple[str, ImportedRun]], wanted: str) -> tuple[str, list[ImportedRun]]:
    """The runs of one job type out of (job type, run)s."""
    studies: dict[str, list[ImportedRun]] = {}
    for study, run in runs:
        studies.setdefault(study, []).append(run)
    if not studies:
        raise UserError(f"{where}: holds no runs")
    if not wanted and len(studies) == 1:
        wanted = next(iter(studies))
    if wanted not in studies:
        named = ", ".join(sorted(study or "(without job type)" for study in studies))
        raise UserError(f"{where}: {f'no study {wanted!r}' if wanted else 'holds several studies'}; there are: {named}")
    return wanted or where.rpartition("/")[2], studies[wanted]


def _online(path: str) -> list[tuple[str, ImportedRun]]:
    import requests
    import wandb

    try:
        return [
            (run.job_type or "", _of_api(run)) for run in wandb.Api(timeout=SECONDS).runs(path, order="+created_at")
        ]
    except (wandb.errors.Error, requests.exceptions.RequestException, ValueError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"wandb:{path}: W&B gave no runs: {reason}") from error


def _of_api(run: Any) -> ImportedRun:
    rows = run.history(samples=MOST_EPOCHS, keys=None, pandas=False)
    ended = {"finished": "finished"}.get(run.state, "incomplete")
    return _found(
        f"{run.name} ({run.id})", run.config, run.group, dict(run.summary), rows, ended, getattr(run, "commit", None)
    )


def _offline(folder: Path) -> list[tuple[str, ImportedRun]]:
    files = (
        sorted(folder.glob("offline-run-*/run-*.wandb"))
        or sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
        or sorted(folder.glob("run-*.wandb"))
    )
    if not files:
        raise UserError(f"wandb:{folder}: holds no offline-run-*/run-*.wandb")
    return [_of_file(file) for file in files]


def _of_file(file: Path) -> tuple[str, ImportedRun]:
    """A run from its transaction log, as W&B's own `leet inspect` spells it out; a log that broke off is read as far as
    it goes.
    """
    from wandb.util import get_core_path

    command = [
        get_core_path(),
        "leet",
        "inspect",
        "--no-observability",
        "--json",
        "--run-file",
        str(file),
        str(file.parent),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    runs = [line["run"] for line in lines if line["type"] == "run"]
    if not runs:
        reason = (done.stderr.strip().splitlines() or ["it holds no run"])[-1]
        raise UserError(f"{file}: cannot be read: {reason}")
    run, summary, config = runs[-1], {}, {}
    for line in lines:
        summary.update(line.get("summary", {}).get("update", {}) if line["type"] == "summary" else {})
    for each in runs:
        config.update(each.get("config", {}).get("update", {}))
    rows = [line["history"]["item"] for line in lines if line["type"] == "history"]
    ended = (
        "finished"
        if any(line["type"] == "exit" and line["exit"].get("exit_code", 0) == 0 for line in lines)
        else "incomplete"
    )
    commits = [line["environment"].get("git", {}).get("commit") for line in lines if line["type"] == "environment"]
    name = f"{run.get('display_name') or run.get('run_id')} ({file.stem.removeprefix('run-')})"
    return run.get("job_type", ""), _found(
        name, config, run.get("run_group"), summary, rows, ended, next(filter(None, commits), None)
    )


def _found(
    name: str,
    config: Mapping[str, Any],
    group: str | None,
    summary: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    ended: str,
    commit: str | None,
) -> ImportedRun:
    """Our own summary says how a run ended; one of somebody else's ended as W&B says, and its last row is its result."""
    own = {key: _value(value) for key, value in summary.items() if not key.startswith("_")}
    epochs: dict[float, dict[str, Any]] = {}
    for row in rows:
        values = {key: _value(value) for key, value in row.items() if not key.startswith("_")}
        if isinstance(values.get("epoch"), int | float):  # a resumed run logs an epoch again: the last one counts
            epochs.setdefault(float(values["epoch"]), {}).update(values)
    return ImportedRun(
        run=name,
        status=own["status"] if own.get("status") in ENDED else ended,  # another's word may mean anything
        config={key: value for key, value in config.items() if not key.startswith("_")},
        variant=group or "",
        summary={"epochs": len(epochs), **own, "provenance": {"commit": commit}},
        rows=[
            {"epoch": epoch, **{k: row.get(k) for k in ("lr", *METRICS) if k in row}}
            for epoch, row in sorted(epochs.items())
        ],
    )


def _value(value: Any) -> Any:
    """A logged value: a metric with a summary of its own is {"last": v}, and what is not finite comes as text."""
    if hasattr(value, "keys") and set(value.keys()) <= {"last", "max", "min", "mean", "best"} and "last" in value:
        value = value["last"]
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return None
    if hasattr(value, "keys"):
        return {key: _value(value[key]) for key in value}
    return None if isinstance(value, float) and not math.isfinite(value) else value
