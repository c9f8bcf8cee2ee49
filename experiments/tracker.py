"""Send runs to Weights & Biases: a thread beside training, and what `vit-sweep sync` sends from the records."""

from __future__ import annotations

import json
import os
import queue
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from experiments.compared import RunSpec
from experiments.errors import UserError, plural, say
from experiments.files import check_name, delete_folders, own_folder, write_json
from experiments.metric import METRICS, last_and_best
from experiments.runs import record, resume
from experiments.study import STUDY, Study
from experiments.tracking import (
    ANSWER_SECONDS,
    FOLDER,
    STUDY_KEY,
    TRIAL,
    Tracking,
    check_settings,
    kill_wandb,
    note_path,
    place,
    project,
    read_note,
    study_key,
    token,
    wandb_in_use,
)
from experiments.version import code, remote

END_SECONDS = 10.0  # that the end of a command waits for W&B
BYTES_PER_SECOND = 250_000  # the slowest upload of a checkpoint that is waited for
MAX_TAG = 64  # characters, a limit of W&B
INTERRUPTED = 255  # the exit code of a run that was stopped; W&B shows it as failed
NOT_IN_SUMMARY = ("files", "schema", "provenance")
SETTINGS = {
    **{"init_timeout": ANSWER_SECONDS, "finish_timeout": ANSWER_SECONDS, "finish_timeout_raises": True},
    **{"silent": True, "console": "off", "x_transaction_log_flush_interval": 1, "x_save_requirements": False},
    **{"program": "vit-ablation", "use_dot_wandb": False, "stop_fn": lambda: None},  # else it interrupts the command
}
Row = Mapping[str, float]


@dataclass
class Tracker:
    """Sends the runs of a command to W&B while it is open, from a thread: training never waits for it.

    The first error ends tracking with one line. Only the end of the command waits, for at most `END_SECONDS`. `show`
    prints a line; None: to standard error.
    """

    tracking: Tracking
    folder: Path
    show: Callable[[str], None] | None = None

    def __enter__(self) -> Self:
        self.items: queue.SimpleQueue[Callable[[Sender], None] | None] = queue.SimpleQueue()
        self.left = dict[str, None]()  # ended runs that W&B lacks
        self.is_over = False  # whether nothing is waited for any more
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.sync = f"`vit-sweep sync {shlex.quote(str(self.folder))}`"
        if self.tracking.is_on:
            check_settings()
            self.thread.start()
        return self

    def epoch(self, run: RunSpec, row: Row) -> None:
        """A run has finished an epoch. Returns at once."""
        if self.thread.is_alive():
            self.items.put(lambda sender: sender.epoch(run, row))

    def ended(self, run: RunSpec) -> None:
        """A run has ended with a record. Returns at once."""
        if self.tracking.is_on:
            self.left[run.name] = None
            self.items.put(lambda sender: self._complete(sender, run))

    def __exit__(self, *_: object) -> None:
        if not self.tracking.is_on:
            return
        self.items.put(None)
        try:
            self.thread.join(END_SECONDS)
        finally:  # also after a second Ctrl-C
            self.is_over = True
            if self.thread.is_alive():
                kill_wandb()
                self.thread.join(1.0)
        if self.left:
            self._show(f"W&B lacks {plural(len(self.left), 'run')}; {self.sync} sends them")

    def _send(self) -> None:
        """The thread: send what is in the queue. Before the first item, no server is asked and nothing is written."""
        if (send := self.items.get()) is None:
            return
        try:
            with wandb_in_use():
                sender = Sender(self.folder, self.tracking)
                self._show(f"runs are mirrored to Weights & Biases: {sender.where}")
                while send is not None:
                    send(sender)
                    send = self.items.get()
                sender.close()
        except UserError as error:
            if not self.is_over:
                self._show(f"{error}; training goes on")

    def _complete(self, sender: Sender, run: RunSpec) -> None:
        sender.complete(run.name)
        self.left.pop(run.name, None)

    def _show(self, line: str) -> None:
        (self.show or partial(say, error=True))(f"tracking: {line}")


