"""A Ray cluster on this machine, begun and ended by process id: `ray stop` would end every Ray of the machine."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from stubbed import until

RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
os.environ["RAY_AUTH_MODE"] = "disabled"  # whether or not the home folder has a token
STORE = "--object-store-memory=80000000"


class RayCluster:
    """A head with so many CPU slots. Its folder has a short path, because those of sockets are limited.

    `root` as RAY_TMPDIR makes it the cluster of this machine.
    """

    def __init__(self, slots: int = 0) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self.folder = self.root / "ray"
        self.folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self._start(slots, "--head", f"--port={port}", f"--temp-dir={self.folder}", "--include-dashboard=false")

    def add_node(self, slots: int = 1) -> subprocess.Popen[bytes]:
        """Add a node. Its raylet is a child of the process that is returned."""
        return self._start(slots, f"--address={self.address}")

    def _start(self, slots: int, *words: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"start-{len(self.nodes)}"
        with log.open("wb") as out:
            node = subprocess.Popen([*RAY, *words, STORE, f"--num-cpus={slots}"], stdout=out, stderr=out)
        self.nodes.append(node)
        until(lambda: b"runtime started" in log.read_bytes() or node.poll() is not None)
        assert node.poll() is None, log.read_text()
        return node

    def processes(self, name: str) -> list[int]:
        """The processes of the cluster whose command has this in it, such as gcs_server or ray::Actor."""
        return [pid for node in self.nodes for pid in descendants(node.pid, name)]

    def end(self) -> None:
        """End all processes, and remove the folder."""
        for pid in self.processes(""):
            kill(pid)
        for node in self.nodes:
            node.kill()
            node.wait()
        shutil.rmtree(self.root, ignore_errors=True)


def kill(pid: int) -> None:
    """SIGKILL, where the process has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(ancestor: int, name: str = "") -> list[int]:
    """The processes that a process has started, and those have started, with this in their command; no zombies."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(path.parent.name)] = int(parent)
    below, found = {ancestor}, []
    while new := [pid for pid, parent in parents.items() if parent in below and pid not in below]:
        below |= {*new}
        found += new
    commands = {pid: _command(pid) for pid in found}
    return [pid for pid, command in commands.items() if name in command]


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
