"""`vit-sweep wandb`: make a study a sweep of Weights & Biases, which agents on any machines train."""

import argparse
import contextlib
import io
import shlex
from pathlib import Path
from typing import Any

import yaml

from experiments.errors import plural, say
from experiments.files import read_bytes, read_json, write_json, write_text
from experiments.tracking import (
    ANSWER_SECONDS,
    Tracking,
    Unreachable,
    add_tracking_arguments,
    place,
    project,
    wandb_in_use,
)
from sweeps.commands.arguments import PROG, add_study_command, read_folder
from sweeps.commands.run import DEVICE, tracking_of
from sweeps.study_folder import the_only_driver

OPEN = ("PENDING", "RUNNING", "PAUSED")  # states of a sweep that may start runs
SPEC, NOTE = "wandb-sweep.yaml", "wandb-sweep.json"  # in the study's folder
AGENT = "WANDB_AGENT_DISABLE_FLAPPING=true wandb agent --forward-signals"
DESCRIPTION = """\
Write the plan of a study and a W&B sweep that trains it, STUDY_DIR/wandb-sweep.yaml, and register the sweep with the
W&B server. STUDY may also be the folder of a study that has been started. The command prints how to start an agent. Any
number of agents, on any machines that have the study's folder under the same path, train each run once, into the same
records as `vit-sweep run`. Without an API key or a server, only the files are written.

The sweep is a grid over the names of the runs that are left. Its agents call `vit-sweep cell`, so `vit-sweep status`
counts their runs, `vit-sweep run` can help, and a run that has ended is mirrored to the sweep and not trained again. On
a machine with several GPUs, start one agent for each: CUDA_VISIBLE_DEVICES=0, ...

A stopped agent leaves its run to others: the run continues from its last epoch. W&B does not start a run of a grid
again after its agent was killed: `vit-sweep run STUDY` trains what is left, or this command registers a sweep of that.
Relative paths in the settings, such as data.root, start at the folder in which an agent is started.

To search for settings, see `vit-sweep tune`; for W&B's own search, see `vit-train --help`."""


def add(commands: Any) -> None:
    """Add `wandb`."""
    command = add_study_command(
        commands, "wandb", wandb_sweep, help="train a study with agents of Weights & Biases", description=DESCRIPTION
    )
    command.add_argument("--device", default="auto", help=DEVICE)
    add_tracking_arguments(command)


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
    file, note, text = study_dir / SPEC, study_dir / NOTE, yaml.safe_dump(spec, sort_keys=False, allow_unicode=True)
    is_known = note.exists() and file.exists() and read_bytes(file) == text.encode()
    write_text(file, text)
    say(f"specification: {file}")
    try:
        with wandb_in_use(), contextlib.redirect_stdout(io.StringIO()):
            sweep = _registered(spec, read_json(note) if is_known else None)
    except Unreachable as error:
        again = f"register the sweep later with the same command, or with: wandb sweep {shlex.quote(str(file))}"
        say(f"{error}; {again}")
        return
    write_json(note, sweep)
    say(f"sweep: {sweep['url']}", f"agent: {AGENT} {shlex.quote(sweep['path'])}")


def _registered(spec: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    """Register the sweep of a specification, unless `known`, an earlier sweep of it, is open.

    A sweep: `project`, the address of its project; `path`, ENTITY/PROJECT/ID; `url`, of its page. Raises whatever
    wandb raises.
    """
    import wandb

    entity, _, address = place(Tracking(project=spec["project"], entity=spec.get("entity")))
    api = wandb.Api(timeout=ANSWER_SECONDS)
    if known and known["project"] == address:
        with contextlib.suppress(ValueError, wandb.errors.Error):  # it was deleted
            if api.sweep(known["path"]).state.upper() in OPEN:
                return known
    path = f"{entity}/{spec['project']}/{wandb.sweep(spec, entity=entity, project=spec['project'])}"
    return {"project": address, "path": path, "url": api.sweep(path).url}
