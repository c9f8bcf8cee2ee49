"""Read runs from Weights & Biases: a project through its API, or a folder of offline runs. Read only.

It is for runs whose local records are not at hand: a record has digests and provenance that W&B does not keep.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.sources.imported import ImportedRun
from analysis.sources.study import ENDED, METRICS
from experiments.config import RunConfig
from experiments.errors import UserError
from experiments.runs.tracking.settings import FIGURES_OF

TIMEOUT = 20  # seconds to wait for the server
WITHOUT_TYPE = "-"  # stands for the study of runs without a job type
OFFLINE = "-offline"  # what earlier versions added to the id of a run when W&B did not answer
HEADER = 7  # bytes at the start of a transaction log
OURS = ("data", "model", "optim", "train", "seed")  # in the configuration of a run by any version
MAX_ROWS = 100_000  # of a run's history; by default W&B samples 500


def find_runs(place: str, metric: str) -> tuple[str, list[ImportedRun]]:
    """The study's name and its runs. `place`: ENTITY/PROJECT[/STUDY], or FOLDER[/STUDY] with `offline-run-*` in the folder.

    The job type of a W&B run is its study, the group its variant. Raises `UserError` where there are no runs, or where
    W&B does not answer.
    """
    if Path(place).is_dir():
        return _one_study(f"wandb:{place}", _offline(Path(place), _files(Path(place))), "")
    folder, _, study = place.rpartition("/")
    if folder and Path(folder).is_dir() and (files := _files(Path(folder))):
        return _one_study(f"wandb:{folder}", _offline(Path(folder), files), study)
    parts = place.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UserError(f"wandb:{place}: is neither a folder nor ENTITY/PROJECT[/STUDY]")
    return _one_study(f"wandb:{parts[0]}/{parts[1]}", _online("/".join(parts[:2])), "".join(parts[2:]))


def _one_study(where: str, runs: Iterable[tuple[str, ImportedRun]], wanted: str) -> tuple[str, list[ImportedRun]]:
    """The runs of one job type. `runs`: (job type, run)."""
    studies: dict[str, list[ImportedRun]] = {}
    for study, run in runs:
        studies.setdefault(study, []).append(run)
    if not studies:
        raise UserError(f"{where}: holds no runs")
    chosen = "" if wanted == WITHOUT_TYPE else wanted
    if not wanted and len(studies) == 1:
        chosen = next(iter(studies))
    elif not wanted or chosen not in studies:
        named = ", ".join(sorted(study or f"{WITHOUT_TYPE} (runs without a job type)" for study in studies))
        raise UserError(
            f"{where}: {f'no study {wanted!r}' if wanted else 'holds several studies'}; add /STUDY, one of: {named}"
        )
    return chosen or where.rpartition("/")[2], studies[chosen]


def _online(path: str) -> list[tuple[str, ImportedRun]]:
    import requests
    import wandb

    try:
        found = wandb.Api(timeout=TIMEOUT).runs(path, order="+created_at")
        return [(run.job_type or "", _api_run(run)) for run in found if FIGURES_OF not in run.config]
    except (wandb.errors.Error, requests.exceptions.RequestException, ValueError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"wandb:{path}: the runs could not be read from W&B: {reason}") from error


def _api_run(run: Any) -> ImportedRun:
    rows = run.history(samples=MAX_ROWS, keys=None, pandas=False)
    ended = "finished" if run.state == "finished" else "incomplete"
    return _imported(
        f"{run.name} ({run.id})", run.config, run.group, run.summary, rows, ended, getattr(run, "commit", None)
    )


def _files(folder: Path) -> list[Path]:
    """The transaction logs of the offline runs in a folder."""
    return (
        sorted(folder.glob("offline-run-*/run-*.wandb"))
        or sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
        or sorted(folder.glob("run-*.wandb"))
    )


def _offline(folder: Path, files: Sequence[Path]) -> list[tuple[str, ImportedRun]]:
    if not files:
        raise UserError(f"wandb:{folder}: holds no offline-run-*/run-*.wandb")
    sessions: dict[str, list[dict[str, Any]]] = {}  # id of a run -> all that its folders hold, in order of time
    for file in files:
        if lines := _log(file):
            sessions.setdefault(file.stem.removeprefix("run-").removesuffix(OFFLINE), []).extend(lines)
    if not sessions:
        raise UserError(f"wandb:{folder}: none of its {len(files)} files holds a run")
    return [_offline_run(name, lines) for name, lines in sessions.items()]


def _offline_run(run_id: str, lines: list[dict[str, Any]]) -> tuple[str, ImportedRun]:
    """(job type, run) from the transaction logs of a run, which has one for each time that it was started."""
    runs = [line["run"] for line in lines if line["type"] == "run"]
    summary: dict[str, Any] = {}
    config: dict[str, Any] = {}
    commit = None
    ended = "incomplete"
    for line in lines:
        part = line.get(line["type"]) or {}
        if line["type"] == "summary":
            summary.update(part.get("update", {}))
        elif line["type"] == "run":
            ended = "incomplete"  # started again
            config.update(part.get("config", {}).get("update", {}))
        elif line["type"] == "environment":
            commit = commit or part.get("git", {}).get("commit")
        elif line["type"] == "exit" and part.get("exit_code", 0) == 0:
            ended = "finished"
    rows = [line["history"]["item"] for line in lines if line["type"] == "history"]
    name = f"{runs[-1].get('display_name') or runs[-1].get('run_id')} ({run_id})"
    run = _imported(name, config, runs[-1].get("run_group"), summary, rows, ended, commit)
    return runs[-1].get("job_type", ""), run


def _log(file: Path) -> list[dict[str, Any]]:
    """The entries of a transaction log, decoded by W&B's own `leet inspect`, up to where it breaks off.

    Empty for the log of a run that was killed as it started, which has only a header. Raises `UserError` where the file
    is no such log.
    """
    from wandb.util import get_core_path

    if file.stat().st_size <= HEADER:
        return []
    options = ["--no-observability", "--json", "--run-file", str(file), str(file.parent)]
    done = subprocess.run([get_core_path(), "leet", "inspect", *options], check=False, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not any(line["type"] == "run" for line in lines):
        reason = (done.stderr.strip().splitlines() or ["the file holds no run"])[-1]
        raise UserError(f"{file}: cannot be read: {reason}")
    return lines


def _imported(
    name: str,
    config: Mapping[str, Any],
    group: str | None,
    summary: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    ended: str,
    commit: str | None,
) -> ImportedRun:
    """A run from its parts. Where the summary has no status of ours, the status is W&B's (`ended`)."""
    own = {key: _value(value) for key, value in summary.items() if not key.startswith("_")}
    epochs: dict[float, dict[str, Any]] = {}
    for row in rows:
        values = {key: _value(value) for key, value in row.items() if not key.startswith("_")}
        if isinstance(values.get("epoch"), int | float):  # a resumed run logs an epoch twice: the last row counts
            epochs.setdefault(float(values["epoch"]), {}).update(values)
    status = own["status"] if own.get("status") in ENDED else ended  # another program's status may be any text
    if _is_short(len(epochs), own.get("epochs")):
        status = "incomplete"
    return ImportedRun(
        run=name,
        status=status,
        config=_own_settings(config),
        variant=group or "",
        summary={"epochs": len(epochs), **own, "provenance": {"commit": commit}},
        rows=[
            {"epoch": epoch, **{k: row.get(k) for k in ("lr", *METRICS) if k in row}}
            for epoch, row in sorted(epochs.items())
        ],
    )


def _is_short(epochs: int, stated: Any) -> bool:
    """Whether W&B lost epochs of a run of ours, so that its curve would end too early."""
    return isinstance(stated, int) and 0 < epochs < stated


def _own_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run: of ours without the names that the mirror adds to its configuration."""
    given = {key: value for key, value in config.items() if not key.startswith("_")}
    ours = {"run", "variant", *OURS} <= given.keys()
    return {key: given[key] for key in RunConfig.model_fields if key in given} if ours else given


def _value(value: Any) -> Any:
    """A logged value as plain data. A metric with a summary of its own, {"last": v, "max": w}, becomes v. A number that is
    not finite becomes None; W&B returns it as text.
    """
    if hasattr(value, "items"):  # a dict, or the API's SummarySubDict, which is no Mapping and cannot be iterated over
        parts = dict(value.items())
        if "last" in parts and parts.keys() <= {"last", "max", "min", "mean", "best"}:
            return _value(parts["last"])
        return {key: _value(part) for key, part in parts.items()}
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value
