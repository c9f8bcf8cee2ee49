"""`vit-sweep submit`: start workers of a study as jobs of a cluster."""

import argparse
import re
import shutil
from typing import Any

from experiments.cli import positive
from experiments.errors import UserError
from sweeps import cluster
from sweeps.commands.arguments import (
    PROG,
    add_study_command,
    add_until_decided,
    counted,
    device_of,
    plan_and_folder,
    prepare_runs,
)
from sweeps.commands.run import add_worker_arguments

FLAGS = ("time", "cpus_per_task", "gpus_per_node", "mem", "partition", "account")  # options of sbatch of the same name
SET_HERE = (
    *(flag.replace("_", "-") for flag in FLAGS),
    *("array", "job-name", "nodes", "ntasks", "open-mode", "output", "signal"),
)
SLURM = "another option of sbatch, such as qos=high or exclusive; not one that a flag here sets"
DESCRIPTION = """\
Write the plan of a study and submit jobs that train it. Each job is a worker (see `vit-sweep worker --help`) and takes
runs from the queue until none is left. STUDY may also be the folder of a study that has been started.

A job that Slurm stops (time limit, preemption, SIGTERM, SIGUSR1, SIGUSR2) keeps the last finished epoch of its runs,
releases them for other workers, and is requeued. A job that its user cancels is not. The logs are in STUDY_DIR/cluster.
See the jobs with `vit-sweep status STUDY_DIR`, stop them all with `vit-sweep cancel STUDY_DIR`.

All nodes need the study's folder, and the same environment as this shell. With more than one node, a queue in
PostgreSQL (--storage) is safest: the default file needs a shared file system whose locks work across nodes."""


def add(commands: Any) -> None:
    """Add `submit`."""
    command = add_study_command(
        commands, "submit", submit, help="train a study on a cluster, with Slurm", description=DESCRIPTION
    )
    option = command.add_argument
    option("--cluster", choices=["slurm"], default="slurm", help="kind of the cluster (default: slurm)")
    option("--nodes", type=positive, default=1, metavar="N", help="number of jobs, one node each (default: 1)")
    option("--gpus-per-node", type=positive, metavar="N", help="GPUs of each job (default: none)")
    option(
        "--cpus-per-task",
        type=positive,
        metavar="N",
        help="CPU cores of each job; without GPUs, each trains a run (default: 1)",
    )
    option("--time", metavar="TIME", help="limit on Slurm: minutes, H:MM:SS or D-HH:MM (default: 60)")
    option("--partition", metavar="NAME", help="partition of Slurm (default: the cluster's)")
    option("--mem", metavar="SIZE", help="memory of each job, such as 16G (default: the cluster's)")
    option("--account", metavar="NAME", help="account that is charged (default: yours)")
    option("--slurm", action="append", default=[], type=_option, metavar="KEY=VALUE", help=SLURM)
    add_until_decided(command)
    add_worker_arguments(command)


def _option(text: str) -> tuple[str, str | bool]:
    key, equals, value = text.strip().lstrip("-").partition("=")
    key = key.replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", key) or (equals and not value):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected an option of sbatch, such as qos=high")
    if key in SET_HERE:
        raise argparse.ArgumentTypeError(f"{key} is not allowed: `{PROG} submit` sets it; see its --help")
    return key, value if equals else True


def submit(arguments: argparse.Namespace, command: str) -> int:
    """Write the plan and submit the jobs."""
    plan, study_dir = plan_and_folder(arguments)
    if not shutil.which("sbatch"):
        raise UserError("--cluster: 'slurm' is not available: this machine has no sbatch; `vit-sweep run` needs none")
    left = prepare_runs(plan, study_dir, command, arguments)
    if not left:
        print(f"{plan.name}: every run has ended or is in training; nothing to submit")
        return 0
    options = {flag.replace("_", "-"): value for flag in FLAGS if (value := getattr(arguments, flag))}
    options = {"time": "60", "cpus-per-task": 1, **options, **dict(arguments.slurm)}
    ids = cluster.submit(study_dir, plan.name, arguments.nodes, options, worker_options(arguments))
    most = "up to " if plan.until_decided else ""
    print(f"{plan.name}: {most}{counted(left, 'run')} to train, {counted(ids, 'job')} submitted: {', '.join(ids)}")
    print(f"logs: {study_dir / cluster.FOLDER}")
    print(f"next: {PROG} status {study_dir}")
    return 0


def worker_options(arguments: argparse.Namespace) -> list[str]:
    """The options of `vit-sweep worker` in each job. The storage is noted in the study's folder."""
    given = {**vars(arguments), "device": device_of(arguments)}
    if not (arguments.workers or arguments.gpus_per_node):
        given["workers"] = arguments.cpus_per_task or 1
    flags = ("workers", "cohort", "device", "tracking", "project", "entity")
    words = [(f"--{flag.replace('_', '-')}", str(given[flag])) for flag in flags if given[flag] is not None]
    return [word for pair in words for word in pair]
