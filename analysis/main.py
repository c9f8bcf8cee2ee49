"""`vit-report`: the parsers of its commands. Heavy imports wait until a command is carried out."""

import os
import shlex
from collections.abc import Sequence

from analysis.options import ReportOptions, add_flags
from experiments.cli import Parser, folder, run_command

PROG = "vit-report"
SOURCE = "a study's folder, an export, a table (.csv, .tsv, .jsonl, .parquet), wandb:ENTITY/PROJECT"
HELP = """Write the report of a study: what differs, by how much, and how sure that is.

examples:
  vit-report runs/position                           a study, or the folder of several
  vit-report runs.csv --metric acc --margin 0.5      a table, one row for each run
  vit-report log.csv --metric loss --last epoch      the last row of each run
  vit-report runs.csv --table methods.tex            a table for a paper
  vit-report runs.csv --gate 'new better than old'   an exit status
  vit-report wandb:ENTITY/PROJECT --metric acc --out report

other commands:
  vit-report across A B C        one table over several datasets
  vit-report pool A B C          one difference over several studies
  vit-report export STUDY DIR    write a study as JSON and CSV
  vit-report check A B           compare runs of equal ids"""
COMMANDS = {
    "report": HELP,
    "across": "Write one table over studies of the same variants, each on another dataset, with one level for all "
    "datasets.",
    "pool": "Pool the difference of one pair of settings over studies that share no run: the mean in these studies, "
    "and from three studies on the mean over studies.",
    "export": "Write a study as study.json, runs.csv and curves.csv. vit-report DIR reads them.",
    "check": "Compare the runs that two studies or exports both have, by their run ids. The exit status is 1 if a "
    "metric differs.",
}
"""Command -> what it does."""
SEVERAL = ("across", "pool", "check")  # the commands of several studies


def body(argv: Sequence[str]) -> int:
    """Write the report or the export, and print its path."""
    name = argv[0] if argv and argv[0] in COMMANDS else "report"
    parsed = _parser(name).parse_args(argv if name == "report" else argv[1:])
    options = ReportOptions.of_flags(parsed, shlex.join([PROG, *argv]))
    os.environ["MPLBACKEND"] = "Agg"  # no window, and nothing of a notebook around us
    from analysis import commands

    status: int = getattr(commands, name)(parsed.sources, options)
    return status


def _parser(name: str) -> Parser:
    """The parser of a command. The report of one study is the command without a name."""
    prog = PROG if name == "report" else f"{PROG} {name}"
    studies = "STUDY STUDY..." if name in SEVERAL else "STUDY DIR" if name == "export" else "STUDY"
    parser = Parser(prog, description=COMMANDS[name], usage=f"{prog} {studies} [options]")
    parser.add_argument("sources", metavar="STUDY", type=folder, nargs="+" if name in SEVERAL else 1, help=SOURCE)
    if name == "export":
        about = "folder of the export; replaces an earlier one of the same runs"
        parser.add_argument("out", metavar="DIR", help=about)
    add_flags(parser, name)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. Exit status: 0; 1 if `--gate` is not shown, or `check` finds a difference; 2 for bad input."""
    run_command(body, PROG, argv)


if __name__ == "__main__":
    main()
