"""The sweep itself: workers are kept busy with claims from the ledger until every run has ended. No Optuna here."""

from __future__ import annotations

import contextlib
import time
from multiprocessing.connection import wait
from pathlib import Path

from experiments.errors import UserError
from experiments.runs import record
from sweeps.plan import Plan
from sweeps.process import BEAT, owner
from sweeps.progress import Display
from sweeps.queue import Claim, Ledger, State
from sweeps.worker import PATIENCE, Duty, Worker

ERROR = "error.txt"  # in a run's folder: the traceback of its last failed attempt
LOG = "sweep.log"  # in the study's folder: what workers' libraries print
LOOK = 2.0  # seconds between looks at what other sweeps on the folder have done


def sweep(
    plan: Plan, study_dir: Path, duty: Duty, workers: int, display: Display, cohort: int = 1, attempts: int = 3
) -> State:
    """Train every run of a plan that has not ended. Returns where they stand then; `failed` are those given up.

    A worker is given up to `cohort` runs of one variant at once, to be trained as one stacked model.
    Other sweeps may be at work on the same folder: their runs are waited for. Raises `UserError` where a worker met
    something that is the user's to mend; whatever happens, no worker is left behind.
    """
    ledger = Ledger(plan, study_dir, owner(), attempts)
    crew = Crew(ledger, duty, workers, display, cohort)
    try:
        state = crew.run()
    except BaseException:
        crew.drop()
        raise
    crew.dismiss()
    return state


class Crew:
    """Some workers, one of them for each claim or cohort of claims."""

    def __init__(self, ledger: Ledger, duty: Duty, size: int, display: Display, cohort: int) -> None:
        self.ledger, self.dir, self.duty, self.size, self.display = ledger, ledger.dir, duty, size, display
        self.cohort = cohort  # runs that a worker is given at once
        self.workers: list[Worker] = []
        self.next_look = self.next_beat = 0.0
        self.waited_for: set[str] = set()

    @property
    def busy(self) -> list[Worker]:
        """Workers with something to do."""
        return [worker for worker in self.workers if worker.claims]

    def run(self) -> State:
        """Until nothing is left that this sweep could do or wait for."""
        while True:
            if len(self.busy) < self.size and time.monotonic() >= self.next_look:
                state = self.ledger.reconcile()
                self.display.already(state.ended)
                self._hand_out(state)
                if not (self.busy or state.waiting or state.running):
                    return state
                self._say_what_is_waited_for(state)
                self.next_look = time.monotonic() + LOOK
            for pipe in wait([worker.pipe for worker in self.workers], timeout=LOOK / 2) if self.workers else []:
                self._hear(next(worker for worker in self.workers if worker.pipe is pipe))
            if not self.workers:
                time.sleep(LOOK / 2)
            if time.monotonic() >= self.next_beat:
                for claim in self.ledger.beat([claim for worker in self.workers for claim in worker.claims]):
                    self._withdraw(claim)
                self.next_beat = time.monotonic() + BEAT

    def _hand_out(self, state: State) -> None:
        """Give each free worker something; start workers while there is more to do than hands."""
        idle = [worker for worker in self.workers if not worker.claims]
        wanted = min(self.size - len(self.workers), len(state.waiting) - len(idle))
        for _ in range(wanted):
            self.workers.append(worker := Worker(self.duty))
            idle.append(worker)
        for worker in idle if state.waiting else []:
            if claims := self.ledger.claim(worker.owner, self.cohort):
                worker.give(claims, self.dir)

    def _say_what_is_waited_for(self, state: State) -> None:
        """Once for each, where nothing is left to do here."""
        if self.busy or state.waiting:
            return
        for name, who in state.running.items():
            if name not in self.waited_for:
                self.waited_for.add(name)
                self.display.note(f"waiting for {name}: process {who['pid']} on {who['host']} is at work on it")

    def _hear(self, worker: Worker) -> None:
        kind, *content = worker.hear()
        if kind == "row":
            index, row = content
            self.display.row(worker.claims[index].run, row)
            return
        claims, worker.claims = worker.claims, []
        self.next_look = 0.0
        if kind == "done":
            for claim in claims:
                self._close(claim, "it left no record, and no error")
            return
        self.workers.remove(worker)
        mine, why, trace = content if kind == "failed" else (False, *content, "")
        worker.stop(PATIENCE if kind == "failed" else 0.0)
        if mine:  # it would only come again
            for claim in claims:
                self.ledger.tell(claim, "failed", why)
            raise UserError(f"{why} (in {claims[0].run.name})")
        for claim in claims:
            self._close(claim, why, trace)

    def _withdraw(self, lost: Claim) -> None:
        """Another sweep has taken a run over, after a long sleep of this one's: stop the worker that is still at it."""
        for worker in [worker for worker in self.workers if lost in worker.claims]:
            self.workers.remove(worker)
            worker.stop()
            for claim in worker.claims:
                self.ledger.tell(claim, "interrupted")
            self.display.note(f"{lost.run.name}: another sweep has taken it over")
            self.next_look = 0.0

    def _close(self, claim: Claim, why: str, trace: str = "") -> None:
        """Tell the ledger how a claim ended, and keep the traceback where it did not end well."""
        status = self.ledger.tell(claim, "failed", why)
        if status != "failed":
            self.display.ended(claim.run, status)
            return
        self.display.failed(claim.run, why)
        folder = self.dir / claim.run.name
        folder.mkdir(exist_ok=True)
        record.write_text(folder / ERROR, trace or why + "\n")

    def dismiss(self) -> None:
        """The work is done: let workers end by themselves."""
        for worker in self.workers:
            worker.send_home()
        for worker in self.workers:
            worker.stop(PATIENCE)

    def drop(self) -> None:
        """End all workers now; what they were at is taken up by the next sweep, from the last epoch that was done."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.stop()
        with contextlib.suppress(UserError):  # without its word, the next sweep finds that the claims' owner is dead
            for claim in [claim for worker in self.workers for claim in worker.claims]:
                self.ledger.tell(claim, "interrupted")
