"""`vit-sweep wandb`: make a study a sweep of Weights & Biases, which agents on any machines train."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.cli import add_settings, positive
from experiments.errors import UserError
from experiments.runs.record import STUDY
from sweeps.commands.arguments import PROG, add_study_command, add_tuned, count, out_dir, plan_and_folder, runs_to_train
from sweeps.commands.run import add_place_arguments
from sweeps.commands.tune import PARAMS

METHOD = "bayes"
AGENT = "WANDB_AGENT_DISABLE_FLAPPING=true wandb agent --forward-signals"
DESCRIPTION = """\
Write the plan of a study and a W&B sweep that trains it, STUDY_DIR/wandb-sweep.yaml, and register the sweep with the W&B
server. STUDY may also be the folder of a study that has been started. The command prints how to start an agent. Any number
of agents, on any machines that have the study's folder under the same path, train each run once, into the same records as
`vit-sweep run`. Without an API key or a server, only the files are written.

The sweep is a grid over the names of the runs. Its agents call `vit-sweep cell`, so `vit-sweep status` counts their runs,
workers and `vit-sweep run` can help, and a run that has ended is mirrored to the sweep and not trained again. Each W&B run
of the sweep is the mirror of a run. On a machine with several GPUs, start one agent for each: CUDA_VISIBLE_DEVICES=0, ...

A stopped agent leaves its run to others: the run continues from its last epoch. W&B does not start a run of a grid again
after its agent was killed; `vit-sweep run STUDY` trains what is left, and so do agents after this command, once the sweep
has ended. The same command again keeps the sweep; if runs were added to the study later, it registers a sweep of those. Relative paths in the settings, such as data.root, start at the folder in which an
agent is started.

