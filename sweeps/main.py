"""`vit-sweep`: the parser of its commands. Each command is a function of a module in `sweeps.commands`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from experiments.cli import Parser, run_command
from experiments.errors import UserError
from sweeps.builtin import is_study
from sweeps.commands.arguments import PROG
from sweeps.commands.collect import add_collect
from sweeps.commands.manage import add_cancel, add_retry
from sweeps.commands.run import add_run
from sweeps.commands.show import add_init, add_list, add_show
from sweeps.commands.status import add_status
from sweeps.commands.submit import add_submit
from sweeps.commands.sync import add_sync
from sweeps.commands.tune import add_tune
from sweeps.commands.wandb_sweep import add_wandb
from sweeps.commands.worker import add_cell, add_worker

COMMANDS = {  # in the order of --help
    "list": add_list,
    "show": add_show,
    "init": add_init,
    "run": add_run,
    "tune": add_tune,
    "worker": add_worker,
    "cell": add_cell,
    "submit": add_submit,
    "status": add_status,
    "retry": add_retry,
    "cancel": add_cancel,
    "collect": add_collect,
    "sync": add_sync,
    "wandb": add_wandb,
}
RESUMES = ("run", "tune", "worker", "cell", "collect", "sync", "wandb")  # the same command again continues the work


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point. Exit status: 0; 1 if runs failed in every attempt or the study was cancelled; 2 for bad input; 130 on
    Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else argv
    run_command(_body, PROG, words, resumes=bool(words) and words[0] in RESUMES and "--dry-run" not in words)


def _body(argv: Sequence[str]) -> int:
    if argv and argv[0] not in COMMANDS and is_study(argv[0]):
        raise UserError(f"{argv[0]!r} is a study, not a command; did you mean: {PROG} run {shlex.quote(argv[0])}?")
    parser = Parser(PROG, description="Train every variant of a study with several seeds.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}", parser_class=Parser
    )
    for add in COMMANDS.values():
        add(commands)
    arguments = parser.parse_args(argv)
    status: int = arguments.execute(arguments, shlex.join([PROG, *argv]))
    return status


if __name__ == "__main__":
    main()
