"""From jobs to records: train, write what each run leaves behind, go on where one was interrupted. One cohort at a time."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from experiments.config import RunConfig, load, run_id
from experiments.data import loading
from experiments.errors import TakenOver, UserError
from experiments.runs import provenance, record, resume
from experiments.runs.tracking import RunTracker, Tracking
from experiments.training.compile import require
from experiments.training.engine import Solo, batches
from experiments.training.fit import Row, evaluate, fit
from experiments.training.stacked import Stacked, fitting

SYNC_SECONDS = 5.0  # of training that a power cut may cost: to wait for the disk after every short epoch costs more


@dataclass(frozen=True)
class Job:
    """A run to be made: its configuration, its folder, and the name of its variant in the study."""

    config: RunConfig
    dir: Path
    variant: str = ""


@dataclass
class _Live:
    """A job under way."""

    job: Job
    id: str
    rows: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"device": 0.0, "wall": 0.0})  # of all its sessions
    synced: float = -math.inf  # when its state last reached the disk
    clock: float = 0.0  # when it would have begun, had it never been interrupted
    started: str = field(default_factory=lambda: _now())
    state: dict[str, torch.Tensor] | None = None
    stacked: bool | None = None  # in a stack, whose sums round otherwise; None before the first epoch
    tracker: RunTracker = field(default_factory=RunTracker)
    status: str = "running"


def train(
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    tracking: Tracking | None = None,
    on_row: Callable[[int, Row], bool | None] | None = None,
) -> list[dict[str, Any]]:
    """Train the jobs that are not finished yet and return the summaries of all, in order.

    Jobs given together must differ only in seed, learning rate and weight decay; they are stacked, as many at a time as
    the GPU's memory holds. `on_row(job number, row)` hears of
    each epoch, and may return True to prune that run. The same call after an interruption goes on from each run's last
    finished epoch and ends with the same numbers.

    Raises `UserError` where data, device, compiler or folder will not do, `RecordError` where a folder holds another run or a
    record that was altered.
    """
    torch_device = pick_device(device)
    live = {i: _open(job) for i, job in enumerate(jobs) if not record.is_finished(job.dir)}
    if live:
        require(jobs[0].config.train.compile, torch_device)
        splits = loading.load(jobs[0].config).to(torch_device)
        for group in _cohorts(live, len(splits.classes), torch_device):
            _train_group(group, splits, torch_device, tracking or Tracking("off"), on_row)
    return [_checked_summary(job) for job in jobs]


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one. Raises `UserError` for a device that is not here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise UserError(f"device: {name!r} is not here; allowed: auto, cpu, or a GPU's name such as cuda:0") from error
    return device


def _train_group(
    group: dict[int, _Live], splits: loading.Splits, device: torch.device, tracking: Tracking, on_row
) -> None:
    """Train jobs that stand at the same epoch, together."""
    numbers, runs = list(group), list(group.values())
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    stacked = len(runs) > 1 if runs[0].stacked is None else runs[0].stacked
    engine = (Stacked if stacked else Solo)([run.job.config for run in runs], len(splits.classes), device)
    start = len(runs[0].rows)
    if start:
        engine.load_states([run.state for run in runs])
        for run in runs:
            run.state = None  # else it would take up memory to the end
    for run in runs:
        run.stacked = stacked
        run.clock = time.perf_counter() - run.seconds["wall"]
        _claim(run.job)
        run.tracker = tracking.start(run.job.config.model_dump(), run.job.dir, run.id, run.job.variant)
        if stacked and not start:
            _save(run, {}, durable=False)  # that it is one of a stack, should it be gone on with alone
    for i, run in enumerate(runs):
        if run.status != "running":  # it diverged, or was pruned, just before it was interrupted
            _finish(run, engine, i, None, splits, device)
    if not _running(runs):
        return
    for rows, seconds in _timed(fit(engine, splits, start)):
        states = engine.states()
        for i, (number, run) in enumerate(zip(numbers, runs, strict=True)):
            if run.status != "running":
                continue
            _epoch_done(run, rows[i], states[i], seconds / len(runs))
            prune = on_row and on_row(number, rows[i])
            run.status = _status(run.rows, bool(prune))
            if run.status == "pruned":
                _save(run, states[i], durable=True)  # with the decision, which nobody may make again
            if run.status != "running":  # now, for the others of the cohort will move its weights on
                _finish(run, engine, i, None, splits, device)
        if not _running(runs):
            return
    for i, (run, test) in enumerate(zip(runs, evaluate(engine, splits, splits.test), strict=True)):
        if run.status == "running":
            _finish(run, engine, i, test, splits, device)


def _timed(epochs: Iterator[list[Row]]) -> Iterator[tuple[list[Row], float]]:
    """Each epoch's rows and the seconds that the device took for it."""
    while True:
        before = time.perf_counter()
        rows = next(epochs, None)
        if rows is None:
            return
        yield rows, time.perf_counter() - before


def _epoch_done(run: _Live, row: Row, state: dict[str, torch.Tensor], seconds: float) -> None:
    """Make the epoch permanent. The table waits where epochs are short: the state holds the rows, too."""
    run.rows.append(row)
    run.seconds = {"device": run.seconds["device"] + seconds, "wall": time.perf_counter() - run.clock}
    due = time.perf_counter() - run.synced >= SYNC_SECONDS
    _save(run, state, durable=due)
    if due:
        record.write_text(run.job.dir / record.METRICS, record.metrics_csv(run.rows))
        run.synced = time.perf_counter()
    run.tracker.log(row)


