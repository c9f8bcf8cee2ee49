"""The state of a run in training, its folder, opened, saved after each epoch and sealed at the end, and its summary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save
from torch import Tensor

from experiments.compared import RunSpec
from experiments.config import load, run_id
from experiments.data.images import Splits
from experiments.errors import UserError, first_line, writing
from experiments.evaluation.measure import Metrics, after_epoch
from experiments.files import PART, check_own, delete_file, own_folder, write_bytes, write_text
from experiments.metric import Metric
from experiments.runs import provenance, record, resume
from experiments.runs.provenance import source_files
from experiments.training.fit import Row
from experiments.training.stacked import Stacked
from experiments.training.trainer import Solo
from experiments.version import command, now, uncommitted_diff

SYNC_SECONDS = 5.0  # of training that a power cut may cost; waiting for the disk after every short epoch costs more


@dataclass(kw_only=True)
class Saved:
    """What the resume file of a run holds beside its tensors.

    `seconds`: over all sessions. `stacked`: trained in a stack, which rounds differently; None before the first epoch.
    `members`: run ids of its stack; empty for a run that is trained alone. `files`: a hash of the files of its images.
    `measured`: metrics after the epochs in eval.epochs so far. `sessions`: each with its
    first epoch, see `provenance.session`; one like the session before is left out.
    """

    rows: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"device": 0.0, "wall": 0.0})
    started: str = field(default_factory=now)
    status: str = "running"
    stacked: bool | None = None
    members: list[str] = field(default_factory=list)
    files: str = ""
    measured: dict[str, float | None] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True)
class RunState(Saved):
    """A run in training, and the folder it is written to. `tensors`: weights and optimiser state to continue from.

    `clock`: when it would have started, had it never been interrupted. `synced`: when its state last reached the disk.
    """

    spec: RunSpec
    dir: Path
    tensors: dict[str, Tensor] | None = None
    clock: float = 0.0
    synced: float = -math.inf

    @classmethod
    def open(cls, spec: RunSpec, folder: Path) -> RunState:
        """Read what an interrupted run left in its folder; a new state where there is nothing. Writes nothing.

        Raises `RecordError` where the folder holds another run or a file that cannot be read.
        """
        if run_id(spec.config) != spec.run_id:  # this process started later than the one that planned the run
            raise UserError(
                f"plug-in: the source of {spec.config.model.pos_embed!r} or {spec.config.data.name!r} was changed "
                "after the command started; run the command again"
            )
        path = check_own(folder) / record.CONFIG
        if path.exists() and (found_id := run_id(load(record.read_json(path)))) != spec.run_id:
            raise record.RecordError(f"{path}: belongs to run {found_id}, not {spec.run_id}; choose another --out")
        if saved := resume.read(folder):
            note, tensors = saved
            note = {saved.name: note[saved.name] for saved in fields(Saved) if saved.name in note}  # of any version
            try:
                TypeAdapter(Saved).validate_python(note)
            except ValidationError as error:
                raise record.RecordError(f"{folder / resume.NAME}: {first_line(error)}") from error
            run = cls(spec=spec, dir=folder, tensors=tensors, **note)
            run.update_status(prune=run.status == "pruned")  # decided just before the interruption
            return run
        return cls(spec=spec, dir=folder)

    def check_files(self, files: str) -> None:
        """Note the hash of the image files. Raises `UserError` where an interrupted run began with other files."""
        if self.files and self.files != files:
            where = f"data.root: {self.spec.config.data.root!r}"
            raise UserError(
                f"{where}: its files were changed after epoch {len(self.rows)} of {self.dir}; restore them to resume, "
                "or delete that folder to train the run again"
            )
        self.files = files

    def start(self, stacked: bool, members: list[str], session: Mapping[str, Any]) -> None:
        """Make the folder with its configuration, and start the clock. `session`: see `provenance.session`."""
        self.stacked, self.members = stacked, members
        self.clock = time.perf_counter() - self.seconds["wall"]
        with writing(self.dir):
            own_folder(self.dir)
            delete_file(self.dir / record.ERROR)  # of an earlier attempt
            self._write_settings()
            self._add_session(session, uncommitted_diff())

    def _write_settings(self) -> None:
        """Write the configuration and the source of the plug-ins that the run is trained with."""
        record.write_json(self.dir / record.CONFIG, self.spec.config.model_dump())
        for name, body in source_files(self.spec.config).items():
            own_folder(check_own(self.dir, name).parent)
            write_bytes(self.dir / name, body)

    def _add_session(self, session: Mapping[str, Any], diff: bytes) -> None:
        """Add a session; one that saved no epoch is forgotten. The first one keeps its uncommitted changes."""
        first = len(self.rows) + 1
        self.sessions = [before for before in self.sessions if before["epoch"] < first]
        if not self.sessions or {**self.sessions[-1], "epoch": first} != {"epoch": first, **session}:
            self.sessions.append({"epoch": first, **session})
        if first == 1 and diff:
            write_bytes(self.dir / record.DIFF, diff)
        elif first == 1:
            delete_file(self.dir / record.DIFF)  # of a session that is forgotten

    def update_status(self, prune: bool) -> None:
        """Set the status after an epoch. A loss that is not finite means diverged, even for a run that is pruned."""
        if self.rows and not is_finite(self.rows[-1]):
            self.status = "diverged"
        else:
            self.status = "pruned" if prune else "running"

    def add_epoch(self, row: Row, tensors: Mapping[str, Tensor], seconds: float) -> Callable[[], None]:
        """Add an epoch. Returns the function that writes it, which another thread may call during the next epoch."""
        self.rows.append(row)
        self.seconds = {"device": self.seconds["device"] + seconds, "wall": time.perf_counter() - self.clock}
        return partial(self._write_epoch, self._note(), tensors)

    def _write_epoch(self, note: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Save an epoch. `metrics.csv` is only written every few seconds: the resume file holds the rows as well."""
        due = time.perf_counter() - self.synced >= SYNC_SECONDS
        resume.write(self.dir, note, tensors, durable=due)
        if due:
            write_text(self.dir / record.METRICS, record.metrics_csv(note["rows"]))
            self.synced = time.perf_counter()

    def save(self, tensors: Mapping[str, Tensor], durable: bool) -> None:
        """Write the resume file. `durable` waits for the disk."""
        resume.write(self.dir, self._note(), tensors, durable)

    def _note(self) -> dict[str, Any]:
        """The note of the resume file. It is written before the next epoch is added."""
        return {saved.name: getattr(self, saved.name) for saved in fields(Saved)}

    def seal(
        self, weights: Mapping[str, Tensor], summary: Mapping[str, Any], predictions: bytes | None
    ) -> dict[str, Any]:
        """Write settings, checkpoint, metrics, test predictions and, last, the summary; delete the resume file.

        Returns the summary as it was written.
        """
        self._write_settings()  # the files may have been edited during training
        cpu = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        write_bytes(self.dir / record.CHECKPOINT, save(cpu, {"run_id": self.spec.run_id}))
        write_text(self.dir / record.METRICS, record.metrics_csv(self.rows))
        if predictions is None:
            delete_file(self.dir / record.PREDICTIONS)
        else:
            write_bytes(self.dir / record.PREDICTIONS, predictions)
        sealed = record.write_summary(self.dir, summary)
        remove_temporary_files(self.dir)
        return sealed


