"""`vit-sweep run`: train a study or resume it; with --dry-run, estimate the time."""

import argparse
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.cli import positive
from experiments.errors import UserError
from experiments.runs.record import read_ended
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.settings import Tracking, add_alert_argument, add_tracking_arguments
from experiments.study import RunSpec, StudyPlan
from sweeps.commands.arguments import add_study_command, add_until_decided, counted, out_dir, parse_plan
from sweeps.commands.manage import report_cancelled
from sweeps.commands.show import margin_text, print_plan
from sweeps.estimate import FIRST_EPOCH_SECONDS, estimate
from sweeps.study_folder import ERROR, LOG, check_plan
from sweeps.until_decided import runs_by_look
from sweeps.workers.worker import WorkerConfig, worker_configs

WORKERS = "number of workers (default: one per GPU; without a GPU, one per CPU core)"
COHORT = """\
number of runs of a variant that a worker trains together, stacked into one model; auto: on a GPU as many as fit into
its memory; on a CPU 1. Runs interrupted together resume together (default: auto)"""
DEVICE = "auto, cpu, cuda (every GPU) or one GPU such as cuda:1; auto: every GPU, else the CPU (default: auto)"
STORAGE = """\
database of the queue: postgresql+psycopg://HOST/DATABASE for several machines, or sqlite:///FILE; later commands on
the folder find it (default: optuna.db in the study's folder). All machines share the folder; machines that cannot
train different --seeds in folders of their own, whose run folders are then copied into one"""


def add(commands: Any) -> None:
    """Add `run`."""
    command = add_study_command(
        commands,
        "run",
        run,
        help="train a study, or resume it",
        description="Train a study. Run the same command again to resume. The exit status is 0 if every run has ended, "
        "and 1 "
        "if runs failed in every attempt or the study was cancelled.",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="show the grid and an estimate of the time; train nothing"
    )
    add_until_decided(command)
    add_worker_arguments(command)


def add_worker_arguments(run: argparse.ArgumentParser) -> None:
    """Add the number and kind of workers, where their runs are mirrored, and the storage."""
    run.add_argument("--workers", type=positive, metavar="N", help=WORKERS)
    run.add_argument("--cohort", type=_cohort, metavar="N|auto", help=COHORT)
    add_place_arguments(run)
    add_alert_argument(run)


def add_place_arguments(run: argparse.ArgumentParser) -> None:
    """Add the device, where runs are mirrored, and the storage of the queue."""
    run.add_argument("--device", default="auto", help=DEVICE)
    add_tracking_arguments(run)
    run.add_argument("--storage", type=storage_url, metavar="URL", help=STORAGE)


def storage_url(text: str) -> str:
    """The value of --storage. A password in it is refused and not repeated."""
    from sweeps.queue.url import parse_given_url

    try:
        return parse_given_url(text).render_as_string()
    except UserError as error:  # argparse must not repeat the URL, which may hold a password
        raise argparse.ArgumentTypeError(str(error).removeprefix("storage: ")) from None


