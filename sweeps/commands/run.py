"""`vit-sweep run`: train a study or resume it; with --dry-run, only show what it does. `plan`: write its plan."""

import argparse
import contextlib
import itertools
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.cli import positive
from experiments.errors import UserError, plural, say
from experiments.metric import Metric
from experiments.runs.exports import counted
from experiments.runs.record import ERROR, has_ended
from experiments.study import Study
from experiments.tracker import Tracker
from experiments.tracking import Tracking, add_tracking_arguments
from sweeps.commands.arguments import PROG, add_study_command, read_folder
from sweeps.commands.studies import print_plan
from sweeps.engines.contract import Engine
from sweeps.study_folder import StudyFolder, the_only_driver
from vit.registry import nearest

WORKERS = "number of workers (default: one per GPU; without a GPU, one per CPU core)"
COHORT = "runs of a variant that a worker trains as one stacked model (default: auto: on a GPU as many as fit, else 1)"
DEVICE = "auto, cpu, cuda (every GPU) or one GPU such as cuda:1 (default: auto: every GPU, else the CPU)"
RAY = "train on a Ray cluster that shares the study's folder: auto is that of RAY_ADDRESS, else a new one here"

DESCRIPTION = f"""\
examples:
  {PROG} run position --seeds 5          a built-in study (`{PROG} list`)
  {PROG} run mine.yaml --dry-run         what a study of yours would train
  {PROG} run mine.yaml --train.epochs 5  with another setting for all variants
  {PROG} run runs/mine                   what is left of a study

Train a study. Run the same command again to resume, and to try failed runs
again. The exit status is 0 if every run has ended, and 1 if runs failed in
every attempt."""
ARRAY = 1000  # jobs of a Slurm array; by default, their numbers go from 0 to 1000


def add(commands: Any) -> None:
    """Add `run` and `plan`."""
    command = add_study_command(commands, "run", run, help="train a study, or resume it", description=DESCRIPTION)
    command.add_argument("--dry-run", action="store_true", help="show the grid and what is left; train nothing")
    about = "train only the runs of this variant; several: repeat the flag"
    command.add_argument("--only", action="append", default=[], metavar="VARIANT", help=about)
    command.add_argument("--cohort", type=lambda n: None if n == "auto" else positive(n), metavar="N|auto", help=COHORT)
    add_worker_arguments(command)
    add_tracking_arguments(command)
    add_study_command(
        commands,
        "plan",
        plan,
        help="write the plan of a study, for a job array",
        description="Write the plan of a study, STUDY_DIR/study.json, as `run` does, and train nothing. It reads no "
        "data. It prints the commands that submit the runs that are left to Slurm, and the number, the variant and the "
        "seed of each. Each job of an array then trains one run: `vit-sweep cell STUDY_DIR --index N`.",
    )


def add_worker_arguments(command: argparse.ArgumentParser) -> None:
    """Add the number and kind of workers, and where they live."""
    command.add_argument("--workers", type=positive, metavar="N", help=WORKERS)
    command.add_argument("--device", default="auto", help=DEVICE)
    command.add_argument("--ray", metavar="auto|HOST:PORT", help=RAY)


def engine_of(arguments: argparse.Namespace, plan: Study) -> Engine:
    """The engine of the arguments, a context manager. Raises `UserError` where there is no such device or cluster."""
    if arguments.ray is not None:
        try:
            from sweeps.engines.ray import RayEngine
        except ImportError as error:
            raise UserError('--ray: Ray is not installed; pip install -e ".[ray]"') from error
        return RayEngine(arguments.ray, arguments.device, arguments.workers)
    from sweeps.engines.local import LocalEngine, local_slots

    return LocalEngine(local_slots(arguments.device, arguments.workers))


def run(arguments: argparse.Namespace, command: str) -> int:
    """Train the study. Returns 1 if runs failed in every attempt."""
    from sweeps.train_plan import train_plan

    folder = read_folder(arguments)
    folder.check()
    names = _names(folder.plan, arguments.only)
    left = [run for run in folder.left if run.name in names]
    if arguments.dry_run:
        print_plan(folder)
        if left:
            epochs = sum(run.config.train.epochs for run in left)
            say(f"To train: {plural(len(left), 'run')}, {plural(epochs, 'epoch')}")
        return 0
    failed: dict[str, str] = {}
    with contextlib.ExitStack() as training:
        engine = training.enter_context(engine_of(arguments, folder.plan)) if left else None
        with the_only_driver(folder.dir):
            folder.ready()
            folder.write(_of_study(command))
            say(*counted(folder.plan, folder.reused), _start_line(folder.plan, len(left), engine))
            with Tracker(tracking_of(arguments), folder.dir) as tracker:
                if engine:
                    failed = train_plan(folder, engine, tracker, cohort=arguments.cohort, only=names)
                training.close()  # before what follows: Ray ends this process a minute after its head
            return _print_result(folder, failed)


