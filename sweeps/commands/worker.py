"""`vit-sweep worker` and `cell`: train runs of a study that has been started, all of them or one, from any machine."""

import argparse
from dataclasses import replace
from typing import Any

from experiments.metric import Metric
from experiments.runs.record import read_summary
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.settings import AgentRun
from sweeps.commands.arguments import PROG, add_study_dir_command, existing_plan
from sweeps.commands.manage import check_names, report_cancelled
from sweeps.commands.run import (
    add_place_arguments,
    add_worker_arguments,
    configured_workers,
    tracking_of,
    train_and_report,
    train_left,
)
from sweeps.study_folder import ERROR
from sweeps.workers.progress import result_text


def add(commands: Any) -> None:
    """Add `worker` and `cell`."""
    command = add_study_dir_command(
        commands,
        "worker",
        worker,
        help="join the sweep of a study, from any machine",
        description="Train the runs of a study that are left, together with any other sweep or worker on any machine. "
        "It reads the plan from STUDY_DIR/study.json, waits for runs that others train, and ends when none is left. "
        "The exit status is 0 if every run has ended, and 1 if runs failed in every attempt or the study was "
        "cancelled. Unlike `run`, it does not repeat runs that have failed in all attempts; see `vit-sweep retry`.",
    )
    add_worker_arguments(command)
    command = add_study_dir_command(
        commands,
        "cell",
        cell,
        help="train one named run of a study",
        description="Train one run of a study through its queue: for W&B agents, job arrays and scripts. If another "
        "process is training the run, wait for it, and take it over if that process ends early. Started by a W&B "
        "agent, it mirrors the run to the agent's W&B run; a run that has ended is mirrored from its record. The exit "
        "status is 0 if the run has ended with a record, whoever trained it, and 1 if it failed, or if the study was "
        "cancelled and the run has not ended.",
    )
    command.add_argument(
        "run", metavar="run=NAME", help="the run, as `vit-sweep status --all` lists it; NAME alone works too"
    )
    add_place_arguments(command)
    command.set_defaults(workers=1, cohort=1)


def worker(arguments: argparse.Namespace, _: str) -> int:
    """Join the sweep. Returns 1 if runs failed in every attempt or the study was cancelled."""
    plan, study_dir = existing_plan(arguments)
    configs = configured_workers(arguments, study_dir)
    return train_and_report(plan, study_dir, arguments, tracking_of(arguments), configs, study_dir)


def cell(arguments: argparse.Namespace, _: str) -> int:
    """Train one run. Returns 1 if it failed, or if the study was cancelled before it ended."""
    plan, study_dir = existing_plan(arguments)
    runs = {run.name: run for run in plan.runs}
    name = arguments.run if arguments.run in runs else arguments.run.removeprefix("run=")
    check_names([name], plan, study_dir)
    tracking = replace(tracking_of(arguments), agent=AgentRun.asked_for())
    configs = configured_workers(arguments, study_dir)
    with Mirror(tracking, study_dir, [name]):
        failed = train_left(plan, study_dir, arguments, configs, {name})
    if failed is None:
        return report_cancelled(study_dir)
    if name in failed:
        print(
            f"failed: {name}: {failed[name]} (see {study_dir / name / ERROR}; to try again: {PROG} retry {study_dir} "
            f"{name})"
        )
        return 1
    print(f"{name}: {result_text(read_summary(study_dir / name, runs[name].run_id), Metric(plan.metric))}")
    return 0
