"""Tune every variant of a study: workers train the trials, and each variant gets the same number of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from rich.console import Console

from experiments.errors import TakenOver, UserError, writing
from experiments.runs import record
from sweeps.queue.connect import connect
from sweeps.queue.process import HEARTBEAT_INTERVAL, current_process
from sweeps.queue.storage import QueueStorage
from sweeps.tuning.outcome import Outcome, check_result, write_result
from sweeps.tuning.search import AssignedTrial, Search
from sweeps.tuning.tuned import TUNED
from sweeps.tuning.tuning_plan import RUNS, TuningPlan
from sweeps.workers.progress import format_duration
from sweeps.workers.worker import SHUTDOWN_TIMEOUT, Worker, WorkerConfig

NOTE = "The folders here are the trials of `vit-sweep tune`. No report uses them. tuned.yaml beside this folder lists them.\n"
POLL_INTERVAL = 2.0  # seconds between looks at the trials of other processes


def tune(
    plan: TuningPlan, study_dir: Path, configs: Sequence[WorkerConfig], storage: str | None = None, intro: str = ""
) -> Outcome:
    """Train the trials that are left, with one worker for each configuration, and write STUDY/tuned.yaml.

    Raises `UserError` for bad input, and where STUDY/tuned.yaml is of another tuning.
    """
    check_result(plan, study_dir / TUNED)
    with writing(study_dir):
        (study_dir / RUNS).mkdir(parents=True, exist_ok=True)
    record.write_text(study_dir / RUNS / record.TRIALS, NOTE)
    store = connect(plan.study, study_dir, storage)
    searches = [Search(plan, variant, store, current_process()) for variant in plan.variants]
    _check_budget(plan, searches)
    print(intro, flush=True)
    _train(searches, study_dir / RUNS, configs, store)
    return write_result(plan, {search.variant.variant: search.rows() for search in searches}, study_dir / TUNED)


def _train(searches: Sequence[Search], folder: Path, configs: Sequence[WorkerConfig], store: QueueStorage) -> None:
    tuner = Tuner(searches, folder, configs)
    store.notify = tuner.progress.note
    try:
        tuner.run()
    except BaseException:
        tuner.kill()
        raise
    tuner.shutdown()


def _check_budget(plan: TuningPlan, searches: Sequence[Search]) -> None:
    made = max(sum(search.counts()) for search in searches)
    if made > plan.trials:
        raise UserError(f"--trials: {plan.trials} is not allowed: there are {made} trials of a variant already")


@dataclass
class TuningProgress:
    """One line on stderr for each trial that ends, with the time left."""

    total: int
    done: int
    workers: int
    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    began: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def start(self, run: str) -> None:
        """Note that a trial begins or goes on."""
        self.began[run] = time.monotonic()

    def ended(self, assignment: AssignedTrial, result: str) -> None:
        """Print how a trial ended."""
        self.done += 1
        self.seconds.append(time.monotonic() - self.began.pop(assignment.run.name))
        left = (self.total - self.done) * sum(self.seconds) / len(self.seconds) / self.workers
        after = f", about {format_duration(left)} left" if self.done < self.total else ""
        variant = assignment.search.variant.variant
        self.note(f"[{self.done}/{self.total}] {variant}, trial {assignment.number}: {result}{after}")


class Tuner:
    """Workers, at most one for each configuration; each trains one trial at a time."""

    def __init__(self, searches: Sequence[Search], folder: Path, configs: Sequence[WorkerConfig]) -> None:
        self.searches, self.folder = searches, folder
        self.free = list(configs)  # without a worker yet
        self.busy: dict[Worker, AssignedTrial] = {}
        self.idle: list[Worker] = []
        self.next_poll = self.next_heartbeat = 0.0
        done = sum(search.counts()[0] for search in searches)
        self.progress = TuningProgress(searches[0].plan.trials * len(searches), done, len(configs))

    def run(self) -> None:
        """Train until every variant has spent its budget, also in other processes."""
        while True:
            if (self.free or self.idle) and time.monotonic() >= self.next_poll:
                others = self._assign()
                if not self.busy and not others:
                    return
                self.next_poll = time.monotonic() + POLL_INTERVAL
            pipes = {worker.pipe: worker for worker in self.busy}
            for pipe in wait(list(pipes), timeout=POLL_INTERVAL / 2) if pipes else []:
                self._receive(pipes[pipe])  # type: ignore[index]
            if not pipes:
                time.sleep(POLL_INTERVAL / 2)
            if time.monotonic() >= self.next_heartbeat:
                self._heartbeat()

    def _assign(self) -> int:
        """Give a trial to each idle worker: of the variant with the fewest. Returns how many trials are running."""
        while self.free or self.idle:
            by_count = sorted(self.searches, key=lambda search: sum(search.counts()))
            assignment = next(filter(None, (search.next() for search in by_count)), None)
            if assignment is None:
                break
            worker = self.idle.pop() if self.idle else Worker(self.free.pop(0))
            self.busy[worker] = assignment
            self.progress.start(assignment.run.name)
            worker.submit([assignment.run], self.folder)
        return sum(search.counts()[1] for search in self.searches)

    def _receive(self, worker: Worker) -> None:
        """Handle the next message of a worker."""
        kind, *content = worker.receive()
        assignment = self.busy[worker]
        try:
            if kind == "row":
                worker.answer(prune=assignment.search.report(assignment, content[1]))
                return
            del self.busy[worker]
            self.next_poll = 0.0
            if kind == "done":
                self.idle.append(worker)
                self._settle(assignment)
                return
            self._remove(worker, SHUTDOWN_TIMEOUT if kind == "failed" else 0.0)
            users, reason = content[:2] if kind == "failed" else (False, content[0])
            self._fail(assignment, reason, users)
        except TakenOver as error:
            self._withdraw(worker, str(error))

    def _settle(self, assignment: AssignedTrial) -> None:
        summary = record.read_summary(self.folder / assignment.run.name)
        assignment.search.settle(assignment, summary)
        settings = assignment.run.config
        value = f", validation accuracy {summary['val/acc']:.1%}" if summary["status"] != "diverged" else ""
        rate = f"learning rate {settings.optim.lr:.3g}"
        self.progress.ended(assignment, f"{summary['status']} after {summary['epochs']} epochs{value}, {rate}")

    def _fail(self, assignment: AssignedTrial, reason: str, users: bool) -> None:
        if users:  # another attempt would fail the same way
            assignment.search.release(assignment)
            raise UserError(f"{reason} (in {assignment.run.name})")
        if assignment.search.fail(assignment, reason):
            self.progress.ended(assignment, f"failed: {reason}")
        else:
            self.progress.note(f"{assignment.run.name}: {reason}")

    def _heartbeat(self) -> None:
        for worker, assignment in list(self.busy.items()):
            try:
                assignment.search.heartbeat(assignment)
            except TakenOver as error:
                self._withdraw(worker, str(error))
        self.next_heartbeat = time.monotonic() + HEARTBEAT_INTERVAL

    def _withdraw(self, worker: Worker, reason: str) -> None:
        """Stop the worker of a trial that another process trains now."""
        self.progress.note(reason)
        if self.busy.pop(worker, None):
            self._remove(worker)

    def _remove(self, worker: Worker, timeout: float = 0.0) -> None:
        """Stop a worker. Another one may be started in its place."""
        worker.stop(timeout)
        self.free.append(worker.config)

    def shutdown(self) -> None:
        """Let the workers end."""
        for worker in self.idle:
            worker.shutdown()
        for worker in self.idle:
            worker.stop(SHUTDOWN_TIMEOUT)

    def kill(self) -> None:
        """End all workers now. The next tuning goes on with their trials from the last finished epoch."""
        for worker in (*self.busy, *self.idle):
            worker.stop()
        for assignment in self.busy.values():
            try:
                assignment.search.release(assignment)
            except UserError:
                continue  # the next tuning finds the process dead
