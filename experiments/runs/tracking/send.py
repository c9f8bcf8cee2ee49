"""The process that sends runs to W&B from their records: epochs as they are written, the whole record at its end.

It reads a `Tracking` with a folder, then the names of runs, until its input is closed. Then it sends what is there and
ends. After an error it ends; the next process sends what this one did not.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from experiments.runs import record
from experiments.runs.tracking import child, sent, server
from experiments.runs.tracking.child import Tell, limit
from experiments.runs.tracking.sent import Sent
from experiments.runs.tracking.settings import FOLDER, STUDY_KEY, Tracking
from experiments.runs.tracking.wandb_run import WandbRun, upload_seconds, wandb_parent
from experiments.study import STUDY, StudyPlan

POLL_SECONDS = 1.0
STEP_SECONDS = 60.0  # that W&B has for one run; its own time limits are shorter, if it keeps them
MIN_FREE = 2**21  # bytes on the disk; with less, wandb truncates its files and says nothing
NICENESS = 5  # training goes first
OFFLINE = "offline"  # the place of runs that are written to the disk


def start(folder: Path, tracking: Tracking) -> subprocess.Popen[str]:
    """Start the process."""
    return child.start("experiments.runs.tracking.send", {"folder": str(folder), "tracking": asdict(tracking)})


class Sender:
    """Sends runs of a folder. Raises whatever wandb raises."""

    def __init__(self, folder: Path, tracking: Tracking, tell: Tell) -> None:
        self.folder, self.tell, self.agent = folder, tell, tracking.agent
        self.mode = server.wandb_mode(tracking.mode)
        self.project, self.entity, self.where = server.project(tracking.project), tracking.entity, OFFLINE
        if self.mode == "online":
            self.entity = server.probe(tracking.entity)
            self.where = f"{server.base_url()}/{self.entity}/{self.project}"
        self.waiting: list[str] = []
        self.closed = threading.Event()
        self.open: dict[str, WandbRun] = {}
        self.read: dict[str, int] = {}  # run -> the time of the metrics file when it was read
        self.plan: StudyPlan | None = None
        self.plan_time = 0  # of study.json when it was read

    def listen(self) -> None:
        """Take the names of runs, until the input is closed."""
        while name := sys.stdin.readline():
            self.waiting.append(name.strip())
        self.closed.set()

    def work(self) -> None:
        """Send what is new, again and again; once more after the input is closed."""
        while True:
            is_last = self.closed.wait(POLL_SECONDS)
            for run in list(self.waiting):
                self._send(run)
            if is_last:
                break
        for opened in self.open.values():
            with limit(STEP_SECONDS, self.tell):
                opened.stop()

    def _send(self, run: str) -> None:
        folder = self.folder / run
        if record.is_finished(folder):
            with limit(STEP_SECONDS + upload_seconds(folder), self.tell):
                self._complete(run)
            self.waiting.remove(run)
        elif self.mode == "online" and (folder / record.CONFIG).exists():  # offline, a run is written at its end
            with limit(STEP_SECONDS, self.tell):
                self._open(run)
                self._add_new(run)

    def _add_new(self, run: str) -> None:
        path = self.folder / run / record.METRICS
        changed = path.stat().st_mtime_ns if path.exists() else 0
        if changed != self.read.get(run, 0):
            self.read[run] = changed
            self.open[run].add(record.read_rows(path))

    def _complete(self, run: str) -> None:
        plan = self._plan()
        planned = next((one.run_id for one in plan.runs if one.name == run), None) if plan else None
        whole = record.read_run(self.folder / run, run_id=planned)
        note, digest = self._note(run), whole.summary["digest"]
        is_new = note.digest != digest or (self.mode == "online" and self._digests.get(note.id) != digest)
        if is_new:
            self._open(run)
            self.open.pop(run).complete(whole)
            sent.write(self.folder, run, replace(note, digest=digest))
        self.tell(run=run, new=is_new)

    def _open(self, run: str) -> None:
        if run in self.open:
            return
        folder = wandb_parent(self.folder) / FOLDER
        if shutil.disk_usage(folder if folder.exists() else self.folder).free < MIN_FREE:
            raise OSError(errno.ENOSPC, f"no space left for {folder}")
        plan, note = self._plan(), self._note(run)
        self.open[run] = WandbRun(self.folder / run, plan, note, self.mode, self.project, self.entity)

    def _plan(self) -> StudyPlan | None:
        """The study's plan, if there is one. It is read again when it has changed: a long one takes a second."""
        path = self.folder / STUDY
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        if changed != self.plan_time:
            self.plan, self.plan_time = StudyPlan.read(self.folder) if changed else None, changed
        return self.plan

    def _note(self, run: str) -> Sent:
        note = sent.read(self.folder, run, self.where)
        if self.agent and self.agent.id != note.id:
            note = Sent(self.agent.id, self.where, self.agent.sweep)
            sent.write(self.folder, run, note)
        return note

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


def work(task: dict[str, Any], tell: Tell) -> None:
    """Do the task."""
    os.nice(NICENESS)
    folder, tracking = Path(task["folder"]), TypeAdapter(Tracking).validate_python(task["tracking"])
    os.environ.setdefault("WANDB_DATA_DIR", str(folder / FOLDER))  # else wandb keeps artifacts in the home folder
    with limit(STEP_SECONDS, tell):
        sender = Sender(folder, tracking, tell)
    tell(where=sender.where, folder=str(wandb_parent(folder) / FOLDER))
    threading.Thread(target=sender.listen, daemon=True).start()
    sender.work()
    if sender.mode != "online":
        import wandb

        with limit(STEP_SECONDS, tell):
            wandb.teardown()  # until then a file may lack its last lines


if __name__ == "__main__":
    child.serve(work)