def _check_unsealed(job: Job) -> None:
    """Raises `TakenOver` rather than let anything be written into a record that another process has sealed."""
    if record.is_finished(job.dir):
        raise TakenOver(f"{job.dir}: another process has finished this run")


def _save(run: _Live, state: dict[str, torch.Tensor], durable: bool) -> None:
    """What going on after the last epoch needs."""
    _check_unsealed(run.job)
    kept = ("rows", "seconds", "started", "status", "stacked")
    note = {"run_id": run.id, **{key: getattr(run, key) for key in kept}}
    resume.write(run.job.dir, note, state, durable)


def _finish(
    run: _Live,
    engine: Solo | Stacked,
    i: int,
    test: tuple[float, float] | None,
    splits: loading.Splits,
    device: torch.device,
) -> None:
    """Seal the record. The test set has been touched once, now; a run that diverged or was pruned has no test figure."""
    _check_unsealed(run.job)
    status = run.status if test is None else "finished"
    metrics = {key: value for key, value in run.rows[-1].items() if key not in ("epoch", "lr")}
    metrics |= dict(zip(("test/loss", "test/acc"), test or (None, None), strict=True))
    weights = {name: tensor.cpu().contiguous() for name, tensor in engine.weights(i).items()}
    record.write_bytes(run.job.dir / record.CHECKPOINT, save(weights, {"run_id": run.id}))
    record.write_text(run.job.dir / record.METRICS, record.metrics_csv(run.rows))
    images = len(splits.train) * len(run.rows)
    cost = {
        **provenance.model_cost(run.job.config.vit_config(len(splits.classes))),
        "wall_seconds": time.perf_counter() - run.clock,
        "device_seconds": run.seconds["device"],
        "images_per_second": images / run.seconds["device"],
        "peak_memory_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
        "cohort": len(engine.configs),
    }
    origin = {
        **provenance.code(),
        "started": run.started,
        "finished": _now(),
        "command": provenance.command(),
        "versions": provenance.versions(),
        "hardware": provenance.hardware(device),
    }
    summary = {
        "run_id": run.id,
        "status": status,
        "epochs": len(run.rows),
        **metrics,
        "cost": cost,
        "provenance": origin,
    }
    sealed = record.write_summary(run.job.dir, summary)
    _tidy(run.job.dir)
    run.tracker.finish(sealed)


def _open(job: Job) -> _Live:
    """Look at a job's folder: fresh, or interrupted and to be gone on with. Writes nothing."""
    run = _Live(job, run_id(job.config))
    path = job.dir / record.CONFIG
    if path.exists() and _id_in(path) != run.id:
        raise record.RecordError(f"{path}: is of another run, {_id_in(path)}, not {run.id}; choose another --out")
    if found := resume.read(job.dir):
        note, run.state = found
        if note["run_id"] != run.id:
            raise record.RecordError(f"{job.dir / resume.NAME}: is of another run, {note['run_id']}, not {run.id}")
        run.rows, run.seconds, run.started = note["rows"], note["seconds"], note["started"]
        run.stacked = note.get("stacked")
        run.status = _status(run.rows, note.get("status") == "pruned")  # just before it was interrupted, perhaps
    return run


def _claim(job: Job) -> None:
    """Make the folder and put its configuration there, once everything that can be refused has been."""
    try:
        job.dir.mkdir(parents=True, exist_ok=True)
        if not (job.dir / record.CONFIG).exists():
            record.write_json(job.dir / record.CONFIG, job.config.model_dump())
    except OSError as error:
        raise UserError(f"out: {str(job.dir)!r} cannot be written: {error.strerror}") from error


def _checked_summary(job: Job) -> dict[str, Any]:
    """The summary of a finished job. Raises `RecordError` where it was altered or is of another run."""
    finished = record.read_run(job.dir, checkpoint=True)
    if finished.summary["run_id"] != run_id(job.config):
        raise record.RecordError(f"{job.dir / record.SUMMARY}: is of another run, {finished.summary['run_id']}")
    _tidy(job.dir)
    return finished.summary


def _tidy(folder: Path) -> None:
    """Leave the record and nothing else: a kill may have come in the middle of a write, or just after the last one."""
    for path in (folder / resume.NAME, folder / resume.NEWER, *folder.glob(record.PART + "*")):
        path.unlink(missing_ok=True)


def _cohorts(live: dict[int, _Live], num_classes: int, device: torch.device) -> Iterator[dict[int, _Live]]:
    """Jobs that can be stacked, as many as fit: at the same epoch (a kill between two saves leaves members apart), and
    not begun alone, for they end with the same numbers only as they began.
    """
    at: dict[tuple[int, bool], list[int]] = {}
    for i, run in live.items():  # now, for each group's training moves its members on
        at.setdefault((len(run.rows), run.stacked is False), []).append(i)
    for (_, alone), numbers in sorted(at.items()):
        most = 1 if alone else fitting([live[i].job.config for i in numbers], num_classes, device)
        for part in batches(len(numbers), most):
            yield {i: live[i] for i in numbers[part]}


def _id_in(path: Path) -> str:
    try:
        return run_id(load(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        raise record.RecordError(f"{path}: cannot be read as a configuration: {error}") from error


def _running(runs: Sequence[_Live]) -> bool:
    return any(run.status == "running" for run in runs)


def _status(rows: list[Row], prune: bool = False) -> str:
    """Where a run stands after its rows: a loss that is not finite ends it as diverged, whatever else was to become of it."""
    if rows and not all(map(math.isfinite, rows[-1].values())):
        return "diverged"
    return "pruned" if prune else "running"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
