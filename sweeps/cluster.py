"""Workers of a study as jobs: of Slurm, or processes on this machine. Each job runs `vit-sweep worker`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from experiments.errors import UserError, first_line, writing
from experiments.files import PART, read_json, write_json
from sweeps.queue.process import ProcessInfo, is_alive, process_info

FOLDER = "cluster"  # in the study's folder: a file JOB.json for each job, and the logs
JOB_NAME = "vit-sweep-{}"  # of a study
COMMAND_TIMEOUT = 30  # seconds for an answer of Slurm
STOPPED = [128 + getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGTERM") if hasattr(signal, name)]
SCRIPT = """\
#!/bin/bash
# A worker that is stopped has saved its runs after each epoch. The job runs again, unless its user has cancelled it, or no
# epoch has ended within its time limit.
trap : TERM
job=$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID
started={started}$job
touch "$started"  # with the time of the folder's file system
echo "vit-sweep: job $job has started"
srun --unbuffered --cpus-per-task="$SLURM_CPUS_PER_TASK" {command}
status=$?
saved=$(find {study_dir} -mindepth 2 -maxdepth 2 '(' -name summary.json -o -name 'resume*.safetensors' ')' -newer "$started")
rm -f "$started"
case $status in {stopped}) ;; *) exit $status ;; esac
[ "$(squeue --noheader --array --jobs="$job" --format=%T)" = RUNNING ] || exit $status
if [ -n "$saved" ] || [ $status = {terminated} ]; then
    scontrol requeue "$job"
else
    echo "vit-sweep: no epoch has ended since the job started; it needs a longer --time" >&2
fi
exit $status
"""


class Job(BaseModel):
    """A job that was submitted. `process` is that of a local job."""

    job: str
    cluster: str
    process: ProcessInfo | None = None


def submit(
    study_dir: Path, name: str, cluster: str, jobs: int, options: Mapping[str, Any], worker: Sequence[str]
) -> list[str]:
    """Submit so many jobs, each one a worker with the options `worker` of `vit-sweep worker`. Returns their ids.

    `options`: those of sbatch, without the dashes; true for one without a value. Raises `UserError` where the cluster refuses
    the jobs. Local jobs start one after the other: those that have started before another one cannot start run on.
    """
    study_dir = study_dir.resolve()
    folder, submitted = study_dir / FOLDER, []
    command = [sys.executable, "-m", "sweeps.main", "worker", str(study_dir), *worker]
    with writing(folder):
        folder.mkdir(exist_ok=True)
    try:
        if cluster == "slurm":
            ids = _submit_array(study_dir, name, jobs, options, command)
            submitted = [Job(job=job, cluster=cluster) for job in ids]
        else:
            for place in range(jobs):
                process = _start(command, folder / f"local-{place}.log", place, options.get("gpus-per-node") or 0)
                submitted.append(Job(job=str(process.pid), cluster=cluster, process=process))
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        reason = said.strip().splitlines()[0].removeprefix("sbatch: error: ")
        raise UserError(f"--cluster: {cluster} has refused the jobs: {reason}") from error
    finally:
        for job in submitted:
            write_json(folder / f"{job.job}.json", job.model_dump())
    return [job.job for job in submitted]


def _submit_array(
    study_dir: Path, name: str, jobs: int, options: Mapping[str, Any], command: Sequence[str]
) -> list[str]:
    """Submit an array of jobs to Slurm. Returns their ids."""
    folder = study_dir / FOLDER
    script = SCRIPT.format(
        started=shlex.quote(str(folder / PART)),
        study_dir=shlex.quote(str(study_dir)),
        command=shlex.join(command),
        stopped="|".join(map(str, STOPPED)),
        terminated=128 + signal.SIGTERM,
    )
    given = {
        "job-name": JOB_NAME.format(name),
        "array": f"0-{jobs - 1}",
        "output": f"{folder}/%A_%a.log",
        "open-mode": "append",
        "nodes": 1,
        "ntasks": 1,
        "signal": "USR2@30",  # seconds before the end; Slurm may send it up to a minute earlier
        "requeue": None if "no-requeue" in options else True,
        **options,
    }
    words = [f"--{key}" + f"={value}" * (value is not True) for key, value in given.items() if value is not None]
    sbatch = ["sbatch", "--parsable", *words]
    done = subprocess.run(sbatch, input=script, capture_output=True, text=True, check=True)
    job = done.stdout.strip().partition(";")[0]  # the name of the cluster may follow
    return [f"{job}_{place}" for place in range(jobs)]


def _start(command: Sequence[str], log: Path, place: int, gpus: int) -> ProcessInfo:
    """Start a job on this machine. Jobs get different GPUs, and outlive the command and its terminal."""
    devices = ",".join(str(place * gpus + n) for n in range(gpus))
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": devices} if gpus else {})}
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    return process_info(process.pid)


def read_jobs(study_dir: Path, name: str) -> list[dict[str, Any]]:
    """The jobs that were submitted for a study and have not ended: id, cluster, state and node, as far as they are known.

    Slurm is asked for its jobs. Where it does not answer, their state is "unknown". Raises `UserError` naming a damaged file.
    """
    jobs = [
        _read_job(path) for path in sorted((study_dir / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime)
    ]
    states = _slurm_states(name) if any(job.process is None for job in jobs) else {}
    shown = []
    for job in jobs:
        if job.process is None:
            state, node = states.get(job.job, ("", "")) if states is not None else ("unknown", "")
        else:
            state, node = ("RUNNING" if is_alive(job.process) else "", job.process.host)
        if state:
            shown.append({"job": job.job, "cluster": job.cluster, "state": state, "node": node or None})
    return shown


def _read_job(path: Path) -> Job:
    try:
        return Job.model_validate(read_json(path))
    except ValidationError as error:
        raise UserError(f"{path}: {first_line(error)}; delete this file, which names no job") from error


def _slurm_states(name: str) -> dict[str, tuple[str, str]] | None:
    """Job -> its state, and its node or the reason why it waits; None where Slurm does not answer."""
    command = ["squeue", "--noheader", "--array", f"--name={JOB_NAME.format(name)}", "--format=%i %T %R"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    words = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    return {job: (state, where) for job, state, where in words}
