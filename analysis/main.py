"""`vit-report`: from a study's records to a report. Arguments only; what is heavy is imported when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.command import Parser, run_command

PROG = "vit-report"


def parser() -> Parser:
    """The command's arguments."""
    parser = Parser(
        prog=PROG,
        description="Write the report of a study: report.html (one file, works offline), report.md, tables as CSV and LaTeX, figures as PNG and SVG.",
        epilog="example: vit-report runs/position",
    )
    parser.add_argument("study", metavar="STUDY", help="the study's folder, OUT/STUDY, as vit-sweep writes it")
    parser.add_argument("--out", metavar="DIR", type=Path, help="the report's folder; one that vit-report wrote is replaced [STUDY/report]")
    parser.add_argument("--skip-unreadable", action="store_true", help="report without records that are damaged or altered, naming them; else they are an error")
    return parser


def body(argv: Sequence[str]) -> int:
    """Make and write the report; prints its path."""
    arguments = parser().parse_args(argv)
    from analysis import report
    from analysis.findings import find
    from analysis.load import read_folder

    folder = Path(arguments.study)
    out = arguments.out or folder / "report"
    report.check_replaceable(out)
    study = read_folder(folder, skip_unreadable=arguments.skip_unreadable)
    page = report.write(report.make(find(study)), out)
    print(page)
    return 0


def main(argv: Sequence[str] | None = None) -> None:
    """The console command."""
    run_command(body, PROG, argv)
