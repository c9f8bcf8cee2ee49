"""Runs workloads in processes of their own, times them in turns, and keeps each within its time limit.

Workloads that are measured together take turns, round by round, and the order rotates by one in each round. A slow
minute of the machine then affects all of them alike, and the ratio of two workloads within a turn stays meaningful.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import torch

from experiments.config import RunConfig

EXIT_SECONDS = 10.0  # that a process may take to end by itself
MPS_CONTROL = "nvidia-cuda-mps-control"
RESIDENT_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes; of ru_maxrss


class WorkloadError(Exception):
    """A workload cannot go on. The message is the reason that the results give."""


@dataclass(frozen=True)
class Workload:
    """Something to time: `processes` processes of `threads` threads, each training `runs` runs as one cohort.

    `loop(workload, splits, device, index of the process)` makes an object whose `turn()` returns (images, seconds) of
    `epochs` epochs; images are summed over the runs. `compile` is a mode of `torch.compile`, or "none".
    """

    name: str
    loop: Callable[..., Any]
    config: RunConfig
    model: str = "ours"  # a key of `measure.MODELS`
    processes: int = 1
    threads: int = 1
    runs: int = 1
    epochs: int = 1
    compile: str = "none"
    capture: bool = True  # whether the training step becomes a CUDA graph on a GPU
    mps: bool = False  # whether the processes share the GPU through NVIDIA MPS


@dataclass
class Runner:
    """The processes of a workload and its rates so far, images per second in each turn; `seconds` is its time limit.

    `note` says why turns are missing. Once it is set, the workload takes no further turn.
    """

    workload: Workload
    seconds: float
    rates: list[float] = field(default_factory=list)
    peak_memory: int | None = None  # bytes, summed over the processes
    note: str = ""

    def __post_init__(self) -> None:
        self.left, self.last = min(self.seconds, 1e6), 0.0  # seconds that are left, and that the last turn took
        self.processes: list[tuple[BaseProcess, Connection]] = []
        self.resources = contextlib.ExitStack()

    def start(self, splits: Path, device: str) -> None:
        """Start the processes, which load the images saved at `splits`, and take one turn that is not counted.

        Building, loading, compiling and capturing thus happen before the first turn.
        """
        begin = time.perf_counter()
        try:
            # A compiler that is killed at the time limit must not spoil the user's cache, or another workload's.
            cache = self.resources.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
            mps = self.resources.enter_context(mps_server(device)) if self.workload.mps else {}
            self._start_processes(splits, device, {"TORCHINDUCTOR_CACHE_DIR": cache, **mps})
            self.left -= time.perf_counter() - begin
            self._call()
            if mps and not self.note and not mps_control("get_server_list", mps):
                raise WorkloadError("the processes do not use NVIDIA MPS")
        except WorkloadError as error:
            self.note = f"skipped: {error}"

    def _start_processes(self, splits: Path, device: str, env: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["experiments.bench.measure"])
        for index in range(self.workload.processes):
            ours, theirs = context.Pipe()
            # These are not daemons, because daemons may not start the workers of a data loader.
            process = context.Process(target=_serve, args=(theirs, self.workload, splits, device, index, env))
            process.start()
            theirs.close()
            self.processes.append((process, ours))

    def turn(self) -> None:
        """Take a turn in all processes at once. Its rate is their total work over the time of the slowest."""
        if self.left < self.last:
            self.note = f"{len(self.rates)} turns fit in the time limit of {self.seconds:g} s"
            return
        before = self.left
        if replies := self._call():
            self.last = before - self.left  # the first turn, which may compile, would say nothing about the others
            work, seconds, memory = zip(*replies, strict=True)
            self.rates.append(sum(work) / max(seconds))
            self.peak_memory = sum(memory)

    @property
    def median(self) -> float | None:
        """Median rate of the turns; None without a turn."""
        return statistics.median(self.rates) if self.rates else None

    def stop(self, wait: float) -> None:
        """End the processes. Those that are alive after `wait` seconds are killed, together with their own processes."""
        end = time.perf_counter() + wait
        for _, pipe in self.processes:
            pipe.close()
        for process, _ in self.processes:
            process.join(max(end - time.perf_counter(), 0.0))
            if process.is_alive() and process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.join()
        self.processes = []
        self.resources.close()

    def _call(self) -> list[tuple[float, float, int]]:
        """(work, seconds, peak memory) of each process; empty where the workload stops here."""
        begin = time.perf_counter()
        try:
            for _, pipe in self.processes:
                pipe.send("turn")
            return [self._receive(process, pipe, begin + self.left) for process, pipe in self.processes]
        except (WorkloadError, OSError) as error:
            self.note = str(error) or type(error).__name__
            self.stop(wait=0.0)
            return []
        finally:
            self.left -= time.perf_counter() - begin

    def _receive(self, process: BaseProcess, pipe: Connection, end: float) -> tuple[float, float, int]:
        if not pipe.poll(max(end - time.perf_counter(), 0.0)):
            raise WorkloadError(f"stopped at the time limit of {self.seconds:g} s")
        try:
            reply = pipe.recv()
        except EOFError:
            process.join(EXIT_SECONDS)
            raise WorkloadError(f"a process ended with status {process.exitcode}") from None
        if isinstance(reply, str):
            raise WorkloadError(reply)
        return reply


def take_turns(runners: Sequence[Runner], rounds: int, splits: Mapping[str, Path], device: str) -> Iterator[Runner]:
    """Start and warm up the runners, then measure `rounds` turns of each. Yields a runner after each turn.

    splits: dataset -> file with its images, as `torch.save` wrote them. No process is left afterwards.
    """
    wait = 0.0
    try:
        for runner in runners:
            runner.start(splits[runner.workload.config.data.name], device)
            if runner.note:
                yield runner
        for number in range(rounds):
            first = number % len(runners)
            for runner in (*runners[first:], *runners[:first]):
                if not runner.note:
                    runner.turn()
                    yield runner
        wait = EXIT_SECONDS
    finally:
        for runner in runners:
            runner.stop(wait)


def paired_ratio(rates: Sequence[float], reference: Sequence[float]) -> float | None:
    """Median over the turns of the ratio of two rates in the same turn; None without a common turn."""
    ratios = [a / b for a, b in zip(rates, reference, strict=False)]
    return statistics.median(ratios) if ratios else None


def timed(device: torch.device, n: int, call: Callable[[], Any]) -> float:
    """Seconds that n calls take, with the work that they start on the device."""
    synchronize = partial(torch.cuda.synchronize, device) if device.type == "cuda" else (lambda: None)
    synchronize()
    begin = time.perf_counter()
    for _ in range(n):
        call()
    synchronize()
    return time.perf_counter() - begin


def _serve(pipe: Connection, workload: Workload, splits: Path, device: str, index: int, env: Mapping[str, str]) -> None:
    """The main function of a process: build the loop, then take a turn for each message until the pipe is closed.

    A reply is (images, seconds, peak memory in bytes), or an error. Memory is that reserved on the GPU, graphs included, or
    the resident memory on a CPU.
    """
    os.setpgid(0, 0)  # Ctrl-C reaches only the parent, and a kill reaches this process's own processes as well
    os.environ.update(env)  # before the first call of CUDA, which reads it
    torch.set_num_threads(workload.threads)
    place = torch.device(device)
    try:
        loop = workload.loop(workload, torch.load(splits, weights_only=False).to(place), place, index)
        while pipe.recv():
            turn, resident = loop.turn(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RESIDENT_UNIT
            pipe.send((*turn, torch.cuda.max_memory_reserved(place) if place.type == "cuda" else resident))
    except EOFError:
        return
    except Exception as error:  # whatever fails, such as memory or a compiler, ends this workload and no other
        with contextlib.suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}".splitlines()[0])


@contextlib.contextmanager
def mps_server(device: str) -> Iterator[dict[str, str]]:
    """Run NVIDIA's Multi-Process Service, with the GPU's compute mode as it is. Yields its clients' environment.

    Raises `WorkloadError` with the reason if it does not start.
    """
    if not device.startswith("cuda"):
        raise WorkloadError("NVIDIA MPS needs a GPU")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        env = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        mps_control("", env)
        try:
            yield env
        finally:
            with contextlib.suppress(WorkloadError):
                mps_control("quit", env)


def mps_control(command: str, env: Mapping[str, str]) -> str:
    """Output of a command to the MPS daemon; "" starts the daemon. Raises `WorkloadError`."""
    program = [MPS_CONTROL] if command else [MPS_CONTROL, "-d"]
    options: dict[str, Any] = {"input": command, "text": True, "env": os.environ | env, "timeout": 60}
    with TemporaryFile("w+") as output:  # a pipe would stay open for as long as the daemon runs
        try:
            status = subprocess.run(program, **options, stdout=output, stderr=output).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkloadError(str(error)) from error
        output.seek(0)
        text = output.read().strip()
    if status:
        raise WorkloadError(f"{MPS_CONTROL} failed with status {status}: {' '.join(text.split())}")
    return text