def is_finite(row: Row) -> bool:
    """Whether the losses of an epoch are finite: if not, the run has diverged. Another metric may not be defined."""
    return all(math.isfinite(value) for name, value in row.items() if Metric(name).is_loss)


def remove_temporary_files(folder: Path) -> None:
    """Leave only the record. A kill during a write, or just after the last one, leaves more."""
    for path in (folder / resume.NAME, *folder.glob(PART + "*")):
        delete_file(path)


UNTESTED: Metrics = {"test/loss": None, "test/acc": None}  # of a run that diverged or was pruned


def summary_of(run: RunState, trainer: Solo | Stacked, splits: Splits, measured: Metrics | None) -> dict[str, Any]:
    """Metrics, images, cost and provenance of a run. `measured`: None for a run that diverged or was pruned."""
    row, config = run.rows[-1], run.spec.config
    at_lengths = run.measured
    if measured and len(run.rows) in config.eval.epochs:
        at_lengths = {**at_lengths, **after_epoch(measured, row)}
    images: dict[str, Any] = {f"{part}_images": len(getattr(splits, part)) for part in ("train", "val", "test")}
    images |= {name: value for name in ("files", "copies") if (value := getattr(splits, name))}
    images |= {"classes": splits.classes, "mean": splits.mean.tolist(), "std": splits.std.tolist()}
    return {
        "run_id": run.spec.run_id,
        "status": "finished" if run.status == "running" else run.status,
        "epochs": len(run.rows),
        **{name: value for name, value in row.items() if name not in ("epoch", "lr")},
        **(measured or UNTESTED),
        **at_lengths,
        "data": images,
        "cost": _cost(run, trainer, len(splits.train)),
        "provenance": {
            **provenance.code(),
            "started": run.started,
            "finished": now(),
            "command": command(),
            "versions": provenance.versions(),
            "hardware": provenance.hardware(trainer.device),
            **provenance.plugin(config),
            **({"sessions": run.sessions} if len(run.sessions) > 1 else {}),
        },
    }


def _cost(run: RunState, trainer: Solo | Stacked, images: int) -> dict[str, Any]:
    """What a run cost, in seconds and bytes. `images`: training images of an epoch."""
    seconds, on_gpu = run.seconds["device"], trainer.device.type == "cuda"
    return {
        **provenance.model_cost(trainer.model),
        "wall_seconds": time.perf_counter() - run.clock,
        "device_seconds": seconds,
        "images_per_second": images * len(run.rows) / seconds,
        "peak_memory_bytes": torch.cuda.max_memory_allocated(trainer.device) if on_gpu else None,
        **({"captured": trainer.captured} if on_gpu else {}),
        "cohort": len(trainer.configs),
        "cohort_runs": [run_id(config) for config in trainer.configs],
    }
