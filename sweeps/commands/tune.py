"""`vit-sweep tune`: find the learning rate, weight decay and warm-up of each variant, on validation images only."""

import argparse
import contextlib
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.cli import given_settings, positive
from experiments.config import load
from experiments.errors import format_level, plural, say, setting_text
from experiments.runs.record import ERROR
from experiments.tracker import Tracker
from experiments.tracking import add_tracking_arguments
from experiments.tuned import TunedTrial, best_trial
from sweeps.commands.arguments import OUT, PROG, add_study_command, parse_plan
from sweeps.commands.run import add_worker_arguments, engine_of, tracking_of
from sweeps.study_folder import StudyFolder, the_only_driver
from sweeps.tuning.tuned import TUNED
from sweeps.tuning.tuning_plan import MAX_SEEDS, MAX_TRIALS, RUNS, TuningPlan, check_data, make_space, range_text

DESCRIPTION = """\
Find settings for each variant: every variant gets the same number of trials, and the trial with the highest validation
accuracy wins. Run the same command again to resume, and with more --trials to extend.

Test images are not used. Trial n has the seed 1,000,000 + n in every variant, and with --seeds-per-trial also 1,010,000
+ n and so on; the study cannot use these seeds. The result is STUDY/tuned.yaml; `vit-sweep run STUDY --tuned FILE`
trains each variant with its own settings. The trials lie in STUDY/tuning, and are in no report on the runs."""
PARAMS = """\
what is tried, separated by commas: SETTING=LOW..HIGH, SETTING=LOW..HIGH:log (a log scale) or SETTING=A|B|C; settings of
optim, dropout rates, batch size and label smoothing (default: optim.lr and optim.weight_decay from a tenth to ten times
the study's value, optim.warmup_epochs up to a tenth of the epochs)"""
SEEDS = "seeds with which the settings of a trial are trained; its accuracy is the mean over them (default: 1)"
MOST_QMC = 2  # settings that so many trials cover better by points that are spread evenly than by random ones
PRUNER = """\
stop trials with a low validation accuracy early, by successive halving: at about a ninth and a third of the epochs, and
not before the third epoch; by the first seed of a trial, and the others are then not trained (default: halving)"""


def add(commands: Any) -> None:
    """Add `tune`."""
    command = add_study_command(
        commands,
        "tune",
        tune,
        "--trials N [options]",
        tuned=False,
        help="find the learning rate and other settings of each variant",
        description=DESCRIPTION,
    )
    option = command.add_argument
    trials, seeds = partial(positive, most=MAX_TRIALS), partial(positive, most=MAX_SEEDS)
    option("--trials", type=trials, required=True, metavar="N", help="number of trials of each variant")
    option("--seeds-per-trial", type=seeds, default=1, metavar="N", help=SEEDS)
    option("--params", metavar="LIST", help=PARAMS)
    about = "Optuna's sampler (default: qmc for one or two settings, else tpe)"
    option("--sampler", choices=("tpe", "random", "qmc"), help=about)
    option("--pruner", choices=("halving", "none"), default="halving", help=PRUNER)
    add_worker_arguments(command)
    add_tracking_arguments(command, "off")


def tune(arguments: argparse.Namespace, _: str) -> int:
    """Tune the study. Returns 1 if a trial failed in every attempt, or if a variant has no finished trial."""
    from sweeps.tuning.trials import tune as train_trials

    plan = _plan(arguments)
    study_dir = Path(arguments.out or OUT) / plan.study.name
    check_data(plan.study, study_dir)
    with contextlib.ExitStack() as training:
        engine = training.enter_context(engine_of(arguments, plan.study))
        tried = ", ".join(f"{path} {range_text(tried)}" for path, tried in plan.space.items())
        seeds = f" of {plan.seeds} seeds" if plan.seeds > 1 else ""
        intro = (
            f"{plan.study.name}: tune {plural(len(plan.study.variants), 'variant')} by {plan.trials} trials{seeds} "
            f"each ({plan.sampler}, pruner {plan.pruner}) with {plural(engine.places, 'worker')}; {tried}"
        )
        tracker = Tracker(tracking_of(arguments), study_dir / RUNS)
        with the_only_driver(study_dir), tracker:
            StudyFolder(study_dir, plan.study).ready()
            trials = train_trials(plan, study_dir, engine, intro, tracker)
            training.close()  # see `run`
    return _report(plan, trials, study_dir, arguments)


def _plan(arguments: argparse.Namespace) -> TuningPlan:
    """The plan of the tuning that the arguments describe. Raises `UserError`."""
    study = parse_plan(arguments)
    space = make_space(arguments.params, load(study.base), list(study.variants.values()))
    sampler = arguments.sampler or ("qmc" if len(space) <= MOST_QMC else "tpe")
    return TuningPlan(study, space, arguments.trials, sampler, arguments.pruner, arguments.seeds_per_trial)


def _report(
    plan: TuningPlan, trials: Mapping[str, Sequence[TunedTrial]], study_dir: Path, arguments: argparse.Namespace
) -> int:
    """Print the settings found, where they are, and the next command.

    Returns 1 if a trial failed or a variant is not tuned.
    """
    failed = [trial for of_variant in trials.values() for trial in of_variant if trial.status == "failed"]
    for lost in failed:
        trace = f"{study_dir / RUNS}/*-s{lost.seed}-*/{ERROR}"
        say(f"failed: {lost.variant}, trial {lost.trial}: it failed in every attempt (see {trace})")
    best = {label: best_trial(of_variant) for label, of_variant in trials.items()}
    for label, trial in best.items():
        if trial is None:
            say(f"not tuned: {label}: none of its {plan.trials} trials finished; try other --params")
            continue
        settings = ", ".join(f"{path}={format_level(value)}" for path, value in trial.settings.items())
        cost = f"{sum(trial.epochs for trial in trials[label])} epochs in all"
        mean = f" (mean over {plan.seeds} seeds)" if plan.seeds > 1 else ""
        say(f"{label}: validation accuracy {trial.val_acc:.1%}{mean} in trial {trial.trial}, {cost}: {settings}")
    if None in best.values():
        return 1
    say(f"result: {study_dir / TUNED}")
    say(f"next: {_next_command(study_dir, plan, arguments)}")
    return 1 if failed else 0


def _next_command(study_dir: Path, plan: TuningPlan, arguments: argparse.Namespace) -> str:
    """The command that trains the study with the settings found, without those that they replace."""
    seeds = arguments.seeds
    if isinstance(seeds, list):
        seeds = "".join(f"{seed}," for seed in seeds)
    options = {"tuned": study_dir / TUNED, "out": arguments.out, "preset": arguments.preset, "seeds": seeds}
    settings = given_settings(arguments).items()
    options |= {path: setting_text(value) for path, value in settings if path not in plan.space}
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join([PROG, "run", arguments.study, *words])
