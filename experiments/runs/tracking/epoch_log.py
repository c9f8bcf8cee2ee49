"""The epoch log of a run, STUDY/wandb/epochs/RUN.jsonl: what W&B gets of a run in training. It imports no wandb, no torch.

The first line says what the run is, each further line is an epoch: its row of metrics.csv, and its speed, which
the record does not hold. The last line says that the run has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.runs import record
from experiments.runs.tracking.settings import FOLDER, Tracking
from experiments.study import RunSpec

Row = Mapping[str, float]
SECONDS, PACE = "speed/epoch_seconds", "speed/images_per_second"
# Of an epoch: device time, divided by the runs of the stack; training images a second of it.


@dataclass(frozen=True)
class RunInfo:
    """What W&B shows of a run from its start on. `cost`: parameters and FLOPs. `epochs`: planned. `pid`: of its process."""

    run: str
    run_id: str
    variant: str
    study: str
    levels: Mapping[str, Any]
    config: Mapping[str, Any]
    cost: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None
    pid: int | None = None

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config["seed"]

    @property
    def epochs(self) -> int:
        """The number of planned epochs."""
        return self.config["train"]["epochs"]


def path_of(study_dir: Path, run: str) -> Path:
    """The epoch log of a run."""
    return study_dir / FOLDER / "epochs" / f"{run}.jsonl"


class EpochLog:
    """Writes the epoch log of a run. Without a path, and after an error, every call does nothing."""

    def __init__(self, path: Path | None = None, images: int = 0) -> None:
        self.path, self.images, self.device_seconds = path, images, 0.0

    @classmethod
    def start(
        cls,
        tracking: Tracking,
        spec: RunSpec,
        run_dir: Path,
        *,
        rows: Iterable[Row],
        device_seconds: float,
        images: int,
        cost: Mapping[str, Any],
        commit: str | None,
    ) -> EpochLog:
        """Start the log of a run with the rows that its record holds already. Raises nothing.

        `device_seconds`: the time of these rows. `images`: training images of an epoch.
        """
        log = cls(path_of(run_dir.parent, spec.name), images)
        log.device_seconds = device_seconds
        config = spec.config.model_dump()
        info = RunInfo(
            spec.name, spec.run_id, spec.variant, tracking.study, dict(spec.levels), config, cost, commit, os.getpid()
        )
        try:
            assert log.path is not None
            old = {row["epoch"]: row for row in read(log.path).rows} if log.path.exists() else {}
            lines = [{"session": tracking.session, "info": asdict(info)}]
            lines += [{"row": {**old.get(row["epoch"], {}), **row}} for row in rows]
            log.path.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(log.path, "".join(json.dumps(line) + "\n" for line in lines))
        except (OSError, record.RecordError, ValueError):
            log.path = None
        return log

    def add(self, row: Row, device_seconds: float) -> None:
        """Add an epoch. `device_seconds`: of all epochs so far."""
        seconds, self.device_seconds = device_seconds - self.device_seconds, device_seconds
        speed = {SECONDS: seconds, PACE: self.images / seconds} if seconds > 0 else {}
        self._append({"row": {**row, **speed}})

    def end(self) -> None:
        """Say that the record of the run is complete."""
        self._append({"ended": True})

    def keep_pictures(self, take: Callable[[], bytes]) -> None:
        """Keep the pictures that W&B gets, see `pictures`. An error leaves them out: the run matters more."""
        if self.path is not None:
            with contextlib.suppress(Exception):
                path = pictures_of(self.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                record.write_bytes(path, take(), durable=False)

    def _append(self, line: Mapping[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:
            self.path = None  # the record has the row; the mirror reads it there


def pictures_of(epoch_log: Path) -> Path:
    """The file of a run's pictures, which belongs to its epoch log."""
    return epoch_log.parent.with_name("pictures") / f"{epoch_log.stem}.npz"


@dataclass
class Entries:
    """The content of an epoch log. `rows`: in order of the epochs. `offset`: bytes read so far."""

    session: str = ""
    info: RunInfo | None = None
    epochs: dict[float, dict[str, float]] = field(default_factory=dict)
    ended: bool = False
    offset: int = 0
    inode: int = 0

    @property
    def rows(self) -> list[dict[str, float]]:
        """The epochs in order."""
        return [self.epochs[epoch] for epoch in sorted(self.epochs)]


def read(path: Path, known: Entries | None = None) -> Entries:
    """Read an epoch log, or what was added to it since it was read as `known`. An incomplete last line is left out.

    Raises `OSError` where there is none, `ValueError` where it is damaged.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        entries = known or Entries()
        if entries.inode != status.st_ino or status.st_size < entries.offset:
            entries = Entries(inode=status.st_ino)  # the run was started again
        file.seek(entries.offset)
        body = file.read()
    body = body[: body.rfind(b"\n") + 1]
    entries.offset += len(body)
    for text in body.splitlines():
        try:
            _add_line(entries, json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}: is damaged ({error})") from error
    return entries


def _add_line(entries: Entries, line: Mapping[str, Any]) -> None:
    if "info" in line:
        entries.session, entries.info = line["session"], RunInfo(**line["info"])
    elif "row" in line:
        entries.epochs[line["row"]["epoch"]] = line["row"]
    else:
        entries.ended = True
