"""Send runs to W&B from their records: epochs as they are written, the whole record at the end of the run."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path

from experiments.files import RecordError, read_json, write_json
from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.process import limit, tell
from experiments.runs.tracking.settings import FOLDER, STUDY_KEY, Tracking, token
from experiments.runs.tracking.wandb_run import WandbRun, upload_seconds, wandb_folder
from experiments.study import STUDY, RunSpec, StudyPlan

POLL_SECONDS = 1.0
STEP_SECONDS = 60.0  # that W&B has for one run; its own time limits are shorter, if it keeps them
MIN_FREE = 2**21  # bytes on the disk; with less, wandb truncates its files and says nothing
NICENESS = 5  # training goes first
MAX_ID = 48  # characters of a run's name in the id of its W&B run: the end, which tells the runs of a folder apart


@dataclass(frozen=True)
class Sent:
    """What W&B has of a run, kept in STUDY/wandb/sent/RUN.json: the id of the W&B run, and the address of its project.

    `sweep`: if an agent has asked for it. `digest`: of the record that W&B has completely; None before.
    """

    id: str
    where: str
    sweep: str | None = None
    digest: str | None = None


def follow(pipe: Connection, folder: Path, tracking: Tracking, runs: Sequence[str] = ()) -> None:
    """Send these runs, and those that the command names, until it says None or dies; then what is there.

    The work of a `WandbProcess`. It tells ("where", place of the runs) and, for each run that W&B has completely, ("run",
    name, whether it was new). Raises whatever wandb raises; the next process sends what this one did not.
    """
    os.nice(NICENESS)
    os.environ.setdefault("WANDB_DATA_DIR", str(folder / FOLDER))  # else wandb keeps artifacts in the home folder
    waiting, has_ended = list(runs), threading.Event()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while (run := pipe.recv()) is not None:
                waiting.append(run)
        has_ended.set()

    threading.Thread(target=listen, daemon=True).start()
    with limit(STEP_SECONDS):
        sender = Sender(folder, tracking)
    tell(pipe, "where", sender.where)
    is_last = False
    while not is_last:
        is_last = has_ended.wait(POLL_SECONDS)
        for run in list(waiting):
            if (is_new := sender.send(run)) is not None:
                waiting.remove(run)
                tell(pipe, "run", run, is_new)
    with limit(STEP_SECONDS):
        sender.close()


class Sender:
    """Sends runs of a folder to a project in W&B, or to the disk."""

    def __init__(self, folder: Path, tracking: Tracking) -> None:
        self.folder, self.agent = folder, tracking.agent
        self.mode, self.project = server.wandb_mode(tracking.mode), server.project(tracking.project)
        self.entity, self.where = tracking.entity, self.mode
        if self.mode == "online":
            self.entity = server.probe(tracking.entity)
            self.where = f"{server.base_url()}/{self.entity}/{self.project}"
        self.open: dict[str, WandbRun] = {}
        self.read: dict[str, int] = {}  # run -> the time of the metrics file when it was read
        self.study, self.planned = "", dict[str, RunSpec]()  # of study.json, if there is one

    def send(self, run: str) -> bool | None:
        """Send what is new of a run. None if it has not ended; else whether W&B lacked anything."""
        run_dir = self.folder / run
        if record.is_finished(run_dir):
            with limit(STEP_SECONDS + upload_seconds(run_dir)):
                return self._complete(run)
        if (run_dir / record.CONFIG).exists():
            with limit(STEP_SECONDS):
                self._open(run)
                metrics = run_dir / record.METRICS
                changed = metrics.stat().st_mtime_ns if metrics.exists() else 0
                if changed != self.read.get(run, 0):
                    self.read[run] = changed
                    self.open[run].add(record.read_rows(metrics))
        return None

    def close(self) -> None:
        """Close the runs that have not ended."""
        import wandb

        for opened in self.open.values():
            opened.stop()
        wandb.teardown()  # until then the file of an offline run may lack its last lines

    def _complete(self, run: str) -> bool:
        planned = self._plan(run)
        whole = record.read_run(self.folder / run, run_id=planned.run_id if planned else None)
        note, digest = self._note(run), whole.summary["digest"]
        if note.digest == digest and (self.mode != "online" or self._digests.get(note.id) == digest):
            return False
        self._open(run)
        self.open.pop(run).complete(whole)
        self._write(run, replace(note, digest=digest))
        return True

    def _open(self, run: str) -> None:
        if run in self.open:
            return
        folder = wandb_folder(self.folder)
        if shutil.disk_usage(folder if folder.exists() else self.folder).free < MIN_FREE:
            raise OSError(errno.ENOSPC, f"no space left for {folder}")
        note, planned = self._note(run), self._plan(run)
        # An offline run is written from its first epoch, so what an interrupted session wrote of it is not needed.
        for earlier in folder.glob(f"offline-run-????????_??????-{note.id}"):
            shutil.rmtree(earlier)
        place = {"mode": self.mode, "project": self.project, "entity": self.entity, "id": note.id}
        self.open[run] = WandbRun(self.folder / run, self.study if planned else "", planned, note.sweep, place)

    def _plan(self, run: str) -> RunSpec | None:
        """A run of the study's plan, which is read again for a run that it lacks."""
        if run not in self.planned and (self.folder / STUDY).is_file():
            plan = StudyPlan.read(self.folder)
            self.study, self.planned = plan.name, {planned.name: planned for planned in plan.runs}
        return self.planned.get(run)

    def _note(self, run: str) -> Sent:
        """The W&B run of a run in this project: that of the agent, the one that was noted, or a new one."""
        try:
            noted = Sent(**read_json(self._path(run)))
        except (RecordError, TypeError):
            noted = None
        if noted is None or noted.where != self.where:
            noted = Sent(f"{run[-MAX_ID:]}-{token(self.folder)}", self.where)
        if self.agent and self.agent.id != noted.id:
            noted = Sent(self.agent.id, self.where, self.agent.sweep)
            self._write(run, noted)
        return noted

    def _write(self, run: str, note: Sent) -> None:
        self._path(run).parent.mkdir(parents=True, exist_ok=True)
        write_json(self._path(run), asdict(note))

    def _path(self, run: str) -> Path:
        return self.folder / FOLDER / "sent" / f"{run}.json"

    @cached_property
    def _digests(self) -> dict[str, str]:
        """W&B id -> the digest of the record that the server has, for the runs of the project.

        Runs that an earlier version sent lack the key of their study, by which pages select runs: they are sent again.
        """
        import wandb

        try:
            runs = wandb.Api(timeout=server.ANSWER_SECONDS).runs(f"{self.entity}/{self.project}", lazy=False)
            return {run.id: run.summary.get("digest") for run in runs if STUDY_KEY in run.config}
        except (ValueError, wandb.errors.Error):  # there is no such project yet
            return {}
