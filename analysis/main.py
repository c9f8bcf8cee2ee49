"""`vit-report`: the parsers of its commands. Heavy imports wait until a command is carried out."""

import os
import shlex
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from pathlib import Path

from analysis.asked import Asked, add_flags
from experiments.cli import Parser, folder, run_command
from experiments.errors import UserError, say
from experiments.metric import METRICS
from experiments.table_plan import EXAMPLE

PROG = "vit-report"
SOURCE = (
    "the folder of a study or of an export; or a table with one row for each run (.csv, .csv.gz, .tsv, .parquet, "
    ".jsonl); or wandb:ENTITY/PROJECT[/STUDY]"
)
COMMANDS = {
    "report": (
        "Write the report of a study: report.html (one file, works offline), report.md, tables as CSV, figures as SVG.",
        """runs/position

other commands (a folder that has the name of a command: ./across):
  vit-report across A B C        one table over several datasets
  vit-report pool A B C          one difference over several studies
  vit-report export STUDY DIR    write a study as JSON and CSV
  vit-report check A B           compare runs of equal ids
  vit-report plan                print an example of a plan, for --plan""",
    ),
    "across": (
        "Write one table over studies of the same variants, each on another dataset, with one level for all datasets.",
        "across digits/position mnist/position",
    ),
    "pool": (
        "Pool the difference of one pair of settings over studies that share no run: the mean over all seeds, and from "
        "three studies on the mean over studies, by random effects.",
        "pool runs/a runs/b runs/c --pair 'model.pos_embed=rope-2d - model.pos_embed=learned-1d'",
    ),
    "export": (
        "Write a study as study.json, runs.csv, curves.csv and, where records hold test predictions, test_hits.npz. "
        "vit-report DIR reads them.",
        "export runs/position exported/position",
    ),
    "check": (
        "Compare the runs that two studies or exports both have, by their run ids. The exit status is 1 if a metric "
        "differs.",
        "check runs/position exported/position",
    ),
}
"""Command -> what it does, and an example."""
SEVERAL = ("across", "pool", "check")  # the commands of several studies


def body(argv: Sequence[str]) -> int:
    """Write the report or the export, and print its path."""
    name = argv[0] if argv and argv[0] in COMMANDS else "report"
    if list(argv) == ["plan"]:
        say(*EXAMPLE.splitlines())
        return 0
    parsed = _parser(name).parse_args(argv if name == "report" else argv[1:])
    if name == "report" and parsed.more:
        raise UserError(f"{parsed.more[0]}: is a second study; {PROG} across A B C: one table over several datasets")
    asked = Asked.of_flags(parsed, shlex.join([PROG, *argv]))
    os.environ["MPLBACKEND"] = "Agg"  # no window, and nothing of a notebook around us
    from analysis import commands

    status: int = getattr(commands, name)(parsed.sources, asked)
    return status


def _parser(name: str) -> Parser:
    """The parser of a command. The report of one study is the command without a name."""
    description, example = COMMANDS[name]
    prog = PROG if name == "report" else f"{PROG} {name}"
    parser = Parser(prog, description=description, epilog=f"example: {PROG} {example}")
    several, needs_out = "two or more, each: " * (name in SEVERAL), ", which needs --out" * (name != "export")
    number, about = "+" if name in SEVERAL else 1, f"{several}{SOURCE}{needs_out}"
    parser.add_argument("sources", metavar="STUDY", type=folder, nargs=number, help=about)
    if name == "report":
        parser.add_argument("more", nargs="*", default=[], help=SUPPRESS)
    if name == "export":
        about = "folder of the export; replaces an earlier one of the same runs"
        parser.add_argument("out", metavar="DIR", help=about)
    add_flags(parser, name, _columns)
    return parser


def _columns(parsed_args: Namespace, **_: object) -> Sequence[str]:
    """The columns of the table that the command line names; without a table, the metrics of our runs."""
    from analysis.runs.tables.file import read_file

    try:
        return list(read_file(Path(parsed_args.sources[0])).columns)
    except (UserError, TypeError, IndexError):
        return METRICS


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. Exit status: 0; 1 if `--gate` is not shown, or `check` finds a difference; 2 for bad input."""
    run_command(body, PROG, argv)


if __name__ == "__main__":
    main()