def _cohort(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def run(arguments: argparse.Namespace, command: str) -> int:
    """Train the study. Returns 1 if runs failed in every attempt or the study was cancelled."""
    plan = parse_plan(arguments)
    study_dir = out_dir(arguments) / plan.name
    check_plan(plan, study_dir)
    left = [run for run in plan.runs if read_ended(study_dir, run) is None]
    tracking, configs = tracking_of(arguments), configured_workers(arguments, study_dir)
    if arguments.dry_run:
        from sweeps.queue.connect import check_storage
        from sweeps.queue.optuna_study import read_queue

        check_storage(study_dir, arguments.storage)
        read_queue(study_dir, plan.name)  # its database can be used
        duration = _duration(left, configs) if left else ""  # it finds bad input before anything is printed
        print_plan(plan, study_dir)
        if left:
            most = "up to " if plan.until_decided else ""
            print(f"Estimated time for {most}{counted(left, 'run')} with {counted(configs, 'worker')}: {duration}")
        return 0
    intro = _start_line(plan, left, configs)
    return train_and_report(plan, study_dir, arguments, tracking, configs, None, command=command, intro=intro)


def train_and_report(
    plan: StudyPlan,
    study_dir: Path,
    arguments: argparse.Namespace,
    tracking: Tracking,
    configs: Sequence[WorkerConfig],
    cancelled: Path | None,
    **options: Any,
) -> int:
    """Train the runs that are left, look by look where variants stop. Returns 1 if runs failed or the study was
    cancelled.

    `cancelled`: of `report_cancelled`. `options`: of the first `run_sweep`.
    """
    with Mirror(tracking, study_dir, alert=arguments.alert):
        for only in runs_by_look(plan, study_dir):
            failed = train_left(plan, study_dir, arguments, configs, only, **options)
            if failed is None or failed:
                break
            options = {}
    return report_cancelled(cancelled) if failed is None else print_result(plan, study_dir, failed)


def train_left(
    plan: StudyPlan,
    study_dir: Path,
    arguments: argparse.Namespace,
    configs: Sequence[WorkerConfig],
    only: set[str] | None = None,
    **options: Any,
) -> dict[str, str] | None:
    """Train the runs that are left, or `only` some of them. Returns the failed runs and why; None if the study was
    cancelled.

    `options`: of `run_sweep`.
    """
    from sweeps.workers.pool import StudyCancelled, run_sweep

    given = {name: getattr(arguments, name) for name in ("cohort", "storage")}
    try:
        state = run_sweep(plan, study_dir, configs, only=only, **given, **options)
    except StudyCancelled:
        return None
    return state.failed


def tracking_of(arguments: argparse.Namespace) -> Tracking:
    """Where the runs are mirrored."""
    return Tracking(arguments.tracking, arguments.project, arguments.entity)


def configured_workers(arguments: argparse.Namespace, study_dir: Path) -> list[WorkerConfig]:
    """The configuration of each worker that the arguments ask for. Raises `UserError`."""
    return worker_configs(study_dir / LOG, device=arguments.device, workers=arguments.workers)


def _duration(left: Sequence[RunSpec], configs: Sequence[WorkerConfig]) -> str:
    """About how long these runs take, in words."""
    from sweeps.workers.progress import format_duration

    seconds = estimate(left, configs)
    if seconds is None:
        return f"not known, because no epoch could be measured within {FIRST_EPOCH_SECONDS:.0f} s"
    return f"about {format_duration(seconds)}, based on a short measurement"


def _start_line(plan: StudyPlan, left: Sequence[RunSpec], configs: Sequence[WorkerConfig]) -> str:
    """What the sweep is about to do."""
    devices = dict.fromkeys(config.device for config in configs)
    places = ["the CPU" if device == "auto" else device for device in devices]  # without a GPU, `auto` stays `auto`
    most = "up to " if plan.until_decided else ""
    return (
        f"{plan.name}: {counted(plan.labels, 'variant')} x {most}{counted({run.seed for run in plan.runs}, 'seed')}, "
        f"{most}{counted(left, 'run')} to train with {counted(configs, 'worker')} on {' and '.join(places)}; "
        f"metric {plan.metric}, equivalence margin {margin_text(plan)}"
    )


def count_runs(plan: StudyPlan, study_dir: Path, failed: Mapping[str, str]) -> Counter[str]:
    """Status -> the number of runs that ended with it, or that failed."""
    ended = [summary for run in plan.runs if (summary := read_ended(study_dir, run))]
    return Counter([*(summary["status"] for summary in ended), *["failed"] * len(failed)])


def counts_text(counts: Counter[str], what: str) -> str:
    """Numbers by status as text: "8 runs: 7 finished, 1 failed"."""
    return f"{counted([*counts.elements()], what)}: {', '.join(f'{n} {status}' for status, n in counts.items())}"


def print_result(plan: StudyPlan, study_dir: Path, failed: Mapping[str, str]) -> int:
    """Print what was trained, where it is, and the next command. Returns 1 if runs failed."""
    print(counts_text(count_runs(plan, study_dir, failed), "run"))
    for name, reason in failed.items():
        print(f"failed: {name}: {reason} (see {study_dir / name / ERROR})")
    print(f"study: {study_dir}")
    print(f"next: vit-report {shlex.quote(str(study_dir))}")
    return 1 if failed else 0
