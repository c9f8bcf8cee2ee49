"""Send runs to W&B from their records: epochs as they are written, the whole record at the end of the run."""

import errno
import os
import shlex
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from experiments.files import RecordError, read_json, write_json
from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.server import limit
from experiments.runs.tracking.settings import FOLDER, STUDY_KEY, SYNC, Tracking, token
from experiments.runs.tracking.wandb_run import WandbRun, upload_seconds, wandb_folder
from experiments.study import STUDY, RunSpec, StudyPlan

POLL_SECONDS, RETRY_SECONDS = 1.0, 30.0
STEP_SECONDS = 60.0  # that W&B has for one run; its own time limits are shorter, if it keeps them
MIN_FREE = 2**21  # bytes on the disk; with less, wandb truncates its files and says nothing
NICENESS = 5  # training goes first
MAX_ID = 48  # characters of a run's name in the id of its W&B run: the end, which tells the runs of a folder apart


@dataclass(frozen=True)
class Sent:
    """What W&B has of a run, kept in `note_path`: the id of the W&B run, and the address of its project.

    `sweep`: if an agent has asked for it. `digest`: of the record that W&B has completely; None before.
    """

    id: str
    where: str
    sweep: str | None = None
    digest: str | None = None


def note_path(folder: Path, run: str) -> Path:
    """The file that says what W&B has of a run."""
    return folder / FOLDER / "sent" / f"{run}.json"


def follow(
    folder: Path,
    tracking: Tracking,
    runs: Callable[[], Iterable[str]],
    over: threading.Event,
    alerts: deque[Sequence[str]],
    say: Callable[[str], None],
    hint: str,
) -> None:
    """Send runs as they are trained, until `over` is set; then what is there. After an error it begins again.

    `runs`: the names of the runs so far; one that is named no more is closed, because another process may send it.
    `alerts`: arguments of `Sender.alert`, in the order in which they are sent.
    `say` gets the name of each run that W&B has completely, and, once, the line that says where the runs are and how to
    end this, the `hint`, and the one of an error.
    """
    os.nice(NICENESS)
    done, told = set[str](), set[str]()

    def say_once(kind: str, line: str) -> None:
        if kind not in told:
            told.add(kind)
            say(line)

    while True:
        is_last = False
        try:
            with server.wandb_in_use():
                sender = Sender(folder, tracking)
                say_once("place", f"runs are mirrored to Weights & Biases {sender.place}; {hint}")
                while not is_last:
                    is_last = over.wait(POLL_SECONDS)
                    named = list(runs())
                    for run in [run for run in dict.fromkeys([*named, *sender.open]) if run not in done]:
                        try:
                            if sender.send(run) is not None:
                                done.add(run)
                                say(run)
                            elif run not in named:
                                sender.close(run)
                        except RecordError as error:
                            say_once(run, f"{run}: is not sent ({error})")
                    while alerts:
                        sender.alert(*alerts[0])
                        alerts.popleft()
                return sender.close()
        except server.Unreachable as error:
            say_once("error", f"W&B cannot be used ({error}); training goes on")
        if over.wait(RETRY_SECONDS):
            return


class Sender:
    """Sends runs of a folder to a project in W&B, or to the disk. For the body of `wandb_in_use`."""

    def __init__(self, folder: Path, tracking: Tracking) -> None:
        os.environ.setdefault("WANDB_DATA_DIR", str(folder / FOLDER))  # else wandb keeps artifacts in the home folder
        self.folder, self.agent = folder, tracking.agent
        with limit(STEP_SECONDS):
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

    def alert(self, run: str, level: str, title: str, text: str) -> None:
        """Have W&B alert the user, beside the W&B run of a run. Offline there is nobody to do so."""
        if self.mode != "online":
            return
        with limit(STEP_SECONDS):
            self._open(run)
            self.open[run].run.alert(title, text, level)
            if record.is_finished(self.folder / run):
                self.open.pop(run).end(record.read_summary(self.folder / run)["status"])

    @property
    def place(self) -> str:
        """Where the runs are, in words."""
        if self.mode == "online":
            return f"at {self.where}"
        return f"offline, in {wandb_folder(self.folder)}; send them with `{SYNC} {shlex.quote(str(self.folder))}`"

    def close(self, *runs: str) -> None:
        """Close runs that have not ended: these, or all."""
        with limit(STEP_SECONDS):
            for run in runs or list(self.open):
                self.open.pop(run).stop()

    def _complete(self, run: str) -> bool:
        planned = self._plan(run)
        whole = record.read_run(self.folder / run, run_id=planned.run_id if planned else None)
        note, digest = self._note(run), whole.summary["digest"]
        is_closed = run not in self.open  # an open one would be closed later, over what another process has sent
        if is_closed and note.digest == digest and (self.mode != "online" or self._digests.get(note.id) == digest):
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
        if self.mode == "offline":  # written from its first epoch: it replaces what an interruption left
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
            noted = Sent(**read_json(note_path(self.folder, run)))
        except (RecordError, TypeError):
            noted = None
        if noted is None or noted.where != self.where:
            noted = Sent(f"{run[-MAX_ID:]}-{token(self.folder)}", self.where)
        if self.agent and self.agent.id != noted.id:
            noted = Sent(self.agent.id, self.where, self.agent.sweep)
            self._write(run, noted)
        return noted

    def _write(self, run: str, note: Sent) -> None:
        path = note_path(self.folder, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(note))

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
