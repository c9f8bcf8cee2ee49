"""Workers of a study as jobs of Slurm. Each job runs `vit-sweep worker`."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import UserError, writing
from experiments.files import PART

FOLDER = "cluster"  # in the study's folder: the logs, and a file with the ids of the jobs
JOBS = "jobs"
JOB_NAME = "vit-sweep-{}"  # of a study
COMMAND_TIMEOUT = 30  # seconds for an answer of Slurm
STOPPED = [128 + getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGTERM") if hasattr(signal, name)]
TOO_SHORT = "vit-sweep: no epoch has ended since the job started; it needs a longer --time"
SCRIPT = """\
#!/bin/bash
# A worker that is stopped has saved its runs after each epoch. The job runs again, unless its user has cancelled it, or
# no epoch has ended within its time limit.
trap : TERM
job=$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID
started={started}$job
touch "$started"  # with the time of the folder's file system
echo "vit-sweep: job $job has started"
srun --unbuffered --cpus-per-task="$SLURM_CPUS_PER_TASK" {command}
status=$?
saved=$(find {study_dir} -mindepth 2 -maxdepth 2 \
  '(' -name summary.json -o -name 'resume*.safetensors' ')' -newer "$started")
rm -f "$started"
case $status in {stopped}) ;; *) exit $status ;; esac
[ "$(squeue --noheader --array --jobs="$job" --format=%T)" = RUNNING ] || exit $status
if [ -n "$saved" ] || [ $status = {terminated} ]; then
    scontrol requeue "$job"
else
    echo "{too_short}" >&2
fi
exit $status
"""


def submit(study_dir: Path, name: str, jobs: int, options: Mapping[str, Any], worker: Sequence[str]) -> list[str]:
    """Submit an array of so many jobs, each one a worker with the options `worker` of `vit-sweep worker`. Returns their
    ids.

    `options`: those of sbatch, without the dashes; true for one without a value. Raises `UserError` where Slurm refuses
    the jobs.
    """
    study_dir = study_dir.resolve()
    folder = study_dir / FOLDER
    command = [sys.executable, "-m", "sweeps.main", "worker", str(study_dir), *worker]
    script = SCRIPT.format(
        started=shlex.quote(str(folder / PART)),
        study_dir=shlex.quote(str(study_dir)),
        command=shlex.join(command),
        stopped="|".join(map(str, STOPPED)),
        terminated=128 + signal.SIGTERM,
        too_short=TOO_SHORT,
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
    with writing(folder):
        folder.mkdir(exist_ok=True)
    try:
        sbatch = ["sbatch", "--parsable", *words]
        done = subprocess.run(sbatch, input=script, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        reason = said.strip().splitlines()[0].removeprefix("sbatch: error: ")
        raise UserError(f"--cluster: slurm has refused the jobs: {reason}") from error
    job = done.stdout.strip().partition(";")[0]  # the name of the cluster may follow
    ids = [f"{job}_{place}" for place in range(jobs)]
    with writing(folder), (folder / JOBS).open("a") as file:
        file.writelines(f"{job}\n" for job in ids)
    return ids


def read_jobs(study_dir: Path, name: str) -> list[dict[str, Any]]:
    """The jobs that were submitted for a study and have not ended: id, state, and the node or the reason why it waits.

    Also those that have ended before an epoch did, as their logs say. Where Slurm does not answer, their state is
    "unknown".
    """
    path = study_dir / FOLDER / JOBS
    if not path.exists():
        return []
    jobs = path.read_text().split()
    command = ["squeue", "--noheader", "--array", f"--name={JOB_NAME.format(name)}", "--format=%i %T %R"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return [{"job": job, "state": "unknown", "node": None} for job in jobs]
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    listed = {job for job, *_ in rows}
    logs = {job: log for job in jobs if job not in listed and (log := path.with_name(f"{job}.log")).exists()}
    rows += [[job, "ended", TOO_SHORT] for job, log in logs.items() if TOO_SHORT in log.read_text(errors="replace")]
    return [{"job": job, "state": state, "node": node} for job, state, node in rows if job in jobs]
