"""`vit-sweep tune`: find the learning rate, weight decay and warm-up of each variant, on validation images only."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli import add_settings, positive
from experiments.errors import plain
from sweeps.commands.arguments import PROG, add_study_command, changed_settings, count, out_dir, parse_plan
from sweeps.commands.run import storage_url

if TYPE_CHECKING:
    from sweeps.tuning.outcome import Outcome
    from sweeps.tuning.tuning_plan import TuningPlan

DESCRIPTION = """\
Find settings for each variant: every variant gets the same number of trials, and the trial with the highest validation
accuracy wins. Run the same command again to resume, and with more --trials to extend.

Test images are not used. Trial n has the seed 1,000,000 + n in every variant; the study cannot use these seeds. The result
is STUDY/tuned.yaml; `vit-sweep run STUDY --tuned FILE` trains each variant with its own settings. The trials lie in
STUDY/tuning and in Optuna studies named "STUDY tuning ...: VARIANT", and are in no report on the runs."""
PARAMS = """\
what is tried, separated by commas: SETTING=LOW..HIGH, SETTING=LOW..HIGH:log (a log scale) or SETTING=A|B|C; settings of
optim, dropout rates, batch size and label smoothing (default: optim.lr and optim.weight_decay from a tenth to ten times the
study's value, optim.warmup_epochs up to a tenth of the epochs)"""


def add(commands: Any) -> None:
    """Add `tune`."""
    command = add_study_command(
        commands,
        "tune",
        tune,
        "--trials N [options]",
        help="find the learning rate and other settings of each variant",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--trials", type=positive, required=True, metavar="N", help="number of trials of each variant")
    command.add_argument("--params", metavar="LIST", help=PARAMS)
    command.add_argument(
        "--sampler", choices=("tpe", "random", "qmc"), default="tpe", help="Optuna's sampler (default: tpe)"
    )
    command.add_argument(
        "--pruner",
        choices=("halving", "hyperband", "none"),
        default="halving",
        help="stop trials with a low validation accuracy early, by successive halving or Hyperband: at about a ninth and a "
        "third of the epochs, and not before the third epoch (default: halving)",
    )
    command.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="number of workers (default: one per GPU; without a GPU, one per CPU core)",
    )
    command.add_argument("--device", default="auto", help="auto, cpu, cuda (every GPU) or one GPU such as cuda:1")
    command.add_argument(
        "--storage",
        type=storage_url,
        metavar="URL",
        help="database of the trials, as for `run` (default: that of the folder, optuna.db)",
    )
    add_settings(command, hidden=["seed"])  # trials have their own seeds


def tune(arguments: argparse.Namespace, _: str) -> int:
    """Tune the study. Returns 1 if a trial failed in every attempt, or if a variant has no finished trial."""
    from sweeps.study_folder import LOG
    from sweeps.tuning.tuning_plan import check_data
    from sweeps.workers.worker import worker_configs

    plan = tuning_plan(arguments)
    study_dir = out_dir(arguments) / plan.study.name
    check_data(plan.study, study_dir)
    from dataclasses import replace

    from sweeps.tuning.tuner import tune as run_tuning

    log = study_dir / LOG
    configs = worker_configs(log, device=arguments.device, workers=arguments.workers)
    configs = [replace(config, tuning=True, test=False) for config in configs]
    outcome = run_tuning(plan, study_dir, configs, arguments.storage, _intro(plan, len(configs)))
    return report_result(plan, outcome, study_dir, next_command(arguments, plan, study_dir))


def next_command(arguments: argparse.Namespace, plan: TuningPlan, study_dir: Path) -> str:
    """The command that trains the study with the settings found, without those that they replace."""
    from sweeps.tuning.tuned import TUNED

    words = [PROG, "run", arguments.study, "--tuned", str(study_dir / TUNED)]
    if _holds_untuned(study_dir):  # its folder takes no runs of other settings
        words += ["--out", str(_beside(out_dir(arguments)))]
    elif arguments.out is not None:
        words += ["--out", arguments.out]
    words += ["--preset", arguments.preset] if arguments.preset is not None else []
    words += ["--seeds", _seeds_text(arguments.seeds)] if arguments.seeds is not None else []
    given = {path: value for path, value in changed_settings(arguments).items() if path not in plan.space}
    words += [word for path, value in given.items() for word in (f"--{path}", plain(value))]
    return shlex.join(words)


def _seeds_text(seeds: int | list[int]) -> str:
    return str(seeds) if isinstance(seeds, int) else ",".join(map(str, seeds)) + "," * (len(seeds) == 1)


def tuning_plan(arguments: argparse.Namespace) -> TuningPlan:
    """The plan of the tuning that the arguments describe. Raises `UserError`."""
    from experiments.config import load
    from experiments.errors import UserError
    from sweeps.tuning.space import check_space, default_space, parse_space
    from sweeps.tuning.tuning_plan import MAX_TRIALS, TuningPlan, variants_of

    if arguments.trials > MAX_TRIALS:
        raise UserError(f"--trials: {arguments.trials} is not allowed: expected up to {MAX_TRIALS:,}")
    study = parse_plan(arguments)
    variants = variants_of(study)
    if arguments.params is not None:
        space = parse_space(arguments.params, variants)
    else:
        space = default_space(load(study.base), variants)
        check_space(space, variants)
    return TuningPlan(study, space, arguments.trials, arguments.sampler, arguments.pruner)


def _intro(plan: TuningPlan, workers: int) -> str:
    """What the command is about to do."""
    tried = ", ".join(f"{path} {range_text(each)}" for path, each in plan.tried.items())
    return (
        f"{plan.study.name}: tune {count(plan.variants, 'variant')} by {plan.trials} trials each "
        f"({plan.sampler}, pruner {plan.pruner}) with {count(range(workers), 'worker')}; {tried}"
    )


def range_text(tried: dict[str, Any]) -> str:
    """A range of the search space: `0.0005 to 0.05 (log)`, `adamw or sgd`."""
    from sweeps.study import format_level

    if "choices" in tried:
        return " or ".join(map(format_level, tried["choices"]))
    return f"{tried['low']:g} to {tried['high']:g}{' (log)' * tried['log']}"


def report_result(plan: TuningPlan, outcome: Outcome, study_dir: Path, command: str) -> int:
    """Print the settings found, where they are, and the next command."""
    from sweeps.study import format_level
    from sweeps.study_folder import LOG
    from sweeps.tuning.tuned import TUNED

    for row in outcome.failed:
        print(f"failed: {row.variant}, trial {row.trial}: it failed in every attempt (see {study_dir / LOG})")
    for variant in outcome.untuned:
        print(f"not tuned: {variant}: none of its {plan.trials} trials finished; try other --params")
    if outcome.tuned is None:
        return 1
    for label, found in outcome.tuned.variants.items():
        chosen = ", ".join(f"{path}={format_level(value)}" for path, value in found.settings.items())
        print(
            f"{label}: validation accuracy {found.val_acc:.1%} in trial {found.trial}, {found.epochs} epochs in all: {chosen}"
        )
    print(f"result: {study_dir / TUNED}")
    if _holds_untuned(study_dir):
        print(f"note: {study_dir} is a study that is not tuned; train the tuned runs with another --out")
    print(f"next: {command}")
    return 1 if outcome.failed else 0


def _beside(out: Path) -> Path:
    """The folder for the tuned runs where `out` holds runs that are not tuned."""
    out = out if out.name not in ("", "..") else out.resolve()
    return out.with_name(f"{out.name}-tuned")


def _holds_untuned(study_dir: Path) -> bool:
    """Whether the study's folder holds a plan without tuned settings."""
    from experiments.runs import record
    from experiments.study import StudyPlan

    return (study_dir / record.STUDY).exists() and not StudyPlan.read(study_dir).tuned
