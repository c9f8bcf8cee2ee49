"""The state of a run in training, and how it reaches the run's folder: opened, saved after each epoch, sealed at the end."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from experiments.config import load, run_id
from experiments.errors import TakenOver, UserError, writing
from experiments.metric import WATCHED, Metric
from experiments.runs import record, resume
from experiments.runs.source import source_files
from experiments.runs.stated import read_stated
from experiments.study import RunSpec

Row = dict[str, float]

SYNC_SECONDS = 5.0  # of training that a power cut may cost; waiting for the disk after every short epoch costs more
# What the note in the resume file holds, beside the run id:
SAVED = (
    "rows",
    "seconds",
    "started",
    "status",
    "stacked",
    "members",
    "planned",
    "files",
    "measured",
    "init",
    "sessions",
)


@dataclass
class RunState:
    """A run in training: its rows so far, the time it took, and the folder it is written to."""

    spec: RunSpec
    dir: Path
    rows: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"device": 0.0, "wall": 0.0})  # over all sessions
    synced: float = -math.inf  # when its state was last flushed to the disk
    clock: float = 0.0  # when it would have started, had it never been interrupted
    started: str = field(default_factory=lambda: now())
    tensors: dict[str, Tensor] | None = None  # weights and optimiser state to continue from
    stacked: bool | None = None  # trained in a stack, which rounds differently; None before the first epoch
    members: list[str] = field(default_factory=list)  # run ids of its stack; empty for a run that is trained alone
    files: str = ""  # a hash of the files of its images; see Splits
    measured: dict[str, float | None] = field(
        default_factory=dict
    )  # test metrics after the epochs in eval.epochs so far
    init: dict[str, Any] = field(default_factory=dict)  # the run whose weights it started from: see SourceRun.described
    # each with its first epoch; one like the session before is left out: see `provenance.session`
    sessions: list[dict[str, Any]] = field(default_factory=list)
    planned: dict[str, Any] | None = None  # what the study stated when the run started: see read_stated
    status: str = "running"

    @classmethod
    def open(cls, spec: RunSpec, folder: Path) -> RunState:
        """Read what an interrupted run left in its folder; a new state where there is nothing. Writes nothing.

        Raises `RecordError` where the folder holds another run or a file that cannot be read.
        """
        if run_id(spec.config) != spec.run_id:  # this process started later than the one that planned the run
            raise UserError(
                f"model.pos_embed: the source of {spec.config.model.pos_embed!r} was changed after the command started; "
                "run the command again"
            )
        run = cls(spec, folder)
        path = folder / record.CONFIG
        if path.exists() and (found_id := _id_in(path)) != spec.run_id:
            raise record.RecordError(f"{path}: belongs to run {found_id}, not {spec.run_id}; choose another --out")
        if found := resume.read(folder):
            note, run.tensors = found
            if note["run_id"] != spec.run_id:
                raise record.RecordError(f"{folder / resume.NAME}: belongs to run {note['run_id']}, not {spec.run_id}")
            run.rows, run.seconds, run.started = note["rows"], note["seconds"], note["started"]
            run.stacked, run.planned = note.get("stacked"), note.get("planned")
            run.members, run.files = note.get("members", []), note.get("files", "")
            run.measured, run.init = note.get("measured", {}), note.get("init", {})
            run.sessions = note.get("sessions", [])
            run.update_status(prune=note.get("status") == "pruned")  # decided just before the interruption
        else:
            run.planned = read_stated(folder.parent)
        return run

    def check_files(self, files: str) -> None:
        """Note the hash of the image files. Raises `UserError` where an interrupted run began with other files."""
        if self.files and self.files != files:
            where = f"data.root: {self.spec.config.data.root!r}"
            raise UserError(
                f"{where}: its files were changed after epoch {len(self.rows)} of {self.dir}; restore them to resume, "
                "or delete that folder to train the run again"
            )
        self.files = files

    def check_tested(self) -> None:
        """Raise `UserError` where an interrupted run passed a number of epochs in eval.epochs without its test images."""
        config, done = self.spec.config, len(self.rows)
        passed = [epochs for epochs in config.eval.epochs if epochs <= done and epochs < config.train.epochs]
        if missing := [n for n in passed if self.measured.get(Metric("test/acc").after(n)) is None]:
            raise UserError(
                f"test: {self.dir} was trained with --test false, so its test metrics after epoch {missing[0]} are "
                "missing; resume it with --test false, or delete that folder to train the run again"
            )

    def start(self, stacked: bool, members: list[str], session: Mapping[str, Any]) -> None:
        """Make the folder with its configuration, and start the clock. `session`: see `provenance.session`."""
        self.stacked, self.members = stacked, members
        self._add_session(session)
        self.clock = time.perf_counter() - self.seconds["wall"]
        config = self.spec.config.model_dump()
        with writing(self.dir):
            self.dir.mkdir(parents=True, exist_ok=True)
            if not (self.dir / record.CONFIG).exists():
                record.write_json(self.dir / record.CONFIG, config)
            sources = source_files(self.spec.config)
            self._keep_changes(sources.pop(record.DIFF, b""))
            for name, body in sources.items():
                (self.dir / name).parent.mkdir(parents=True, exist_ok=True)
                record.write_bytes(self.dir / name, body)

    def _keep_changes(self, diff: bytes) -> None:
        """Keep the uncommitted changes of each session, equal ones once, and none of a session that saved no epoch."""
        kept = {
            hashlib.sha256((self.dir / name).read_bytes()).hexdigest(): name for name in record.diff_files(self.dir)
        }
        if self.sessions[0]["epoch"] == 1:  # else an earlier version did not note the first sessions
            for digest in kept.keys() - {each.get("diff") for each in self.sessions}:
                (self.dir / kept.pop(digest)).unlink()
        if diff and hashlib.sha256(diff).hexdigest() not in kept:
            later = record.DIFF.replace(".diff", f"-{self.sessions[-1]['epoch']}.diff")
            record.write_bytes(self.dir / (later if record.DIFF in kept.values() else record.DIFF), diff)

    def _add_session(self, session: Mapping[str, Any]) -> None:
        """Add a session. One that saved no epoch is forgotten."""
        first = len(self.rows) + 1
        kept = [each for each in self.sessions if each["epoch"] < first]
        is_new = not kept or {**kept[-1], "epoch": first} != {"epoch": first, **session}
        self.sessions = [*kept, {"epoch": first, **session}] if is_new else kept

    def update_status(self, prune: bool) -> None:
        """Set the status after an epoch. A loss that is not finite means diverged, even if the run is pruned as well."""
        if self.rows and not is_finite(self.rows[-1]):
            self.status = "diverged"
        else:
            self.status = "pruned" if prune else "running"

    def add_epoch(self, row: Row, tensors: Mapping[str, Tensor], seconds: float) -> Callable[[], None]:
        """Add an epoch. Returns the function that writes it, which another thread may call during the next epoch."""
        self.rows.append(row)
        wall = time.perf_counter() - self.clock
        self.seconds = {"device": self.seconds["device"] + seconds, "wall": wall}
        return partial(self._write_epoch, self._note(), tensors)

    def _write_epoch(self, note: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Save an epoch. `metrics.csv` is only written every few seconds: the resume file holds the rows as well."""
        due = time.perf_counter() - self.synced >= SYNC_SECONDS
        self._write_state(note, tensors, durable=due)
        if due:
            record.write_text(self.dir / record.METRICS, record.metrics_csv(note["rows"]))
            self.synced = time.perf_counter()

    def save(self, tensors: Mapping[str, Tensor], durable: bool) -> None:
        """Write the resume file. `durable` waits for the disk. Raises `TakenOver`."""
        self._write_state(self._note(), tensors, durable)

    def _note(self) -> dict[str, Any]:
        """The note of the resume file, which later epochs do not change."""
        saved = {key: getattr(self, key) for key in SAVED}
        return {"run_id": self.spec.run_id, **saved, "rows": list(self.rows)}

    def _write_state(self, note: Mapping[str, Any], tensors: Mapping[str, Tensor], durable: bool) -> None:
        self.check_unsealed()
        resume.write(self.dir, note, tensors, durable)

    def check_unsealed(self) -> None:
        """Raise `TakenOver` where another process has finished the run, so that nothing is written into its record."""
        if record.is_finished(self.dir):
            raise TakenOver(f"{self.dir}: another process has finished this run")

    def seal(self, weights: Mapping[str, Tensor], summary: Mapping[str, Any], predictions: bytes | None) -> None:
        """Write checkpoint, metrics, test predictions and, last, the summary; delete the resume files."""
        self.check_unsealed()
        cpu = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        record.write_bytes(self.dir / record.CHECKPOINT, save(cpu, {"run_id": self.spec.run_id}))
        record.write_text(self.dir / record.METRICS, record.metrics_csv(self.rows))
        if predictions is None:
            (self.dir / record.PREDICTIONS).unlink(missing_ok=True)
        else:
            record.write_bytes(self.dir / record.PREDICTIONS, predictions)
        record.write_summary(self.dir, summary)
        remove_temporary_files(self.dir)


def is_finite(row: Row) -> bool:
    """Whether all metrics of an epoch that runs are compared by are finite: if not, the run has diverged."""
    return all(math.isfinite(value) for name, value in row.items() if name not in WATCHED)


def remove_temporary_files(folder: Path) -> None:
    """Leave only the record. A kill during a write, or just after the last one, leaves more."""
    for path in (folder / resume.NAME, folder / resume.NEWER, *folder.glob(record.PART + "*")):
        path.unlink(missing_ok=True)


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _id_in(path: Path) -> str:
    try:
        return run_id(load(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, RecursionError) as error:
        raise record.RecordError(f"{path}: cannot be read as a configuration: {error}") from error
