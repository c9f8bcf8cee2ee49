"""What a worker does with runs, whichever engine it lives in: train them, and tell what happens."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from experiments.config import override
from experiments.errors import UserError
from experiments.files import RecordError, check_own, open_own
from experiments.locks import lock_runs
from sweeps.engines.contract import Done, Epoch, Event, Failed, Slot, Task

if TYPE_CHECKING:
    import torch

    from experiments.compared import RunSpec
    from experiments.config import RunConfig
    from experiments.data.images import Splits

DOWNLOAD = "VIT_DOWNLOAD"  # in the environment: 1 where the user, and not only a study, says `data.download`
MAX_REASON = 500  # characters of an error in one line
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # of a disk to which no run can be written


def redirect_output(task: Task) -> None:
    """Send what this process prints to the log. Raises `UserError` where it cannot be written."""
    try:
        log = open_own(task.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise UserError(f"out: '{task.log}' cannot be written: {error.strerror}") from error
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())


class Training:
    """Trains runs in this process. It keeps the last two datasets, which runs with equal data share."""

    def __init__(self, task: Task, slot: Slot) -> None:
        self.task, self.slot = task, slot
        self._kept: dict[Any, Splits] = {}
        if slot.threads:
            os.environ["OMP_NUM_THREADS"] = str(slot.threads)  # before torch is imported
            import torch

            torch.set_num_threads(slot.threads)

    def train(self, runs: Sequence[RunSpec], send: Callable[[Event], None], answer: Callable[[], bool]) -> bool:
        """Train runs as one cohort, and send what happens. Returns whether this process may train others: not after an
        error.

        `answer`: whether the run of the epoch that was just sent is pruned; called where the task asks.
        """
        from experiments.runs.run import train

        def on_row(index: int, row: dict[str, float]) -> bool:
            send(Epoch(index, row))
            return self.task.asks and answer()

        try:
            runs = list(map(_without_download, runs))
            if self.task.asks:
                self._ask_again(runs[0], on_row)
            summaries = train(
                runs, self.task.folder, device=self.slot.device, on_row=on_row, load=self._load, test=self.task.test
            )
        except BaseException as error:
            send(failure(error))
            return False
        send(Done([run.name for run, summary in zip(runs, summaries, strict=True) if summary is None]))
        return True

    def _load(self, config: RunConfig, device: torch.device) -> Splits:
        """The splits of a run's dataset on the device. Raises `UserError`."""
        from experiments.data import loading

        key = config.data, config.split_seed, config.model.patch_size  # patches may be shuffled
        if key not in self._kept:
            for old in list(self._kept)[:-1]:
                del self._kept[old]
            self._kept[key] = loading.load(config).to(device)
        return self._kept[key]

    def _ask_again(self, run: RunSpec, on_row: Callable[[int, dict[str, float]], bool]) -> None:
        """Ask about the last epoch of an interrupted run, whose answer may be lost. A run to prune is noted as such."""
        from experiments.runs import resume
        from experiments.runs.run import LOCK_SECONDS

        folder = self.task.folder / run.name
        with lock_runs(self.task.folder, [run.name], LOCK_SECONDS) as locked:
            note, state = (resume.read(check_own(folder)) if locked else None) or ({"rows": []}, {})
            if note["rows"] and note["status"] == "running" and on_row(0, note["rows"][-1]):
                resume.write(folder, {**note, "status": "pruned"}, state)


def _without_download(run: RunSpec) -> RunSpec:
    """The run without `data.download`, which its study states, unless the user has said so, too."""
    if os.environ.get(DOWNLOAD) == "1" or not run.config.data.download:
        return run
    return run.configured(override(run.config, {"data.download": False}))


def failure(error: BaseException) -> Failed:
    """What a worker tells of an error. The user can mend bad input and a full disk; a record's error is of one run."""
    is_full = any(isinstance(fault, OSError) and fault.errno in FULL for fault in (error, error.__cause__))
    users = is_full or (isinstance(error, UserError) and not isinstance(error, RecordError))
    line = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_REASON]
    return Failed(str(error) if users else line, "".join(traceback.format_exception(error)), users)
