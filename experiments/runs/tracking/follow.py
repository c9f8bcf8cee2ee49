"""Follow the runs that a command trains: send their epochs to W&B, and their records when they have ended."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
from pathlib import Path

from experiments.runs import record
from experiments.runs.tracking import epoch_log, pictures, sent, server
from experiments.runs.tracking.epoch_log import Entries
from experiments.runs.tracking.protocol import (
    EXTRA_SECONDS,
    OTHER_SECONDS,
    Messages,
    Options,
    Watchdog,
    command_for_sync,
)
from experiments.runs.tracking.settings import FOLDER, token
from experiments.runs.tracking.wandb_run import INIT_SECONDS, Place, WandbRun, finish_seconds, wandb_parent

POLL_SECONDS = 0.5
MIN_FREE = 2**21  # bytes on the disk; with less, wandb truncates its files and says nothing
FULL = (errno.ENOSPC, errno.EDQUOT)


class Follower:
    """Follows the epoch logs of one session. `mode`: of wandb, or "stopped" after an error."""

    def __init__(self, options: Options, messages: Messages, watchdog: Watchdog, closing: threading.Event) -> None:
        self.options, self.messages, self.watchdog, self.closing = options, messages, watchdog, closing
        self.folder, self.tracking = options.folder, options.tracking
        self.mode = server.wandb_mode(self.tracking.mode)
        self.entity, self.project = self.tracking.entity, server.project(self.tracking.project)
        self.trouble = ""  # found before the first run
        self.told = options.quiet
        self.restarted = False
        self.place: Place | None = None
        self.entries: dict[Path, Entries] = {}
        self.open: dict[Path, WandbRun] = {}
        self.done: set[Path] = set()

    def work(self) -> None:
        """Follow the runs until the command closes the input, then close all runs."""
        if self.mode == "disabled":
            return
        if self.mode == "online":
            try:
                with self.watchdog.limit(3 * server.PROBE_SECONDS):
                    self.entity = server.probe(self.tracking.entity)
            except server.Unreachable as error:
                self.mode, self.trouble = "offline", str(error)
        while True:
            last = self.closing.wait(POLL_SECONDS)
            self._look()
            if last or self.mode == "stopped":
                break
        if self.mode != "stopped":
            self._stop_open_runs()
        if self.mode == "offline":
            self._end_wandb()  # a file of an offline run may lack its last lines until wandb's own process has ended

    def _look(self) -> None:
        """Send what is new."""
        for path in sorted((self.folder / FOLDER / "epochs").glob("*.jsonl")):
            if path in self.done or self.mode == "stopped":
                continue
            known = self.entries.get(path)
            try:
                status = path.stat()
                is_as_before = known and (known.offset, known.inode) == (status.st_size, status.st_ino)
                if known and is_as_before and (path in self.open or known.session != self.tracking.session):
                    continue
                self.entries[path] = found = epoch_log.read(path, known)
            except (OSError, ValueError):
                if path in self.open:
                    raise
                continue  # a log of an earlier command, damaged or just deleted: this session writes its logs anew
            if found.session == self.tracking.session and found.info is not None:
                self._tell()
                while not self._sent(path, found):
                    pass

    def _sent(self, path: Path, found: Entries) -> bool:
        """Send a run as far as it is known. After an error, False where to try again is worthwhile."""
        assert found.info is not None
        try:
            self._check_disk()
            if path not in self.open:
                with self.watchdog.limit(INIT_SECONDS + EXTRA_SECONDS):
                    self.open[path] = WandbRun(found.info, self._place())
            run = self.open[path]
            with self.watchdog.limit(OTHER_SECONDS):
                run.add(found.rows)
            if found.ended:
                with self.watchdog.limit(2 * finish_seconds(found.info) + EXTRA_SECONDS):
                    self._complete(path, run)
        except Exception as error:  # of any family: wandb raises many
            return self._failed(error)
        return True

    def _complete(self, path: Path, run: WandbRun) -> None:
        kept = epoch_log.pictures_of(path)
        whole = record.read_run(self.folder / path.stem)
        run.complete(whole, pictures.read(kept) if kept.exists() else None)
        if self.mode == "online":
            sent.mark(self.folder, path.stem, whole.summary["digest"], self._address(), run.run.id)
        del self.open[path]
        self.done.add(path)

    def _address(self) -> str:
        return sent.address(server.base_url(), self.entity, self.project)

    def _place(self) -> Place:
        if self.place is None or self.place.mode != self.mode:
            self.place = Place(
                self.folder, token(self.folder), self.mode, self.project, self.entity, self.tracking.agent
            )
        return self.place

    def _tell(self) -> None:
        """Say once where the runs are mirrored, when the first one has started."""
        if self.told:
            return
        self.told = True
        later = f"send them later with {command_for_sync(self.folder)}"
        where = f"offline, in {wandb_parent(self.folder) / FOLDER}"
        if self.mode == "online":
            where = f"at {server.base_url()}/{self.entity}/{self.project}"
            text = f"runs are mirrored to Weights & Biases {where}; switch off with --tracking off"
        elif self.trouble:
            text = f"W&B cannot be used ({self.trouble}); runs are mirrored {where}; {later}"
        else:
            text = f"runs are mirrored to Weights & Biases {where}; {later}; switch off with --tracking off"
        self.messages.say(f"tracking: {text}", trouble=bool(self.trouble))

    def _check_disk(self) -> None:
        folder = wandb_parent(self.folder)  # with WANDB_DIR perhaps not made yet
        if folder.exists() and shutil.disk_usage(folder).free < MIN_FREE:
            raise OSError(errno.ENOSPC, "no space left")

    def _failed(self, error: Exception) -> bool:
        """Choose how to go on after an error. Returns whether the run is given up for now."""
        later = f"the records are complete; send them with {command_for_sync(self.folder)}"
        self.open.clear()
        if isinstance(error, OSError) and error.errno in FULL:
            self.messages.say(f"tracking: stopped: the disk of {wandb_parent(self.folder) / FOLDER} is full; {later}")
            self.mode = "stopped"
            return True
        core_died = isinstance(error, ConnectionError)
        if core_died and not self.restarted:
            self.restarted = True
        elif self.mode == "online" and not self.closing.is_set():
            self.messages.say(
                f"tracking: W&B failed ({server.brief(error)}); from here on runs are mirrored offline; {later}"
            )
            self.mode = "offline"
        else:
            self.messages.say(f"tracking: stopped ({server.brief(error)}); {later}")
            self.mode = "stopped"
            return True
        self._end_wandb()
        return False

    def _end_wandb(self) -> None:
        """End wandb's own process; the next run starts another."""
        import wandb

        with (
            self.watchdog.limit(OTHER_SECONDS),
            contextlib.suppress(Exception),
        ):  # it fails where wandb's process is dead
            wandb.teardown()

    def _stop_open_runs(self) -> None:
        """Close the runs that were interrupted."""
        for run in list(self.open.values()):
            try:
                with self.watchdog.limit(finish_seconds(run.info) + EXTRA_SECONDS):
                    run.stop()
            except Exception as error:
                self._failed(error)
                return
