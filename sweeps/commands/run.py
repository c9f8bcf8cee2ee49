"""`vit-sweep run`: train a study or resume it; with --dry-run, estimate the time."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli import add_settings, positive
from experiments.errors import UserError
from experiments.runs.tracking.settings import add_tracking_arguments
from sweeps.commands.arguments import PROG, add_study_command, add_tuned, count, out_dir, parse_plan, warn_of_plan
from sweeps.commands.manage import report_cancelled
from sweeps.commands.show import margin_text, print_plan

if TYPE_CHECKING:
    from experiments.runs.tracking.settings import Tracking
    from experiments.study import StudyPlan
    from sweeps.workers.worker import WorkerConfig


def add_run(commands: Any) -> None:
    """Add `run`."""
    command = add_study_command(
        commands,
        "run",
        run,
        help="train a study, or resume it",
        description="Train a study. Run the same command again to resume. The exit status is 0 if every run has ended, and 1 "
        "if runs failed in every attempt or the study was cancelled.",
    )
    add_tuned(command)
    command.add_argument(
        "--dry-run", action="store_true", help="show the grid and an estimate of the time; train nothing"
    )
    add_worker_arguments(command)
    add_settings(command, hidden=["seed"])  # a study has `seeds`


def add_worker_arguments(run: argparse.ArgumentParser) -> None:
    """Add the number and kind of workers, where their runs are mirrored, and the storage."""
    workers = run.add_mutually_exclusive_group()
    workers.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="number of workers (default: one per GPU; without a GPU, one per CPU core)",
    )
    workers.add_argument(
        "--workers-per-gpu",
        type=positive,
        metavar="N",
        help="number of workers on each GPU; they share its memory (default: 1)",
    )
    run.add_argument(
        "--cohort",
        type=_cohort,
        metavar="N|auto",
        help="number of runs of a variant that a worker trains together, stacked into one model; auto: on a GPU the fastest "
        "number, by a short measurement; on a CPU 1. Runs interrupted together resume together (default: auto)",
    )
    add_place_arguments(run)


def add_place_arguments(run: argparse.ArgumentParser) -> None:
    """Add the device, where runs are mirrored, and the storage of the queue."""
    run.add_argument(
        "--device",
        default="auto",
        help="auto, cpu, cuda (every GPU) or one GPU such as cuda:1; auto: every GPU, else the CPU (default: auto)",
    )
    add_tracking_arguments(run)
    run.add_argument(
        "--storage",
        type=storage_url,
        metavar="URL",
        help="database of the queue: postgresql+psycopg://HOST/DATABASE for several machines, or sqlite:///FILE; later "
        "commands on the folder find it (default: optuna.db in the study's folder)",
    )
    run.add_argument(
        "--separate-folders",
        action="store_true",
        help="with --storage: this machine does not share the study's folder with the others; vit-sweep collect fetches "
        "their records",
    )


def storage_url(text: str) -> str:
    """The value of --storage. A password in it is refused and not repeated."""
    from sweeps.queue.url import parse_url

    try:
        return parse_url(text).render_as_string()
    except UserError as error:  # argparse must not repeat the URL, which may hold a password
        raise argparse.ArgumentTypeError(str(error).removeprefix("storage: ")) from None


def _cohort(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def run(arguments: argparse.Namespace, command: str) -> int:
    """Train the study. Returns 1 if runs failed in every attempt or the study was cancelled."""
    from sweeps.study_folder import merged_runs, with_known_names

    plan = parse_plan(arguments)
    study_dir = out_dir(arguments) / plan.name
    plan = with_known_names(plan, study_dir)
    merged_runs(plan, study_dir)  # raises for another study in the folder, before any warning
    from experiments.runs.tracking.mirror import Mirror

    tracking = tracking_of(arguments)
    configs = configured_workers(arguments, study_dir)
    warn_of_plan(plan)
    if arguments.dry_run:
        return _dry_run(plan, study_dir, configs)
    from sweeps.workers.pool import StudyCancelled, run_sweep

    intro = [_start_line(plan, study_dir, configs)]
    options = arguments.cohort, intro, arguments.storage, arguments.separate_folders
    try:
        with Mirror(tracking, study_dir) as mirror:
            state = run_sweep(plan, study_dir, command, configs, *options, on_start=mirror.follow)
    except StudyCancelled:
        return report_cancelled(None)
    return report(plan, study_dir, state.failed)


def tracking_of(arguments: argparse.Namespace) -> Tracking:
    """Where the runs are mirrored."""
    from experiments.runs.tracking.settings import Tracking

    return Tracking(arguments.tracking, arguments.project, arguments.entity)


def configured_workers(arguments: argparse.Namespace, study_dir: Path) -> list[WorkerConfig]:
    """The configuration of each worker that the arguments ask for. Raises `UserError`."""
    from sweeps.study_folder import LOG
    from sweeps.workers.worker import worker_configs

    return worker_configs(
        study_dir / LOG, device=arguments.device, workers=arguments.workers, workers_per_gpu=arguments.workers_per_gpu
    )


def _start_line(plan: StudyPlan, study_dir: Path, configs: list[WorkerConfig]) -> str:
    """What the sweep is about to do, with the time that it takes if finished records tell it."""
    from experiments.runs.record import is_finished
    from sweeps.estimate import estimate
    from sweeps.workers.progress import format_duration

    left = [run for run in plan.runs if not is_finished(study_dir / run.name)]
    found = estimate(left, study_dir.parent, configs, measure=False) if left else None
    variants = len({run.variant for run in plan.runs})
    parts = [
        f"{count(range(variants), 'variant')} x {count({run.seed for run in plan.runs}, 'seed')}, "
        f"{count(left, 'run')} to train with {count(configs, 'worker')} on {' and '.join(dict.fromkeys(_device_text(config) for config in configs))}",
        f"metric {plan.metric}, equivalence margin {margin_text(plan)}",
        *([f"about {format_duration(found.seconds)}, based on {found.source}"] if found else []),
    ]
    return f"{plan.name}: {'; '.join(parts)}"


def _device_text(config: WorkerConfig) -> str:
    return "the CPU" if config.device == "auto" else config.device  # without a GPU, `auto` stays `auto`


def _dry_run(plan: StudyPlan, study_dir: Path, configs: list[WorkerConfig]) -> int:
    """Print the grid and an estimate of the time. Writes nothing."""
    from experiments.runs.record import is_finished
    from sweeps.estimate import estimate
    from sweeps.workers.progress import format_duration

    left = [run for run in plan.runs if not is_finished(study_dir / run.name)]
    found = estimate(left, study_dir.parent, configs) if left else None
    print_plan(plan, study_dir)
    if left:
        time = f"about {format_duration(found.seconds)}, based on {found.source}" if found else "not known"
        print(f"Estimated time for {count(left, 'run')} with {count(configs, 'worker')}: {time}")
    return 0


def report(plan: StudyPlan, study_dir: Path, failed: dict[str, str]) -> int:
    """Print what was trained, where it is, and the next command."""
    from collections import Counter

    from experiments.runs.record import is_finished, read_summary
    from sweeps.outcome import outcome_lines
    from sweeps.study_folder import ERROR

    here = [run.name for run in plan.runs if is_finished(study_dir / run.name)]
    elsewhere = len({run.name for run in plan.runs} - {*here, *failed})
    statuses = Counter(read_summary(study_dir / name)["status"] for name in here if name not in failed)
    statuses += Counter({"ended in another folder": elsewhere})
    counts = [f"{count} {status}" for status, count in statuses.items()] + [f"{len(failed)} failed"] * bool(failed)
    print(f"{count(plan.runs, 'run')}: {', '.join(counts)}")
    for line in outcome_lines(plan, study_dir):
        print(line)
    for name, reason in failed.items():
        print(f"failed: {name}: {reason} (see {study_dir / name / ERROR})")
    print(f"study: {study_dir}")
    if elsewhere:
        print(f"next: {PROG} collect {shlex.quote(str(study_dir))} FOLDER..., with the folders of the other machines")
    print(f"next: vit-report {shlex.quote(str(study_dir))}")
    return 1 if failed else 0