With --tune, there is one sweep for each variant: a search over dotted settings such as optim.lr, whose agents call
`vit-train`. It maximizes the validation accuracy of the last epoch. Test images are not used, and all trials have the seed
1,000,000, which the study cannot use. The trials lie in STUDY_DIR/wandb-tuning and are in no report. Once the trials of all
variants have ended, the same command writes the best settings of each to STUDY_DIR/tuned.yaml, for --tuned. Trials with the
same settings are one."""


def add_wandb(commands: Any) -> None:
    """Add `wandb`."""
    command = add_study_command(
        commands,
        "wandb",
        wandb_sweep,
        help="train a study with agents of Weights & Biases",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_tuned(command)
    add_place_arguments(command)
    tuning = command.add_argument_group("search for settings", "instead of training the runs")
    tuning.add_argument(
        "--tune", action="store_true", help="write one sweep for each variant that searches for its settings"
    )
    tuning.add_argument("--trials", type=positive, metavar="N", help="number of trials of each variant")
    tuning.add_argument("--method", choices=("random", "bayes"), help=f"of the search (default: {METHOD})")
    tuning.add_argument("--params", metavar="LIST", help=PARAMS)
    command.set_defaults(sampler="random", pruner="none")  # of Optuna, which has no part in it
    add_settings(command, hidden=["seed"])  # a study has `seeds`


def wandb_sweep(arguments: argparse.Namespace, command: str) -> int:
    """Write the sweep, or those of a tuning, and register them."""
    check_tuning_options(arguments)
    return _tune(arguments) if arguments.tune else _train(arguments, command)


def check_tuning_options(arguments: argparse.Namespace) -> None:
    """Raise `UserError` for an option that belongs only to a tuning, or only to runs."""
    if arguments.tune and arguments.trials is None:
        raise UserError("--trials: is needed with --tune: the number of trials of each variant")
    of_tuning, of_runs = ("method", "params", "trials"), ("tuned", "storage", "separate_folders")
    for name in of_runs if arguments.tune else of_tuning:
        if getattr(arguments, name):
            raise UserError(f"--{name.replace('_', '-')}: is not allowed with{'' if arguments.tune else 'out'} --tune")
    if arguments.tune and arguments.tracking in ("offline", "off"):
        raise UserError(
            f"--tracking: {arguments.tracking} is not allowed with --tune: the search needs the validation accuracy of each trial"
        )
    if arguments.tune and (Path(arguments.study) / STUDY).is_file():
        raise UserError(
            f"study: {arguments.study!r} is not allowed with --tune: it is the folder of a study; give the study's name or file"
        )


def _train(arguments: argparse.Namespace, command: str) -> int:
    """A sweep that trains the runs of the study."""
    plan, study_dir, is_new = plan_and_folder(arguments)
    from experiments.runs.tracking import server
    from experiments.runs.tracking.register import write_spec
    from sweeps.commands.run import tracking_of
    from sweeps.wandb_sweep import SPEC, read_note, runs_sweep

    tracking = tracking_of(arguments)
    read_note(study_dir)  # refuses a damaged one before anything is written
    left = runs_to_train(plan, study_dir, is_new, command, arguments)
    options = _options(arguments) + ["--separate-folders"] * arguments.separate_folders
    spec = runs_sweep(plan, study_dir, options, server.project(tracking.project), tracking.entity)
    write_spec(study_dir / SPEC, spec)
    print(f"{plan.name}: {count(plan.runs, 'run')}, {len(left)} to train")
    _register(study_dir, study_dir / SPEC, spec, "runs", left)
    print(f"next: {PROG} status {shlex.quote(str(study_dir))}")
    return 0


def _tune(arguments: argparse.Namespace) -> int:
    """A sweep for each variant, which searches for its settings; the result once all have ended."""
    from experiments.runs.tracking import server
    from experiments.runs.tracking.register import write_spec
    from sweeps.commands.run import tracking_of
    from sweeps.commands.tune import next_command, report_result, tuning_plan
    from sweeps.tuning.outcome import check_result, write_result
    from sweeps.tuning.tuned import TUNED
    from sweeps.tuning.tuning_plan import check_data
    from sweeps.tuning.wandb_sweep import TRIALS, check_method, make_trials_folder, spec_file, tuning_sweep
    from sweeps.tuning.wandb_trials import trial_rows, trials_needed
    from sweeps.wandb_sweep import read_note

    method = arguments.method or METHOD
    plan = replace(tuning_plan(arguments), sampler=f"wandb {method}")
    study_dir = out_dir(arguments) / plan.study.name
    check_data(plan.study, study_dir)
    check_result(plan, study_dir / TUNED)
    check_method(plan, method, study_dir)
    read_note(study_dir)  # refuses a damaged one before anything is written
    rows, needed = trial_rows(plan, study_dir), trials_needed(plan)
    if all(len(own) >= needed for own in rows.values()):
        outcome = write_result(plan, rows, study_dir / TUNED)
        return report_result(plan, outcome, study_dir, next_command(arguments, plan, study_dir))
    tracking = tracking_of(arguments)
    place = server.project(tracking.project), tracking.entity
    make_trials_folder(study_dir)
    budget = count(range(plan.trials), "trial")
    print(f"{plan.study.name}: {count(plan.variants, 'variant')}, {budget} each, in {TRIALS}")
    for variant in plan.variants:
        ended = len(rows[variant.variant])
        print(f"{variant.variant}: {ended} of {needed} trials have ended")
        if ended >= needed:
            continue
        spec = tuning_sweep(plan, variant, method, study_dir, _options(arguments), *place)
        file = spec_file(variant, study_dir)
        write_spec(file, spec)
        _register(study_dir, file, spec, spec["name"], None)
    return 0


def _options(arguments: argparse.Namespace) -> list[str]:
    """The options of the command that an agent starts. It gives project and entity; the storage is noted in the folder."""
    given = {"--device": arguments.device, "--tracking": arguments.tracking}
    return [word for flag, value in given.items() if value != "auto" for word in (flag, value)]


def _register(study_dir: Path, file: Path, spec: dict[str, Any], name: str, left: list[str] | None) -> None:
    """Register a sweep where there is a server, and say what became of it. `left`: see `register`."""
    from experiments.runs.tracking import server
    from experiments.runs.tracking.register import register
    from sweeps.wandb_sweep import keep_sweep, read_note

    print(f"specification: {file}")
    reason = server.why_not_online()
    try:
        if reason:
            raise server.Unreachable(reason)
        sweep, is_new = register(file, spec, read_note(study_dir).get(name), left)
    except server.Unreachable as error:
        again = f"register the sweep later with the same command, or with: wandb sweep {shlex.quote(str(file))}"
        print(f"W&B cannot be used ({error}); {again}")
        return
    keep_sweep(study_dir, name, sweep)
    print(f"sweep: {sweep.url} ({'registered' if is_new else 'kept'})")
    print(f"agent: {AGENT} {shlex.quote(sweep.path)}")
