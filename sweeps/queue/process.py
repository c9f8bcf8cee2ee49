"""Identify a process so that other processes and machines can check whether it is alive. It imports no Optuna."""

import functools
import os
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HEARTBEAT_INTERVAL = 30.0  # seconds between heartbeats
LEASE_TIMEOUT = 240.0  # seconds after its last heartbeat when a process on another machine counts as dead


@dataclass(frozen=True)
class ProcessInfo:
    """A process. `start` tells it from a later process with the same pid; None if it has ended.

    `boot` is the id of the running kernel and `namespace` that of the pids: containers may share a host name. None
    where the system has none. Two are equal if they are the same process, whatever its last heartbeat.
    """

    host: str
    pid: int
    start: str | None
    heartbeat: float = field(compare=False)  # time of the last one, seconds since the epoch
    boot: str | None = None
    namespace: int | None = None


def current_process() -> ProcessInfo:
    """This process."""
    return process_info(os.getpid())


def process_info(pid: int) -> ProcessInfo:
    """The process with that pid on this machine, in the PID namespace of this process."""
    return ProcessInfo(socket.gethostname(), pid, _start_time(pid), time.time(), *_kernel())


def is_alive(process: ProcessInfo, silence: Callable[[float], float] | None = None) -> bool:
    """Whether a process is alive: checked by pid and start time on this machine, by its heartbeat on another.

    A process in another PID namespace, or of an earlier boot, counts as one on another machine, because its pid means
    nothing here. One of another user whom /proc does not show (its option hidepid) counts as dead. `silence` tells how
    many seconds have passed since a heartbeat; without it, this machine's clock.
    """
    if (process.host, process.boot, process.namespace) != (socket.gethostname(), *_kernel()):
        passed = silence(process.heartbeat) if silence else time.time() - process.heartbeat
        return passed < LEASE_TIMEOUT
    return process.start is not None and _start_time(process.pid) == process.start


@functools.cache
def _kernel() -> tuple[str | None, int | None]:
    """The boot id and the PID namespace of this process; None where the system has no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None, None


def _start_time(pid: int) -> str | None:
    """When a process of this machine started, as the system reports it; None if it has ended or is a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state in "ZX" else rest[18]  # field 22 of proc(5): clock ticks since boot
    status = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = status.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else start.strip()
