"""`vit-report`: the parsers of its commands. Heavy imports wait until a command is carried out."""

import shlex
from argparse import SUPPRESS
from collections.abc import Sequence
from pathlib import Path

from experiments.cli import Parser, folder, run_command
from experiments.errors import UserError
from experiments.runs.tracking.settings import add_place_arguments

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
  vit-report export STUDY DIR    write a study as JSON and CSV""",
        "STUDY/report",
    ),
    "across": (
        "Write one table over studies of the same variants, each on another dataset, with one level for all datasets.",
        "across digits/position mnist/position",
        "report-across in the folder of the first study",
    ),
    "export": (
        "Write a study as study.json, runs.csv, curves.csv and, where records hold test predictions, test_hits.npz. "
        "vit-report DIR reads them.",
        "export runs/position exported/position",
        "",
    ),
}
"""Command -> what it does, an example, and the default folder of its report, if it writes one."""


def body(argv: Sequence[str]) -> int:
    """Write the report or the export, and print its path."""
    name = argv[0] if argv and argv[0] in COMMANDS else "report"
    arguments = _parser(name).parse_args(argv if name == "report" else argv[1:])
    if name == "report" and arguments.more:
        raise UserError(f"{arguments.more[0]}: is a second study; {PROG} across A B C: one table over several datasets")
    from analysis import commands

    arguments.command = shlex.join([PROG, *argv])
    status: int = getattr(commands, name)(arguments)
    return status


def _parser(name: str) -> Parser:
    """The parser of a command. The report of one study is the command without a name."""
    description, example, out = COMMANDS[name]
    prog = PROG if name == "report" else f"{PROG} {name}"
    parser = Parser(prog, description=description, epilog=f"example: {PROG} {example}")
    source = SOURCE + ", which needs --out" * bool(out)
    if name == "across":
        parser.add_argument("studies", metavar="STUDY", type=folder, nargs="+", help=f"two or more, each: {source}")
        parser.set_defaults(models=False, wandb=False)
    else:
        parser.add_argument("study", metavar="STUDY", type=folder, help=source)
    if name == "export":
        about = "folder of the export; replaces an earlier one of the same runs"
        parser.add_argument("out", metavar="DIR", type=_folder, help=about)
    about = "exclude records that are damaged or altered, and list them; without this flag they are an error"
    parser.add_argument("--skip-unreadable", action="store_true", help=about)
    about = "metric to compare (default: the study's own, else test/acc); another one makes the report exploratory"
    parser.add_argument("--metric", help=about)
    about = "variant to compare with (default: the study's own, else the first by name); another one: as for --metric"
    parser.add_argument("--baseline", metavar="VARIANT", help=about)
    _add_table_flags(parser, bool(out))
    if out:
        about = f"folder of the report; replaces an earlier report there (default: {out})"
        parser.add_argument("--out", metavar="DIR", type=_folder, help=about)
        about = "also write the figures as PNG or PDF; both: repeat the flag"
        parser.add_argument("--figures", choices=("png", "pdf"), action="append", default=[], help=about)
        parser.add_argument("--open", action="store_true", help="open the report in the web browser")
    if name in ("report", "across"):
        about = (
            "write only this table, to a file that ends with .tex (booktabs), .md or .csv; "
            "replaces an earlier one with the same first line"
        )
        parser.add_argument("--table", metavar="FILE", type=_folder, help=about)
        named = "variant,digits,mnist,better" if name == "across" else "variant,test/acc,difference"
        about = f"columns of the table, such as {named}; a wrong name lists them all"
        parser.add_argument("--columns", metavar="NAME,NAME", help=about)
        about = "caption of the table, instead of one that explains it; $...$ is math; '': in a .tex, only the tabular"
        parser.add_argument("--caption", metavar="TEXT", help=about)
        about = "label of the table in a .tex (default: tab:STUDY-FILE, of across tab:across-FILE)"
        parser.add_argument("--label", help=about)
        about = "the name of a variant in tables and figures; $...$ is math; several: repeat the flag"
        parser.add_argument("--rename", metavar="OLD=NEW", action="append", default=[], help=about)
        about = "what stands after ±: half the interval of the mean (default), or the standard deviation of the runs"
        parser.add_argument("--spread", choices=("interval", "sd"), help=about)
        about = "print metric, margin, means and all comparisons as JSON, and write no report; a look, as a report is"
        parser.add_argument("--json", action="store_true", help=about)
    if name == "report":
        parser.add_argument("more", nargs="*", default=[], help=SUPPRESS)
        _add_report_flags(parser)
    return parser


def _add_table_flags(parser: Parser, dataset: bool) -> None:
    """The flags that, with --metric, say what the columns of a table of runs are."""
    table = parser.add_argument_group("tables", "What the columns are; --metric names the column of the metric.")
    about = (
        "column of a factor (default: the only one of text with repeated values); several: repeat the flag. Runs with "
        "the same levels are one variant"
    )
    table.add_argument("--factor", metavar="COLUMN", action="append", help=about)
    about = "keep only the rows with this value, such as dataset=mnist; several conditions: repeat the flag"
    table.add_argument("--where", metavar="COLUMN=VALUE", action="append", help=about)
    about = "count the rows with this value as failed runs, such as State=crashed or 'State!=finished'; several: repeat"
    table.add_argument("--failed", metavar="COLUMN=VALUE", action="append", help=about)
    table.add_argument("--seed", metavar="COLUMN", help="column of the seed, by which runs are paired (default: seed)")
    about = "equivalence margin in the unit of the metric; without it, only differences are tested"
    table.add_argument("--margin", metavar="NUMBER", type=float, help=about)
    about = (
        "shared (default): standard errors that share all variants' spread; paired: the paired t test of each pair; "
        "unpaired: for runs without seeds, also of W&B"
    )
    kind = table.add_mutually_exclusive_group()
    kind.add_argument("--variance", metavar="KIND", help=about)
    about = "the same as --variance unpaired"
    kind.add_argument("--unpaired", dest="variance", action="store_const", const="unpaired", help=about)
    about = "baseline: test the pairs with the baseline only, which shows more; all (default): test every pair"
    table.add_argument("--family", metavar="PAIRS", help=about)
    table.add_argument("--lower-is-better", action="store_const", const=True, help="as for an error or a time")
    if dataset:
        about = "column of the dataset: variants are compared within each, with one level for all datasets together"
        table.add_argument("--dataset", metavar="COLUMN", help=about)


def _add_report_flags(parser: Parser) -> None:
    """The flags of the report of one study."""
    about = "style of the figures: a file as for Matplotlib (.mplstyle or matplotlibrc)"
    parser.add_argument("--style", metavar="FILE", type=_folder, help=about)
    about = "also show position embeddings of trained models, and their attention on test images; needs the dataset"
    parser.add_argument("--models", action="store_true", help=about)
    about = (
        "also save a workspace in Weights & Biases: the differences, and plots of the runs by variant; again: update "
        'it. Sections that you add stay. It needs pip install "vit-ablation[wandb]"'
    )
    parser.add_argument("--wandb", action="store_true", help=about)
    add_place_arguments(parser)


def _folder(text: str) -> Path:
    return Path(folder(text))


def main(argv: Sequence[str] | None = None) -> None:
    """The console command."""
    run_command(body, PROG, argv)


if __name__ == "__main__":
    main()
