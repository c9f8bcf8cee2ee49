"""A real Slurm cluster of one node on this machine, for tests: started in a folder, and stopped without a trace."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
CONFIG = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock
CryptoType=crypto/munge
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobRequeue=1
KillWait=10
MpiDefault=none
SwitchType=switch/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=tests Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why no cluster can be started here; empty if one can."""
    if missing := [name for name in PROGRAMS if not _program(name)]:
        return f"Slurm is not installed: no {', '.join(missing)}"
    return "" if os.geteuid() == 0 else "slurmd needs root"


class SlurmNode:
    """The cluster. `environment` makes the commands of Slurm use it."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        """Start the three daemons, and wait until the node is idle."""
        for name in ("state", "spool"):
            (self.dir / name).mkdir(parents=True)
        self.dir.chmod(0o755)  # munge refuses a socket that others cannot reach
        key = self.dir / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        host, ports = socket.gethostname().partition(".")[0], _free_ports(2)
        settings = {"host": host, "dir": self.dir, "controller": ports[0], "daemon": ports[1], "cpus": os.cpu_count()}
        (self.dir / "slurm.conf").write_text(CONFIG.format(**settings))
        munge = ["key-file=munge.key", "pid-file=munged.pid", "log-file=munge.log", "seed-file=munge.seed"]
        self._run(
            "munged",
            "--force",
            f"--socket={self.dir}/munge.sock",
            *(f"--{each.replace('=', f'={self.dir}/')}" for each in munge),
        )
        self._run("slurmctld", "-f", str(self.dir / "slurm.conf"))
        self._run("slurmd", "-f", str(self.dir / "slurm.conf"), "-N", host)
        end = time.monotonic() + 60
        while "idle" not in self.run("sinfo", "--noheader", "--format=%T", check=False):
            assert time.monotonic() < end, (self.dir / "slurmctld.log").read_text()
            time.sleep(0.2)

    def run(self, *command: str, check: bool = True) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def stop(self) -> None:
        """Cancel every job, and end the daemons."""
        self.run("scancel", "--user=root", "--signal=KILL", check=False)
        self.run("scancel", "--user=root", check=False)
        end = time.monotonic() + 30
        while self.run("squeue", "--noheader", check=False) and time.monotonic() < end:
            time.sleep(0.2)
        for name in ("slurmd", "slurmctld", "munged"):
            try:
                pid = int((self.dir / f"{name}.pid").read_text())
                os.kill(pid, signal.SIGTERM)
                while time.monotonic() < end + 10 and Path(f"/proc/{pid}").exists():
                    time.sleep(0.1)
            except (OSError, ValueError):  # it has not been started, or has ended
                pass

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [_program(name), *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"


def _program(name: str) -> str:
    """The path of a program; daemons may lie in a folder that is not searched."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or ""


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
