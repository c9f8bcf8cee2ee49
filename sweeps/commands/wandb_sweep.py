"""`vit-sweep sync`: send runs to Weights & Biases; `vit-sweep wandb`: make a study a sweep that W&B agents train."""

import argparse
import shlex
from pathlib import Path
from typing import Any

import yaml

from experiments.cli import folder
from experiments.errors import UserError, plural, say
from experiments.files import write_text
from experiments.runs import record
from experiments.tracker import Sender
from experiments.tracking import Tracking, Unreachable, add_tracking_arguments, place, project, wandb_in_use
from sweeps.commands.arguments import PROG, add_study_command, read_folder
from sweeps.commands.run import DEVICE, tracking_of
from sweeps.study_folder import the_only_driver

SPEC = "wandb-sweep.yaml"  # in the study's folder
AGENT = "WANDB_AGENT_DISABLE_FLAPPING=true wandb agent --forward-signals"
SYNC = "Send the finished runs of a study to Weights & Biases from their records. What was sent is not sent again."
DESCRIPTION = """\
Write the plan of a study and a W&B sweep that trains it, STUDY_DIR/wandb-sweep.yaml, and register the sweep with the
W&B server. STUDY may also be the folder of a study that has been started. The command prints how to start an agent. Any
number of agents, on any machines that have the study's folder under the same path, train each run once, into the same
records as `vit-sweep run`. Without an API key or a server, only the files are written.

The sweep is a grid over the names of the runs that are left. Its agents call `vit-sweep cell`, so `vit-sweep status`
counts their runs, `vit-sweep run` can help, and a run that has ended is mirrored to the sweep and not trained again.
Start one agent for each GPU: CUDA_VISIBLE_DEVICES=0, ... W&B does not start a run of a grid again after its agent was
killed: `vit-sweep run STUDY` trains what is left, or this command registers a sweep of that. Relative paths in the
settings, such as data.root, start at the folder in which an agent is started."""


def add(commands: Any) -> None:
    """Add `sync` and `wandb`."""
    about = "send runs to Weights & Biases from their records"
    command = commands.add_parser("sync", help=about, description=SYNC)
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    add_tracking_arguments(command, "online")
    command.set_defaults(execute=sync)
    command = add_study_command(
        commands, "wandb", wandb_sweep, help="train a study with agents of Weights & Biases", description=DESCRIPTION
    )
    command.add_argument("--device", default="auto", help=DEVICE)
    add_tracking_arguments(command)


def sync(arguments: argparse.Namespace, _: str) -> int:
    """Send the runs. Returns 1 if some of them cannot be sent. Raises `UserError` where W&B cannot be used."""
    study_dir, tracking = Path(arguments.folder), tracking_of(arguments)
    if not tracking.is_on:
        raise UserError(f"--tracking: {arguments.tracking} sends nothing; expected auto, online or offline")
    names = sorted(path.parent.name for path in study_dir.glob(f"*/{record.SUMMARY}"))
    finished = [run for run in names if record.has_ended(study_dir / run)]
    if not finished:
        raise UserError(f"{study_dir}: holds no finished runs; give the folder of a study, OUT/STUDY")
    sent = 0
    with wandb_in_use():
        sender = Sender(study_dir, tracking)
        say(f"runs are mirrored to Weights & Biases: {sender.where}")
        for run in finished:
            try:
                sender.complete(run)
                sent += 1
            except UserError as error:
                say(f"{run}: is not sent ({error})")
    say(f"W&B has {sent} of {plural(len(finished), 'finished run')}")
    return 0 if sent == len(finished) else 1


def wandb_sweep(arguments: argparse.Namespace, command: str) -> int:
    """Write the sweep and register it."""
    tracking = tracking_of(arguments)
    folder = read_folder(arguments)
    plan, study_dir = folder.plan, folder.dir
    with the_only_driver(study_dir):
        folder.ready()
        folder.write(plan.command or command)
    left = [run.name for run in folder.left]
    flags = {"--device": arguments.device, "--tracking": arguments.tracking}
    options = [word for flag, value in flags.items() if value != "auto" for word in (flag, value)]
    # The one parameter is the name of the run, so every study can be a grid: with linked factors, extra variants, null
    # levels.
    spec = {
        "name": plan.name,
        **({"description": plan.description} if plan.description else {}),
        "project": project(tracking.project),
        **({"entity": tracking.entity} if tracking.entity else {}),
        "program": PROG,
        "method": "grid",
        "parameters": {"run": {"values": left}},
        "command": [PROG, "cell", str(study_dir.resolve()), "${args_no_hyphens}", *options],
    }
    say(f"{plan.name}: {plural(len(plan.runs), 'run')}, {len(left)} to train")
    if left:
        _register(study_dir, spec)
    say(f"next: {PROG} status {shlex.quote(str(study_dir))}")
    return 0


def _register(study_dir: Path, spec: dict[str, Any]) -> None:
    """Write the specification, register it where there is a server, and say what became of it."""
    file = study_dir / SPEC
    write_text(file, yaml.safe_dump(spec, sort_keys=False, allow_unicode=True))
    say(f"specification: {file}")
    try:
        with wandb_in_use():
            import wandb

            entity, *_ = place(Tracking(project=spec["project"], entity=spec.get("entity")))
            sweep = wandb.sweep(spec, entity=entity, project=spec["project"])  # it prints the address
    except Unreachable as error:
        again = f"register the sweep later with the same command, or with: wandb sweep {shlex.quote(str(file))}"
        say(f"{error}; {again}")
        return
    path = f"{entity}/{spec['project']}/{sweep}"
    say(f"agent: {AGENT} {shlex.quote(path)}")
