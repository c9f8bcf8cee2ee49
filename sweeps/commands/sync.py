"""`vit-sweep sync`: send runs to Weights & Biases from their records."""

import argparse
from pathlib import Path
from typing import Any

from experiments.cli import folder
from experiments.errors import UserError, plural, say
from experiments.runs import record
from experiments.tracker import Sender
from experiments.tracking import add_tracking_arguments, wandb_in_use
from sweeps.commands.run import tracking_of

DESCRIPTION = """\
Send the finished runs of a study to Weights & Biases from their records: metrics, summaries and files. What was sent is
noted in STUDY_DIR/wandb/sent and not sent again. Run the same command again after an interruption."""


def add(commands: Any) -> None:
    """Add `sync`."""
    about = "send runs to Weights & Biases from their records"
    command = commands.add_parser("sync", help=about, description=DESCRIPTION)
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    add_tracking_arguments(command, "online")
    command.set_defaults(execute=sync)


def sync(arguments: argparse.Namespace, _: str) -> int:
    """Send the runs. Returns 1 if some of them cannot be sent. Raises `UserError` where W&B cannot be used."""
    study_dir, tracking = Path(arguments.folder), tracking_of(arguments)
    if not tracking.is_on:
        raise UserError(f"--tracking: {arguments.tracking} sends nothing; expected auto, online or offline")
    names = sorted(path.parent.name for path in study_dir.glob(f"*/{record.SUMMARY}"))
    finished = [run for run in names if record.is_finished(study_dir / run)]
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
