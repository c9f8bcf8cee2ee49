"""Send runs to W&B from their records: epochs as they are written, the whole record at the end of the run."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from experiments.errors import UserError
from experiments.files import check_name, check_own, check_own_file, delete_folders, own_folder, write_json
from experiments.locks import lock
from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.notes import FOLDER, Sent, note_path, read_note, token
from experiments.runs.tracking.settings import Tracking
from experiments.runs.tracking.wandb_run import WandbRun
from experiments.study import STUDY, RunSpec, StudyPlan

MAX_ID = 48  # characters of a run's name in the id of its W&B run: the end, which tells the runs of a folder apart


FOLDERS = ("", "sent", "locks")  # in STUDY/wandb


def check_wandb_folder(folder: Path) -> None:
    """Raise `UserError` where wandb would write elsewhere than to STUDY/wandb, or take settings from the folder."""
    for name in (*FOLDERS, "artifacts", "artifacts/staging"):
        check_own(folder / FOLDER / name)
    for path in (folder / FOLDER / "settings", folder / ".wandb"):
        if os.path.lexists(path):
            raise UserError(f"{path}: would be used by wandb, and may name another server; move it away")


class Sender(AbstractContextManager["Sender"]):
    """Sends runs of a folder to a project in W&B, or to the disk. A context manager, in the body of `wandb_in_use`.

    It holds the lock of a run while its W&B run is open, so of several processes one sends it. `where`: the project's
    address, or "offline". Raises whatever wandb raises; after an error it cannot be used any more.
    """

    def __init__(self, folder: Path, tracking: Tracking) -> None:
        self.folder, self.agent, self.where = folder, tracking.agent, tracking.wandb_mode
        check_wandb_folder(folder)
        self.dir = Path(os.environ.get("WANDB_DIR") or folder)  # whose folder `wandb` is that of wandb
        os.environ.setdefault("WANDB_DATA_DIR", str(folder / FOLDER))  # else wandb keeps artifacts in the home folder
        self.place = {"mode": self.where, "project": server.project(tracking.project), "entity": tracking.entity}
        if self.where == "online":
            self.place["entity"] = server.probe(tracking.entity)
            self.where = f"{server.base_url()}/{self.place['entity']}/{self.place['project']}"
        self.done, self.open, self.locks = dict[str, None](), dict[str, WandbRun](), dict[str, ExitStack]()
        self.study, self.planned = "", dict[str, RunSpec]()  # of study.json, if there is one

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the W&B runs; another process may go on with those that have not ended."""
        try:
            for run in self.open.values() if kind is None else ():
                run.close()
        finally:
            for held in self.locks.values():
                held.close()

    def send(self, runs: Iterable[str], say: Callable[[str], None]) -> None:
        """Send what is new of these runs. `say` gets a line for a record that cannot be sent."""
        for run in [run for run in runs if run not in self.done]:
            try:
                if self._send(run):
                    self.done[run] = None
            except UserError as error:
                say(f"{run}: is not sent ({error})")

    def _send(self, run: str) -> bool:
        """Send what is new of a run. Whether W&B has all of it now: it has ended, and no other process sends it."""
        run_dir = check_own(self.folder / check_name(run, "its name"))
        if not record.is_finished(run_dir):
            if check_own(run_dir, record.CONFIG).exists():
                check_own_file(run_dir, record.CONFIG)
                if self._open(run, self._note(run)):
                    self.open[run].follow()
            return False
        note = self._note(run)
        planned = self._plan(run)
        whole = record.read_run(run_dir, run_id=planned.run_id if planned else None)
        if run in self.open or note.digest != whole.summary["digest"]:
            whole = record.read_run(run_dir, checkpoint=True, predictions=True)  # all that is sent has its digest
            for name in (record.SUMMARY, *whole.summary["files"]):
                check_own_file(run_dir, name)
            if not self._open(run, note):
                return False
            sent = self.open.pop(run)
            sent.complete(whole)
            if sent.run.id == note.id:  # else an agent has asked for the run meanwhile
                write_json(note_path(self.folder, run), asdict(replace(note, digest=whole.summary["digest"])))
            self.locks.pop(run).close()
        return True

    def alert(self, level: str, title: str, text: str) -> None:
        """Have W&B alert the user, beside a run that was sent. Offline, and without such a run, there is no alert."""
        run = next(iter([*self.open, *self.done]), None)
        if self.place["mode"] == "online" and run and self._open(run, self._note(run)):
            self.open[run].run.alert(title, text, level)

    def _open(self, run: str, note: Sent) -> bool:
        """Open the W&B run of a run. False where another process has it open."""
        if run in self.open:
            return True
        self.locks[run] = ExitStack()
        if not self.locks[run].enter_context(lock(self.folder / FOLDER / "locks" / run)):
            return False
        if self.where == "offline":  # written from its first epoch: it replaces what an interruption left
            mine = self.agent.id if self.agent else self._id(run)
            delete_folders(self.dir / FOLDER, rf"offline-run-\d{{8}}_\d{{6}}-{re.escape(mine)}")
        planned, place = self._plan(run), {**self.place, "id": note.id, "dir": str(self.dir)}
        self.open[run] = WandbRun(self.folder / run, self.study, planned, note.sweep, place)
        return True

    def _plan(self, run: str) -> RunSpec | None:
        """A run of the study's plan, which is read again for a run that it lacks."""
        if run not in self.planned and (self.folder / STUDY).is_file():
            plan = StudyPlan.read(self.folder)
            self.study, self.planned = plan.name, {planned.name: planned for planned in plan.runs}
        return self.planned.get(run)

    def _id(self, run: str) -> str:
        return f"{run[-MAX_ID:]}-{token(self.folder)}"

    def _note(self, run: str) -> Sent:
        """The W&B run of a run in this project: that of the agent, the one that was noted, or a new one.

        The run has begun. STUDY/wandb is made only here, so a command that is refused leaves nothing.
        """
        for name in FOLDERS:
            own_folder(self.folder / FOLDER / name)
        note = read_note(self.folder, run)
        if note is None or note.where != self.where:
            note = Sent(self._id(run), self.where)
        if self.agent and self.agent.id != note.id:  # noted at once: another process that is faster sends it there, too
            note = Sent(self.agent.id, self.where, self.agent.sweep)
            write_json(note_path(self.folder, run), asdict(note))
        return note
