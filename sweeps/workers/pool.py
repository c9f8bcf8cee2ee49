"""Run a sweep: a pool of workers that get runs from a queue until every run has ended. It uses no Optuna directly."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Container, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path

from experiments.errors import UserError
from experiments.metric import Metric
from experiments.runs import record
from experiments.study import StudyPlan
from sweeps.queue.connect import connect
from sweeps.queue.process import HEARTBEAT_INTERVAL, current_process
from sweeps.queue.queue import Assignment, Queue, QueueState
from sweeps.study_folder import ERROR, check_records, write_plan
from sweeps.workers.progress import ProgressDisplay, format_duration, result_text
from sweeps.workers.worker import SHUTDOWN_TIMEOUT, Worker, WorkerConfig

POLL_INTERVAL = 2.0  # seconds between checks of what other sweeps on the folder have done
RECONCILE_INTERVAL = 300.0  # seconds between checks of every run's folder
REPORTS = 20  # intermediate values of a run that the queue stores at most
REPORT_INTERVAL = 2.0  # seconds between them, at least
FAILURES = 3  # of different runs, without a success in between, after which a worker stops: the machine may be at fault
HUNG_SECONDS = 600.0  # without an epoch, at least, after which a worker hangs: it is stopped
HUNG_EPOCHS = 10  # and at least as long as so many of its longest epoch
CPU_COHORT = 1  # measured on digits: a stack of 4 takes 4.0 times as long as a single run; on CIFAR-10 it takes longer


class StudyCancelled(Exception):
    """The study was cancelled with `vit-sweep cancel`, and runs are left."""


def run_sweep(
    plan: StudyPlan,
    study_dir: Path,
    configs: Sequence[WorkerConfig],
    *,
    command: str | None = None,
    intro: str = "",
    cohort: int | None = None,
    storage: str | None = None,
    only: Container[str] | None = None,
) -> QueueState:
    """Train the runs of a study that are left, or only some of them, with one worker for each configuration.

    With `command` the plan is written first, and runs that failed before get new attempts. Without it, failed runs stay
    failed, and a study that was cancelled stays cancelled. `intro` is printed once the folder is known to be usable.
    `cohort` is the largest number of runs that a worker trains as one stacked model. None: on a GPU a worker gets its
    part of a variant's runs and stacks as many as fit; on a CPU it is 1 (see `CPU_COHORT`). `storage`: the URL of
    `connect`. A study of a validation metric leaves the test images out: it makes a choice. Returns the final state of
    the queue. Raises as `WorkerPool.run` does.
    """
    configs = [replace(config, test=not plan.metric.startswith("val/")) for config in configs]
    check_records(plan, study_dir)
    store = connect(plan, study_dir, storage)  # before the plan: a storage that cannot be used leaves none
    if command is not None:
        write_plan(plan, study_dir, command)
    if intro:
        print(intro, flush=True)
    queue = Queue(plan, study_dir, current_process(), storage=store, only=only)
    if command is not None:
        queue.retry()
    if cohort is None:
        cohort = math.ceil(len(queue.runs) / len(configs)) if configs[0].threads is None else CPU_COHORT
    with (
        ProgressDisplay(plan.name, queue.runs.values()) as display,
        WorkerPool(queue, configs, display, cohort, plan.metric) as pool,
    ):
        pool.run()
    return queue.state


class WorkerPool:
    """Workers, at most one for each configuration; each trains one run or one cohort of runs at a time.

    A worker in its last epoch gets the next runs already, so that it does not wait for the queue between cohorts. One
    that trains trials of a tuning does not: the sampler learns from each result. `cohort`: of runs that a worker trains
    as one stacked model, at most. `metric`: shown for each run. After an error in the `with` block the workers are
    killed; else they end when they are idle.
    """

    def __init__(
        self, queue: Queue, configs: Sequence[WorkerConfig], display: ProgressDisplay, cohort: int, metric: str
    ) -> None:
        self.queue, self.dir, self.display, self.cohort = queue, queue.dir, display, cohort
        self.metric = Metric(metric)  # whose value the progress shows for each finished run
        self.free = [(config, set[str]()) for config in configs]  # of workers to start, with their `Worker.failed`
        self.workers: list[Worker] = []
        self.next_poll = self.next_reconcile = self.next_heartbeat = 0.0
        self.waited_for: set[str] = set()
        self.reported: dict[int, float] = {}  # trial number -> time of its last stored value, or of its first due epoch

    def __enter__(self) -> WorkerPool:
        self.queue.store.notify = self.display.note
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error, the next sweep continues the runs from the last finished epoch."""
        for worker in self.workers:
            if kind:
                worker.process.kill()
            else:
                worker.send(None)
        for worker in self.workers:
            worker.stop(0.0 if kind else SHUTDOWN_TIMEOUT)
        if kind:
            with contextlib.suppress(UserError):  # if this fails, the next sweep finds the processes dead
                self.queue.release()

    @property
    def idle(self) -> list[Worker]:
        """Workers without an assignment."""
        return [worker for worker in self.workers if not worker.assignments]

    @property
    def is_busy(self) -> bool:
        """Whether a worker has an assignment."""
        return len(self.idle) < len(self.workers)

    def run(self) -> None:
        """Train every run of the queue that has not ended, and wait for runs that other sweeps train.

        Raises `UserError` where a worker met an error that the user has to fix, and `StudyCancelled` after
        `Queue.cancel` if runs are left.
        """
        while True:
            if (self.free or self.idle) and time.monotonic() >= self.next_poll:
                self._poll()
            state = self.queue.state
            if self.queue.cancelled and (self.is_busy or state.waiting or state.running):
                raise StudyCancelled
            if self.free or self.idle:
                self._assign()
                if self._is_done():
                    return
                self._report_waiting()
            pipes = {worker.pipe: worker for worker in self.workers}
            for pipe in wait(list(pipes), timeout=POLL_INTERVAL / 2) if pipes else []:
                self._receive(pipes[pipe])  # type: ignore[index]
            if not self.workers:
                time.sleep(POLL_INTERVAL / 2)
            if time.monotonic() >= self.next_heartbeat:
                self._stop_hung()
                self._heartbeat()
                self.next_heartbeat = time.monotonic() + HEARTBEAT_INTERVAL

    def _poll(self) -> None:
        """Learn what other sweeps have done: from the trials, and now and then from the records of all runs."""
        now = time.monotonic()
        if now >= self.next_reconcile:
            self.queue.reconcile()
            self.next_reconcile = now + RECONCILE_INTERVAL
        else:
            self.queue.refresh()
        self.next_poll = now + POLL_INTERVAL
        state = self.queue.state
        self.display.skip(state.ended, state.dropped)

    def _is_done(self) -> bool:
        """Whether no run is left to train or in training here or elsewhere. If it seems so, it looks at the records."""
        if self.is_busy or self.queue.left or self.queue.state.running:
            return False
        self.next_reconcile = 0.0
        self._poll()
        return not (self.queue.left or self.queue.state.running)

    def _assign(self) -> None:
        """Give runs to each idle worker. Start workers while more runs are left than workers are idle."""
        for _ in range(min(len(self.free), self.queue.left - len(self.idle))):
            config, failed = self.free.pop(0)
            self.workers.append(Worker(config))
            self.workers[-1].failed = failed
        for worker in self.idle:
            if self.queue.left:
                self._begin(worker, self._submit(worker))

    def _begin(self, worker: Worker, assignments: list[Assignment]) -> None:
        """Take note of what a worker trains now."""
        worker.assignments, worker.since, worker.longest = assignments, time.monotonic(), 0.0
        self.display.begin(worker, [assignment.run for assignment in assignments])

    def _submit(self, worker: Worker) -> list[Assignment]:
        """Send the next runs of the queue to a worker. Returns their assignments; none if no run is waiting."""
        if assignments := self.queue.assign(worker.info, self.cohort):
            worker.send(([assignment.run for assignment in assignments], self.dir))
        return assignments

    def _report_waiting(self) -> None:
        """Say once for each run of another sweep that this one waits for it, if nothing else is left to do."""
        if self.is_busy or self.queue.left:
            return
        for name, process in self.queue.state.running.items():
            if name not in self.waited_for:
                self.waited_for.add(name)
                self.display.note(f"waiting for {name}: process {process.pid} on {process.host} is training it")

    def _receive(self, worker: Worker) -> None:
        """Handle the next message of a worker."""
        kind, *content = worker.receive()
        if kind == "row":
            self._add_row(worker, *content)
            return
        ended = worker.assignments
        self._begin(worker, worker.upcoming)
        worker.upcoming = []
        if kind == "done":
            worker.failed.clear()
            for assignment in ended:
                self._settle(assignment, "the worker left neither a record nor an error")
            return
        users, reason, trace = content if kind == "failed" else (False, *content, "")
        self._remove(worker, SHUTDOWN_TIMEOUT if kind == "failed" else 0.0)
        if users:  # another attempt would fail the same way
            self._release(ended)
            raise UserError(f"{reason} (in {ended[0].run.name})")
        worker.failed.add(ended[0].run.name)
        for assignment in ended:
            self._settle(assignment, reason, trace)
        untried = [name for name in self.queue.state.waiting if self.queue.is_untried(name, worker.info.host)]
        if len(worker.failed) >= FAILURES and untried:
            self._give_up(worker, reason)

    def _give_up(self, worker: Worker, reason: str) -> None:
        """Start no worker in the place of one that fails at every run. Raises `UserError` if there is no other."""
        self.free = [(config, failed) for config, failed in self.free if failed is not worker.failed]
        line = f"{len(worker.failed)} runs failed one after another in a worker on {worker.info.host}, the last with "
        if self.free or self.workers:
            self.display.note(f"{line}{reason}; it trains no more")
        else:
            raise UserError(f"{line}{reason}; it leaves the others, so run the same command again once it works there")

    def _add_row(self, worker: Worker, index: int, row: dict[str, float]) -> None:
        """Take in an epoch of a worker's run. In the last one the worker gets its next runs."""
        assignment = worker.assignments[index]
        self.display.row(worker, assignment.run, row)
        now = time.monotonic()
        worker.since, worker.longest = now, max(worker.longest, now - worker.since)
        if worker.config.tuning:
            worker.send(self.queue.report(assignment, row))  # whether it prunes the run
            return
        epochs = assignment.run.config.train.epochs
        is_due = row["epoch"] % math.ceil(epochs / REPORTS) == 0  # each value is a write to the database
        if is_due and now - self.reported.setdefault(assignment.number, now) >= REPORT_INTERVAL:
            self.reported[assignment.number] = now
            self.queue.report(assignment, row)
        if row["epoch"] >= epochs - 1 and not worker.upcoming:
            worker.upcoming = self._submit(worker)

    def _remove(self, worker: Worker, timeout: float = 0.0) -> None:
        """Stop a worker and let others train the runs that it has not begun. Another worker may start in its place."""
        self.workers.remove(worker)
        self.free.append((worker.config, worker.failed))
        worker.stop(timeout)
        self._release(worker.assignments + worker.upcoming)
        self.display.begin(worker, [])

    def _release(self, assignments: Sequence[Assignment]) -> None:
        """Let other workers train runs that did not fail."""
        for assignment in assignments:
            self.queue.settle(assignment, "interrupted")

    def _stop_hung(self) -> None:
        """Stop workers that hang; their runs go on from the last epoch. The first epoch has no limit: it loads data."""
        for worker in [worker for worker in self.workers if worker.assignments and worker.longest]:
            silence = time.monotonic() - worker.since
            if silence > max(HUNG_SECONDS, HUNG_EPOCHS * worker.longest):
                name = worker.assignments[0].run.name
                self.display.note(f"{name}: no epoch for {format_duration(silence)}; its worker hangs and is stopped")
                self._remove(worker)

    def _heartbeat(self) -> None:
        """Stop the worker of a run that another sweep has taken over, because this machine was suspended for long."""
        for lost in self.queue.heartbeat([a for worker in self.workers for a in worker.assignments + worker.upcoming]):
            for worker in [worker for worker in self.workers if lost in worker.assignments + worker.upcoming]:
                self._remove(worker)
                self.display.note(f"{lost.run.name}: another sweep has taken it over")

    def _settle(self, assignment: Assignment, reason: str, trace: str = "") -> None:
        """Close an assignment in the queue. Keep the traceback if it failed."""
        run, folder = assignment.run, self.dir / assignment.run.name
        self.reported.pop(assignment.number, None)
        status = self.queue.settle(assignment, "failed", reason)
        if status == "taken over":
            self.display.note(f"{run.name}: another sweep has taken it over")
            return
        if status != "failed":
            summary = record.read_ended(self.dir, run)
            self.display.ended(run, result_text(summary or {"status": status}, self.metric))
            return
        self.display.failed(run, reason, run.name in self.queue.state.failed)
        folder.mkdir(exist_ok=True)
        record.write_text(folder / ERROR, trace or reason + "\n")