def plan(arguments: argparse.Namespace, command: str) -> int:
    """Write the plan with the command that trains it, and print what submits the runs that are left to Slurm."""
    folder = read_folder(arguments)
    folder.check()
    with the_only_driver(folder.dir):
        trains = command.replace(f"{PROG} plan", f"{PROG} run", 1)
        runs = folder.write(trains).runs
    names = {run.name for run in folder.left if not has_ended(folder.dir / run.name)}
    left = [i for i, run in enumerate(runs) if run.name in names]
    say(*counted(folder.plan, folder.reused), f"{plural(len(runs), 'run')}, {len(left)} left")
    for line in array_lines(left):
        say(line)
    say(f'in array.sh: {PROG} cell {shlex.quote(str(folder.dir))} --index "$((${{1:-0}} + SLURM_ARRAY_TASK_ID))"')
    say(*(f"{index}: {runs[index].variant}, seed {runs[index].seed}" for index in left))
    return 0


def array_lines(indices: Sequence[int]) -> Iterator[str]:
    """The commands that submit jobs with these rising indices to Slurm, each of an array that it takes by default.

    The first argument of the script is added to the number of a job.
    """
    for block, members in itertools.groupby(indices, lambda index: index // ARRAY):
        first, ranges = block * ARRAY, list[str]()
        for _, part in itertools.groupby(enumerate(members), lambda pair: pair[1] - pair[0]):
            numbers = [index - first for _, index in part]
            ranges.append("-".join(map(str, dict.fromkeys((numbers[0], numbers[-1])))))
        yield f"sbatch --array={','.join(ranges)} array.sh" + f" {first}" * (first > 0)


def _of_study(command: str) -> str:
    """The command that trains every variant: that of one with `--only`, without it."""
    words = iter(shlex.split(command))
    return shlex.join(
        word for word in words if not word.startswith("--only=") and not (word == "--only" and next(words))
    )


def _names(plan: Study, only: Sequence[str]) -> set[str]:
    """The names of the runs of these variants, each by its label or its short name; of all, if none is given.

    Raises `UserError`.
    """
    labels, short = list(plan.variants), plan.labels
    by_name = {short.get(label, label): label for label in labels} | {label: label for label in labels}
    if unknown := [name for name in only if name not in by_name]:
        raise UserError(f"--only: {unknown[0]!r} is not a variant of {plan.name}; {nearest(unknown[0], by_name)}")
    variants = {by_name[name] for name in only or labels}
    return {run.name for run in plan.runs if run.variant in variants}


def tracking_of(arguments: argparse.Namespace) -> Tracking:
    """Where the runs are sent in W&B."""
    return Tracking(arguments.tracking, arguments.project, arguments.entity)


def _start_line(plan: Study, left: int, engine: Engine | None) -> str:
    """What the sweep is about to do. Without runs to train, there is no engine."""
    seeds = plural(len({run.seed for run in plan.runs}), "seed")
    workers = f" with {plural(engine.places, 'worker')} on {engine.where}" if engine else ""
    return (
        f"{plan.name}: {plural(len(plan.variants), 'variant')} x {seeds}, "
        f"{plural(left, 'run')} to train{workers}; "
        f"metric {plan.metric}, equivalence margin {Metric(plan.metric).size(plan.margin)}"
    )


def _print_result(folder: StudyFolder, failed: Mapping[str, str]) -> int:
    """Print what was trained, where it is, and the next command. Returns 1 if runs failed."""
    ended = [folder.ended[run.name]["status"] for run in folder.plan.runs if run.name in folder.ended]
    counts = Counter([*ended, *["failed"] * len(failed)])
    say(f"{plural(counts.total(), 'run')}: {', '.join(f'{n} {status}' for status, n in counts.items())}")
    for name, reason in failed.items():
        say(f"failed: {name}: {reason} (see {folder.dir / name / ERROR})")
    say(f"study: {folder.dir}", f"next: vit-report {shlex.quote(str(folder.dir))}")
    return 1 if failed else 0