@dataclass
class OpenRun:
    """A W&B run that is open, the note of it (see `read_note`), its study, and the epochs that were sent."""

    run: Any
    note: dict[str, str]
    study: str
    epochs: list[Row] = field(default_factory=list)

    def log(self, rows: Sequence[Row]) -> None:
        """Send those of these epochs that come after what was sent in this session. W&B drops those that it has."""
        for row in rows:
            if not self.epochs or row["epoch"] > self.epochs[-1]["epoch"]:
                self.run.log(dict(row), step=int(row["epoch"]), commit=True)
                self.epochs.append(row)
        self.run.summary.update(last_and_best(self.epochs))

    def complete(self, whole: record.RunRecord) -> None:
        """Send the epochs and the results that the record of the ended run holds."""
        self.log(whole.rows)
        summary, cost = whole.summary, whole.summary.get("cost") or {}
        costs = {key: cost[key] for key in ("params", "params_fixed", "flops_per_image") if key in cost}
        self.run.config.update({"run_id": summary["run_id"], **costs}, allow_val_change=True)
        others = {key: value for key, value in summary.items() if key not in (*NOT_IN_SUMMARY, *whole.rows[-1])}
        self.run.summary.update({**others, **last_and_best(whole.rows)})

    def upload(self, whole: record.RunRecord) -> None:
        """Send the files as an artifact: the bytes that have the record's digests.

        The same files again are the same version of it. Returns when the server has everything.
        """
        import wandb

        files, summary = whole.summary["files"], whole.summary
        artifact, size = wandb.Artifact(f"record-{self.run.id}", "model", metadata={"run_id": summary["run_id"]}), 0
        for name, digest in files.items():
            with artifact.new_file(name, mode="wb", policy="immutable") as file:
                size += file.write(record.read_bytes(whole.dir / name, digest))
        with artifact.new_file(record.SUMMARY, encoding="utf-8", policy="immutable") as file:
            file.write(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")  # as it was written
        aliases = [summary["status"], f"s{whole.config['seed']}", self.study]
        allowed = [re.sub(r"[^A-Za-z0-9_.-]", "-", alias) for alias in aliases if alias]
        self.run.log_artifact(artifact, aliases=allowed).wait(timeout=ANSWER_SECONDS + size // BYTES_PER_SECOND)


class Sender:
    """Sends runs of a folder to a project in W&B, or to the disk; in the body of `wandb_in_use`.

    The same run again is the same W&B run. `where`: the project's address, or "offline". Raises whatever wandb raises;
    after an error it cannot be used any more.
    """

    def __init__(self, folder: Path, tracking: Tracking) -> None:
        self.folder, self.agent, self.open = folder, tracking.agent, dict[str, OpenRun]()
        self.is_online = tracking.wandb_mode == "online"
        offline = (tracking.entity, project(tracking.project), "offline")
        self.entity, self.project, self.where = place(tracking) if self.is_online else offline
        self.study, self.planned = "", dict[str, RunSpec]()  # of study.json, if there is one

    def epoch(self, run: RunSpec, row: Row) -> None:
        """Send an epoch. Before the first one of a resumed run, those that an interruption may have lost are sent."""
        rows = [row]
        if run.name not in self.open:
            rows = [*_rows_before(self.folder / run.name, row), row]
            if len(rows) < row["epoch"]:
                return  # the run has ended meanwhile: its record has all rows
            self._open(run.name, run.run_id, run.config.model_dump())
        self.open[run.name].log(rows)

    def complete(self, run: str) -> None:
        """Send what W&B lacks of the record of an ended run. Raises `UserError` where the record cannot be used."""
        run_dir, planned = self.folder / check_name(run, "run"), self._plan(run)
        summary = record.read_summary(run_dir, planned.run_id if planned else None)
        if run not in self.open and self._note(run).get("digest") == summary["digest"]:
            return
        whole = record.read_run(run_dir)
        if run not in self.open:
            self._open(run, summary["run_id"], whole.config, summary.get("provenance"))
        sent = self.open.pop(run)
        sent.complete(whole)
        if self.is_online:
            sent.upload(whole)
        sent.run.finish(exit_code=int(summary["status"] == "diverged"))
        write_json(note_path(self.folder, run), {**sent.note, "digest": summary["digest"]})

    def close(self) -> None:
        """Close the W&B runs of runs that have not ended; another command goes on with them."""
        for sent in self.open.values():
            sent.run.finish(exit_code=INTERRUPTED)

    def _plan(self, run: str) -> RunSpec | None:
        """A run of the study's plan, which is read again for a run that it lacks."""
        if run not in self.planned and (self.folder / STUDY).is_file():
            plan = Study.read(self.folder)
            self.study, self.planned = plan.name, {planned.name: planned for planned in plan.runs}
        return self.planned.get(run)

    def _note(self, run: str) -> dict[str, str]:
        """The note of a run in this project: that of the agent's W&B run, the one in the folder, or a new one."""
        note = read_note(self.folder, run)
        if self.agent and note.get("id") != self.agent["id"]:
            return {**self.agent, "where": self.where}
        return note if note.get("where") == self.where else {"where": self.where}

    def _open(self, run: str, run_id: str, config: dict[str, Any], origin: dict[str, Any] | None = None) -> None:
        """Open the W&B run of a run. `origin`: the provenance of a run that has ended."""
        import wandb

        new_id = f"{run_id}-{token(self.folder)}"
        note = {"id": new_id, **self._note(run)}
        own_folder(self.folder / FOLDER)
        own_folder(note_path(self.folder, run).parent)
        write_json(note_path(self.folder, run), note)  # at once: who goes on with the run sends it there, too
        root = Path(os.environ.get("WANDB_DIR") or self.folder)
        if not self.is_online:  # written from its first epoch: it replaces what an interruption left
            mine = re.escape(self.agent["id"] if self.agent else new_id)  # not an id of a note, which may be forged
            delete_folders(root / FOLDER, rf"offline-run-\d{{8}}_\d{{6}}-{mine}")
        kind, planned, is_trial = config["model"]["pos_embed"], self._plan(run), (self.folder / record.TRIALS).exists()
        variant, levels, study = (planned.variant, planned.levels, self.study) if planned else (kind, {}, "")
        tags = [study, config["data"]["name"], kind, *os.environ.get("WANDB_TAGS", "").split(",")]
        key = study_key(study, self.folder) if planned or is_trial else ""
        # The commit of this project's code; wandb would take the repository that the output folder lies in.
        commit = (origin or code()).get("commit")
        git = {"git_commit": commit, "git_remote_url": remote() if commit else None, "disable_git": commit is None}
        opened = wandb.init(
            entity=self.entity,
            project=self.project,
            mode="online" if self.is_online else "offline",
            id=note["id"],
            dir=str(root),
            name=f"{variant} s{config['seed']}",
            group=variant,
            job_type=TRIAL if is_trial else "run",
            tags=list(dict.fromkeys(tag.strip()[:MAX_TAG] for tag in tags if tag.strip())),
            config={**config, "run": run, "variant": variant, "levels": levels, STUDY_KEY: key},
            resume="allow",
            reinit="create_new",
            # In the environment, the sweep would make `init` ignore the id, project and entity.
            settings=wandb.Settings(**SETTINGS, **git, sweep_id=note.get("sweep")),
        )
        # In every session: one that defines nothing forgets what the last one defined, and the best values with it.
        opened.define_metric("epoch")
        opened.define_metric("*", step_metric="epoch", step_sync=False)
        for name in METRICS:
            opened.define_metric(name, step_metric="epoch", summary="none")
        self.open[run] = OpenRun(opened, note, study)


def _rows_before(run_dir: Path, row: Row) -> list[Row]:
    """The epochs of a run in training before this one; none where they cannot be read."""
    if row["epoch"] == 1:
        return []
    return [earlier for earlier in resume.noted(run_dir, "rows", []) if earlier["epoch"] < row["epoch"]]
