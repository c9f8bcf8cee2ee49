"""Fair play: contenders wait in processes of their own and take turns, round by round. What they do is not known here.

Start-up, compilation and a warm-up come before the first round. Within a round the order moves on by one, so that what
else happens on the machine, in the same minute, meets every contender alike.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.bench.contenders import Entry
    from experiments.bench.limits import Score

PATIENCE = 20.0  # seconds that a process may take to end


@dataclass
class Team:
    """The processes of an entry. `lost` says why they are gone, where they are."""

    entry: Entry
    pipes: list[Connection]
    processes: list[multiprocessing.process.BaseProcess]
    rates: dict[str, list[float]] = field(default_factory=dict)
    lost: str = ""
    memory: int | None = None

    def play(self, task: str, n: int) -> None:
        """Do a task in all processes at once, and note the rate of them all: their work over the slowest one's time."""
        scores = self._ask(task, n)
        if scores:
            work, seconds = zip(*scores, strict=True)
            self.rates.setdefault(task, []).append(sum(work) / max(seconds))

    def warm_up(self, task: str, n: int) -> None:
        """Do a task, and note nothing."""
        self._ask(task, n)

    def median(self, task: str) -> float | None:
        """The middle rate over the rounds, work per second."""
        return statistics.median(self.rates[task]) if self.rates.get(task) else None

    def stop(self) -> None:
        """Note peak memory and end the processes."""
        if memory := self._ask("", 0):
            self.memory = int(sum(peak for peak, _ in memory))
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(PATIENCE)
            process.kill()

    def _ask(self, task: str, n: int) -> list[Score]:
        try:
            for pipe in [] if self.lost else self.pipes:
                pipe.send((task, n))
            return [] if self.lost else [_heard(pipe) for pipe in self.pipes]
        except (RuntimeError, EOFError, OSError) as error:
            self.lost = str(error) or type(error).__name__
            return []


def _heard(pipe: Connection) -> Score:
    answer = pipe.recv()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer


@contextmanager
def assembled(entries: Sequence[Entry], splits: Path, device: str) -> Iterator[list[Team]]:
    """The entries' processes, with the images that were saved at `splits`; afterwards none is left."""
    teams: list[Team] = []
    try:
        for entry in entries:
            teams.append(_team(entry, splits, device))
        yield teams
    finally:
        for team in teams:
            team.stop()


def _team(entry: Entry, splits: Path, device: str) -> Team:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["experiments.bench.contenders"])
    ends = [context.Pipe() for _ in range(entry.processes)]
    processes = [  # (no daemons: those may not start a loader's workers)
        context.Process(target=_serve, args=(theirs, entry, splits, device, seat))
        for seat, (_, theirs) in enumerate(ends)
    ]
    for process, (_, theirs) in zip(processes, ends, strict=True):
        process.start()
        theirs.close()
    return Team(entry, [ours for ours, _ in ends], processes)


def race(teams: Sequence[Team], tasks: dict[str, dict[str, int]], rounds: int) -> None:
    """All tasks of all teams, `rounds` times. tasks: task -> entry's name -> how much of it"""
    for team in teams:
        for task, amounts in tasks.items():
            if team.entry.name in amounts:
                team.warm_up(task, 1)
    for turn in range(rounds):
        shift = turn % len(teams)
        for task, amounts in tasks.items():
            for team in (*teams[shift:], *teams[:shift]):
                if team.entry.name in amounts:
                    team.play(task, amounts[team.entry.name])


def _serve(pipe: Connection, entry: Entry, splits: Path, device: str, seat: int) -> None:
    """A process's whole life: build the contender, then do task by task what is asked, until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the other end of the pipe decides
    import torch

    from experiments.bench.contenders import CONTENDERS

    torch.set_num_threads(entry.threads)
    place = torch.device(device)
    try:
        images = torch.load(splits, weights_only=False).to(place)
        contender = CONTENDERS[entry.kind](entry, images, place, seat)
        while True:
            task, n = pipe.recv()
            pipe.send(getattr(contender, task)(n) if task else (_peak(place), 0.0))
    except EOFError:
        return
    except (RuntimeError, ValueError, ImportError, OSError) as error:  # out of memory, above all
        pipe.send(f"{type(error).__name__}: {error}".splitlines()[0])


def _peak(device: object) -> int:
    """Bytes that this process held at most: on the GPU, or resident in main memory."""
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
