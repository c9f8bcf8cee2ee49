"""`vit-sweep sync`: send finished runs to Weights & Biases from their records."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from experiments.cli import folder
from experiments.runs.tracking.settings import Tracking, add_place_arguments
from experiments.runs.tracking.sync import sync
from sweeps.commands.arguments import PROG, counted


def add(commands: Any) -> None:
    """Add `sync`."""
    command = commands.add_parser(
        "sync",
        help="send finished runs to Weights & Biases from their records",
        description="Send the finished runs of a study to Weights & Biases from their records: metrics, summaries and "
        "files. What is there already is not sent again. Run the same command again after an interruption.",
        usage=f"{PROG} sync STUDY_DIR [--project NAME] [--entity NAME]",
    )
    command.add_argument("folder", metavar="STUDY_DIR", type=folder, help="folder of a study, or of single runs")
    add_place_arguments(command)
    command.set_defaults(execute=send)


def send(arguments: argparse.Namespace, _: str) -> int:
    """Send the runs."""
    tracking = Tracking("online", arguments.project, arguments.entity)
    done = sync(Path(arguments.folder), tracking, lambda name: print(name, file=sys.stderr, flush=True))
    parts = [f"{counted(done.sent, 'run')} sent", f"{len(done.complete)} already complete"]
    parts += [f"{len(done.unfinished)} not finished"] * bool(done.unfinished)
    print(f"{', '.join(parts)}; {done.where}")
    return 0
