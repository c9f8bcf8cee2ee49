"""The process that sends runs to W&B while a command trains them, and `vit-sweep sync` without the rest of it."""

from collections.abc import Sequence

from experiments.cli import Parser, run_command
from experiments.runs.tracking.sync import add_sync_arguments, sync

PROG = "vit-sweep sync"


def _body(argv: Sequence[str]) -> int:
    parser = Parser(PROG)
    add_sync_arguments(parser)
    return sync(parser.parse_args(argv))


if __name__ == "__main__":
    run_command(_body, PROG)
