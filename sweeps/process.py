"""Who holds a run: a process, told from a later one of the same number; and whether it lives. No Optuna here."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BEAT = 30.0  # seconds between signs of life
LEASE = 240.0  # seconds after the last sign of life for which another machine's process is believed to live

Owner = dict[str, Any]


def owner(pid: int | None = None) -> Owner:
    """The process `pid` of this machine (default: this one), as other processes and machines can check on it."""
    pid = os.getpid() if pid is None else pid
    return {"host": socket.gethostname(), "pid": pid, "start": started(pid), "beat": time.time()}


def alive(who: Mapping[str, Any]) -> bool:
    """Whether an owner lives: on this machine by pid and start time, on another by its last sign of life."""
    if who["host"] != socket.gethostname():
        return time.time() - who["beat"] < LEASE
    return who["start"] is not None and started(who["pid"]) == who["start"]


def started(pid: int) -> str | None:
    """When a process of this machine started, in the system's own words; None if it has ended (or is a zombie)."""
    if Path("/proc/self/stat").exists():
        try:
            state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state in "ZX" else rest[18]  # field 22 of proc(5): clock ticks since boot
    found = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = found.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else start.strip()
