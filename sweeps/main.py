"""`vit-sweep`: the parser of its commands. Each command is a function of a module in `sweeps.commands`."""

import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from experiments.cli import Parser, run_command
from sweeps.commands import cell, run, status, studies, tune, wandb_sweep
from sweeps.commands.arguments import PROG

MODULES = (studies, run, tune, cell, status, wandb_sweep)  # in the order of --help
RESUMES = ("run", "tune", "cell", "sync", "wandb")  # the same command again continues the work


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point. Exit status: 0; 1 if runs failed in every attempt; 2 for bad input."""
    words = sys.argv[1:] if argv is None else argv
    run_command(_body, PROG, words, resumes=bool(words) and words[0] in RESUMES and "--dry-run" not in words)


def _body(argv: Sequence[str]) -> int:
    parser = Parser(PROG, description="Train every variant of a study with several seeds.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    for module in MODULES:
        module.add(commands)
    commands.metavar = f"{{{','.join(commands.choices)}}}"
    arguments = parser.parse_args(argv)
    status: int = arguments.execute(arguments, shlex.join([PROG, *argv]))
    return status


if __name__ == "__main__":
    main()
