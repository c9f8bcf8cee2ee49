"""Identify a process so that other processes and machines can check whether it is alive. It imports no Optuna."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HEARTBEAT_INTERVAL = 30.0  # seconds between heartbeats
LEASE_TIMEOUT = 240.0  # seconds after its last heartbeat when a process on another machine counts as dead


@dataclass(frozen=True)
class ProcessInfo:
    """A process. `start` tells it from a later process with the same pid; None if it has ended."""

    host: str
    pid: int
    start: str | None
    heartbeat: float  # time of the last heartbeat, seconds since the epoch


def current_process() -> ProcessInfo:
    """This process."""
    return process_info(os.getpid())


def process_info(pid: int) -> ProcessInfo:
    """The process with that pid on this machine."""
    return ProcessInfo(socket.gethostname(), pid, _start_time(pid), time.time())


def is_alive(process: ProcessInfo) -> bool:
    """Whether a process is alive: checked by pid and start time on this machine, by its heartbeat on another."""
    if process.host != socket.gethostname():
        return time.time() - process.heartbeat < LEASE_TIMEOUT
    return process.start is not None and _start_time(process.pid) == process.start


def _start_time(pid: int) -> str | None:
    """When a process of this machine started, as the system reports it; None if it has ended or is a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state in "ZX" else rest[18]  # field 22 of proc(5): clock ticks since boot
    found = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = found.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else start.strip()
