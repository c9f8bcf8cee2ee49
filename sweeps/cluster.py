"""Workers on a cluster, through submitit: each job runs `vit-sweep worker`, and is requeued when it is stopped early."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.cli import INTERRUPTS
from experiments.errors import UserError, writing
from experiments.runs import record, resume_note
from sweeps.queue.process import ProcessInfo, is_alive, process_info

FOLDER = "cluster"  # in the study's folder: submitit's files and the logs of the jobs
JOBS = "jobs.jsonl"  # in that folder: one line for each submitted job
LOG = "local.log"  # in that folder: what the processes that hold local jobs print
JOB_NAME = "vit-sweep-{}"  # of a study
MAX_REQUEUES = 1000  # of a job, after its time limit; a job that makes no progress is not requeued at all
COMMAND_TIMEOUT = 30  # seconds for an answer of Slurm
STOPS = tuple(  # the signals that stop a job; a local job ignores SIGHUP, and so outlives its terminal
    getattr(signal, name) for name in INTERRUPTS if name != "SIGHUP" and hasattr(signal, name)
)


@dataclass(frozen=True)
class Resources:
    """What each job gets. `minutes` is its time limit; `options` are further options of sbatch, without the dashes."""

    minutes: int
    gpus: int = 0
    cpus: int = 1
    memory: str | None = None
    partition: str | None = None
    account: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)

    @property
    def signal_delay(self) -> int:
        """Seconds from the signal to the end of the time limit. Slurm may send the signal up to a minute earlier."""
        return max(10, min(60, self.minutes * 60 // 8))


@dataclass(frozen=True)
class SubmittedJob:
    """A line of `JOBS`. `process` holds a local job; None on another cluster."""

    job: str
    cluster: str
    process: ProcessInfo | None


@dataclass(frozen=True)
class ClusterWorker:
    """What a job does: `vit-sweep worker` with these arguments, in the job's own process.

    SIGTERM, SIGUSR1 and SIGUSR2 end the worker as Ctrl-C does: the state of its runs has been saved after each epoch, and they
    are released at once, so that any other worker continues them. Then the job is requeued. It is not requeued where its user
    has cancelled it, or where no epoch has ended within its time limit.
    """

    study_dir: Path
    options: Sequence[str] = ()

    def __call__(self) -> int:
        requeue: Any = signal.getsignal(
            signal.SIGUSR2
        )  # submitit's: it calls `checkpoint`, asks for a requeue and exits
        for number in STOPS:
            signal.signal(number, signal.SIG_DFL)  # the command handles them
        with self._start_marker() as started:
            status = self._work()
            if status - 128 in STOPS and self._may_requeue(status - 128, started):
                requeue(signal.SIGUSR2, None)
        if status:
            sys.exit(status)
        return 0

    def checkpoint(self) -> Any:
        """What a requeued job does: the same. submitit calls it."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _work(self) -> int:
        """Run the command as `python -m` does, but in this process. Returns its exit status."""
        sys.argv = ["vit-sweep", "worker", str(self.study_dir), *self.options]
        try:
            runpy.run_module("sweeps.main", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    @contextlib.contextmanager
    def _start_marker(self) -> Iterator[Path]:
        """A file that was written when this job started: its time is that of the folder's file system."""
        path = self.study_dir / FOLDER / f"{record.PART}{os.getpid()}-{os.uname().nodename}"
        path.touch()
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _may_requeue(self, number: int, started: Path) -> bool:
        """Whether the job should run again after this signal."""
        if "SLURM_JOB_ID" not in os.environ:
            return number != signal.SIGTERM  # a local job gets SIGUSR2 at its time limit
        if _slurm_state(os.environ["SLURM_JOB_ID"]) != "RUNNING":
            return False  # cancelled by its user, or being requeued by Slurm
        if number == signal.SIGTERM or self._has_progressed(started.stat().st_mtime):
            return True
        print(
            "vit-sweep: no epoch has ended since the job started; it needs a longer --time", file=sys.stderr, flush=True
        )
        return False

    def _has_progressed(self, since: float) -> bool:
        """Whether any run of the study has saved an epoch since then."""
        for name in (record.SUMMARY, resume_note.NEWER, resume_note.NAME):
            for path in self.study_dir.glob(f"*/{name}"):
                with contextlib.suppress(OSError):  # deleted meanwhile
                    if path.stat().st_mtime > since:
                        return True
        return False


def submit(
    study_dir: Path, name: str, cluster: str, jobs: int, resources: Resources, options: Sequence[str]
) -> list[str]:
    """Submit so many jobs, each one a worker with these options of `vit-sweep worker`. Returns their ids.

    Raises `UserError` where the cluster refuses them, which leaves nothing in the folder. Local jobs start one after the
    other: those that have started before another one cannot start run on, and are noted as the others are. Raises
    `UserError` as well where submitted jobs cannot be noted.
    """
    import submitit

    folder, said, ids = study_dir.resolve() / FOLDER, io.StringIO(), list[str]()
    new, worker = not folder.exists(), ClusterWorker(study_dir.resolve(), tuple(options))
    with writing(folder):
        folder.mkdir(exist_ok=True)
    try:
        if cluster == "slurm":
            executor = submitit.SlurmExecutor(folder, MAX_REQUEUES)
            executor.update_parameters(**_slurm_parameters(name, resources))
            with contextlib.redirect_stderr(said):  # submitit repeats there what sbatch says
                ids = [job.job_id for job in executor.submit_array([worker] * jobs)]
            _note(folder, cluster, ids)
        else:
            for place in range(jobs):
                ids.append(_submit_local(folder, worker, place, resources))
                _note(folder, cluster, ids[-1:])
    except (RuntimeError, subprocess.SubprocessError, OSError) as error:
        if new and not ids:
            shutil.rmtree(folder, ignore_errors=True)
        lines = said.getvalue().strip().splitlines()[:1] or (str(error).strip() or repr(error)).splitlines()[-1:]
        reason = lines[0].removeprefix("sbatch: error: ")
        started = f"; started before, and running on: {', '.join(ids)}" if ids else ""
        raise UserError(f"--cluster: {cluster} has refused the jobs: {reason}{started}") from error
    return ids


def _note(folder: Path, cluster: str, ids: Sequence[str]) -> None:
    """Add submitted jobs to the file that `read_jobs` reads. Raises `UserError` where it cannot be written."""
    path, lines = folder / JOBS, ""
    for job_id in ids:
        process = asdict(process_info(int(job_id))) if cluster == "local" else None
        tree = {"job": job_id, "cluster": cluster, "submitted": time.time(), "process": process}
        lines += json.dumps(tree) + "\n"
    try:
        with path.open("ab") as file:
            body = path.read_bytes()
            if body and not body.endswith(b"\n"):
                file.truncate(body.rfind(b"\n") + 1)  # drops the beginning of a line that a killed command left
            file.write(lines.encode())
    except OSError as error:
        lost = f"`vit-sweep status` does not show these jobs, which were submitted: {', '.join(ids)}"
        raise UserError(f"{path}: cannot be written: {error.strerror}; {lost}") from error


def _slurm_parameters(name: str, resources: Resources) -> dict[str, Any]:
    """The parameters of submitit's executor."""
    optional = {
        "gpus_per_node": resources.gpus or None,
        "mem": resources.memory,
        "partition": resources.partition,
        "account": resources.account,
    }
    requeue = {} if "no-requeue" in resources.options else {"requeue": True}
    return {
        "job_name": JOB_NAME.format(name),
        "time": resources.minutes,
        "cpus_per_task": resources.cpus,
        "srun_args": [f"--cpus-per-task={resources.cpus}"],  # since 22.05, srun does not inherit it from sbatch
        "signal_delay_s": resources.signal_delay,
        "stderr_to_stdout": True,
        "additional_parameters": {**requeue, **resources.options},
        **{key: value for key, value in optional.items() if value is not None},
    }


def _submit_local(folder: Path, worker: ClusterWorker, place: int, resources: Resources) -> str:
    """Start a job on this machine. Jobs get different GPUs, and outlive the command and its terminal."""
    import submitit

    executor = submitit.LocalExecutor(folder, MAX_REQUEUES)
    executor.update_parameters(
        timeout_min=resources.minutes,
        signal_delay_s=resources.signal_delay,
        gpus_per_node=resources.gpus,
        visible_gpus=tuple(range(place * resources.gpus, (place + 1) * resources.gpus)),
        stderr_to_stdout=True,
    )
    with _detached(folder / LOG):
        return str(executor.submit(worker).job_id)


@contextlib.contextmanager
def _detached(log: Path) -> Iterator[None]:
    """Processes that are started here print into a log, and ignore Ctrl-C and the end of the terminal."""
    signals = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("a") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, own in zip((1, 2), kept, strict=True):
            os.dup2(own, number)
            os.close(own)
        for number, handler in signals.items():
            signal.signal(number, handler)


def read_jobs(study_dir: Path, name: str) -> list[dict[str, Any]]:
    """The jobs that were submitted for a study and have not ended: id, cluster, state and node, as far as they are known.

    Slurm is asked for its jobs. Where it does not answer, their state is "unknown". Raises `UserError` naming the line of
    `JOBS` that is damaged.
    """
    jobs = _noted_jobs(study_dir / FOLDER / JOBS)
    states = _slurm_states(name) if any(job.process is None for job in jobs) else {}
    found = []
    for job in jobs:
        if job.process is None:
            state, node = states.get(job.job, ("", "")) if states is not None else ("unknown", "")
        else:
            state, node = ("RUNNING" if is_alive(job.process) else "", job.process.host)
        if state:
            found.append({"job": job.job, "cluster": job.cluster, "state": state, "node": node or None})
    return found


def _noted_jobs(path: Path) -> list[SubmittedJob]:
    """The jobs that `_note` has added to a file; none where there is no file."""
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    jobs = []
    whole = body[: body.rfind(b"\n") + 1]  # without the beginning of a line that a killed command left
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            tree = json.loads(line)
            process = ProcessInfo(**tree["process"]) if tree["cluster"] == "local" else None
            jobs.append(SubmittedJob(tree["job"], tree["cluster"], process))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}: line {number} is damaged, and names no job; delete this line") from error
    return jobs


def _slurm_states(name: str) -> dict[str, tuple[str, str]] | None:
    """Job -> its state, and its node or the reason why it waits; None where Slurm does not answer."""
    answer = _ask("squeue", "--noheader", "--array", f"--name={JOB_NAME.format(name)}", "--format=%i %T %R")
    if answer is None:
        return None
    words = [line.split(maxsplit=2) for line in answer.splitlines()]
    return {job: (state, where) for job, state, where in words}


def _slurm_state(job: str) -> str | None:
    """The state of a job, such as RUNNING, or COMPLETING after it was cancelled; None where Slurm does not answer."""
    words = (_ask("scontrol", "show", "job", "--oneliner", job) or "").split()
    return next((word.partition("=")[2] for word in words if word.startswith("JobState=")), None)


def _ask(*command: str) -> str | None:
    """What a command of Slurm prints; None where it is missing, fails, or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
