"""`vit-sweep wandb`: make a study a sweep of Weights & Biases, which agents on any machines train."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli import add_settings
from sweeps.commands.arguments import PROG, USAGE, add_study_arguments, add_tuned, count, plan_and_folder
from sweeps.commands.run import add_place_arguments

if TYPE_CHECKING:
    from experiments.runs.tracking.register import Registered

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
has ended. The same command again keeps the sweep, or updates it while it has started no run; if runs were added to the study
later, it registers a sweep of those."""


def add_wandb(commands: Any) -> None:
    """Add `wandb`."""
    command = commands.add_parser(
        "wandb",
        help="train a study with agents of Weights & Biases",
        description=DESCRIPTION,
        usage=f"{USAGE.format('wandb')} [options]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_study_arguments(command)
    add_tuned(command)
    add_place_arguments(command)
    add_settings(command, hidden=["seed"])  # a study has `seeds`
    command.set_defaults(execute=wandb_sweep)


def wandb_sweep(arguments: argparse.Namespace, command: str) -> int:
    """Write the plan and the sweep, and register it."""
    plan, study_dir, is_new = plan_and_folder(arguments)
    from experiments.runs.tracking import server
    from sweeps.commands.run import tracking_of
    from sweeps.queue.connect import connect
    from sweeps.queue.process import current_process
    from sweeps.queue.queue import Queue
    from sweeps.study_folder import removed_on_bad_input, write_plan
    from sweeps.wandb_sweep import SPEC, runs_sweep, write_spec

    tracking = tracking_of(arguments, plan)
    with removed_on_bad_input(study_dir):
        if is_new:
            write_plan(plan, study_dir, command)
        store = connect(plan, study_dir, arguments.storage, arguments.separate_folders)
        queue = Queue(plan, study_dir, current_process(), storage=store)
        queue.retry()
        left = queue.reconcile().waiting
        project = server.project(tracking.project)
        spec = runs_sweep(plan, study_dir, _cell_options(arguments), project, tracking.entity)
        file = study_dir / SPEC
        write_spec(file, spec)
    print(f"{plan.study.name}: {count(plan.runs, 'run')}, {len(left)} to train")
    print(f"specification: {file}")
    _register(study_dir, file, spec, left)
    print(f"next: {PROG} status {shlex.quote(str(study_dir))}")
    return 0


def _cell_options(arguments: argparse.Namespace) -> list[str]:
    """The options of `vit-sweep cell`. The agent gives it project and entity; the storage is noted in the study's folder."""
    given = {"--device": arguments.device, "--tracking": arguments.tracking}
    options = [word for flag, value in given.items() if value != "auto" for word in (flag, value)]
    return options + ["--separate-folders"] * arguments.separate_folders


def _register(study_dir: Path, file: Path, spec: dict[str, Any], left: list[str] | None, name: str = "runs") -> None:
    """Register a sweep where there is a server, and say what became of it."""
    from experiments.runs.tracking import server
    from experiments.runs.tracking.register import register
    from sweeps.wandb_sweep import keep_sweep, known_sweep

    later = f"register the sweep later with the same command, or with: wandb sweep {shlex.quote(str(file))}"
    mode = server.wandb_mode("auto")
    if mode != "online":
        reason = f"WANDB_MODE is {mode}" if _is_mode_given() else "no API key is configured; see `wandb login`"
        print(f"no W&B server ({reason}); {later}")
        return
    known = known_sweep(study_dir, name, server.base_url())
    try:
        sweep = register(file, spec, known, left)
    except server.Unreachable as error:
        print(f"W&B cannot be used ({error}); {later}")
        return
    if sweep is None:
        print(
            "sweep: nothing to register; every run has ended, is in training or is left to the sweep registered before"
        )
        sweep = known
    else:
        keep_sweep(study_dir, name, server.base_url(), sweep)
    if sweep:
        _print_sweep(sweep)


def _is_mode_given() -> bool:
    import os

    return "WANDB_MODE" in os.environ


def _print_sweep(sweep: Registered) -> None:
    print(f"sweep: {sweep.url} ({sweep.done})")
    print(f"agent: {AGENT} {shlex.quote(sweep.path)}")
