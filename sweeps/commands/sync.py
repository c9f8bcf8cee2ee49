"""`vit-sweep sync`: send runs to Weights & Biases from their records."""

from typing import Any

from experiments.runs.tracking.sync import add_sync_arguments, sync
from sweeps.commands.arguments import PROG

DESCRIPTION = """\
Send the finished runs of a study to Weights & Biases from their records: metrics, summaries and files. What was sent is
noted in STUDY_DIR/wandb/sent and not sent again. Run the same command again after an interruption."""


def add(commands: Any) -> None:
    """Add `sync`."""
    about, usage = "send runs to Weights & Biases from their records", f"{PROG} sync STUDY_DIR [run=NAME ...] [options]"
    command = commands.add_parser("sync", help=about, description=DESCRIPTION, usage=usage)
    add_sync_arguments(command)
    command.set_defaults(execute=lambda arguments, _: sync(arguments))
