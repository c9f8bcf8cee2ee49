"""`vit-report`: from a study's records to a report or an export. Heavy imports wait until they are needed."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
import webbrowser
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli import Parser, folder, positive, run_command
from experiments.errors import UserError
from experiments.runs.tracking.settings import Tracking, add_place_arguments

if TYPE_CHECKING:
    from analysis.report.document import Document
    from analysis.sources.runs_table import RunsTable

PROG = "vit-report"
SOURCE = (
    "the folder of a study or of an export; or wandb:ENTITY/PROJECT[/STUDY] or optuna:FILE[#STUDY], which need --out"
)
RENAMED = {"--compare": "compare A B", "--across": "across A B C", "--export": "export STUDY DIR"}
OTHERS = """\
other commands (a folder that has the name of a command: ./compare):
  vit-report compare A B         compare two studies
  vit-report across A B C        one report over several datasets
  vit-report export STUDY DIR    write a study as JSON and CSV"""


def _study_parser() -> Parser:
    """The command without a name: the report of one study."""
    parser = _parser(
        "",
        _report,
        "Write the report of a study: report.html (one file, works offline), report.md, tables as CSV and LaTeX, figures as "
        "SVG.",
        f"vit-report runs/position\n\n{OTHERS}",
        out="STUDY/report",
    )
    parser.add_argument("study", metavar="STUDY", type=folder, help=SOURCE)
    parser.add_argument(
        "--without-models",
        action="store_true",
        help="leave out the figures of trained models and of test images; they need the dataset and take some seconds",
    )
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=positive,
        const=30,
        help="update the report while the sweep runs, until all planned runs have ended (default: every 30 s); "
        "an update with another number of finished seeds counts as a look at the study",
    )
    parser.add_argument(
        "--wandb",
        action="store_true",
        help="also save the report and a workspace with plots of the runs in Weights & Biases; again: update them. "
        'Sections that you add to the workspace stay. It needs pip install "vit-ablation[wandb]"',
    )
    add_place_arguments(parser)
    return parser


def _compare_parser() -> Parser:
    description = "Compare two studies, for example of two commits or scales."
    example = "vit-report compare runs-before/position runs/position"
    parser = _parser("compare", _compare, description, example, out="B/report-against-A")
    parser.add_argument("a", metavar="A", type=folder, help=SOURCE)
    parser.add_argument("b", metavar="B", type=folder, help="the study that is compared with A")
    return parser


def _across_parser() -> Parser:
    description = "Write one report over several datasets: studies of the same variants, each on another dataset."
    example = "vit-report across digits/position mnist/position"
    parser = _parser("across", _across, description, example, out="report-across in the folder of the first study")
    parser.add_argument("studies", metavar="STUDY", type=folder, nargs="+", help=f"two or more, each: {SOURCE}")
    return parser


def _export_parser() -> Parser:
    parser = _parser(
        "export",
        _export,
        "Write a study as study.json, runs.csv, curves.csv and, where records hold test predictions, test_hits.npz. "
        "vit-report DIR reads them.",
        "vit-report export runs/position exported/position",
    )
    parser.add_argument("study", metavar="STUDY", type=folder, help=SOURCE.removesuffix(", which need --out"))
    parser.add_argument("out", metavar="DIR", type=_folder, help="folder of the export; replaces an earlier one there")
    return parser


COMMANDS: dict[str, Callable[[], Parser]] = {
    "compare": _compare_parser,
    "across": _across_parser,
    "export": _export_parser,
}


def _parser(
    name: str, execute: Callable[[Namespace], int], description: str, example: str, out: str | None = None
) -> Parser:
    """A parser with the flags that the commands share. `out`: the default folder of a report; None for no report."""
    parser = Parser(f"{PROG} {name}".rstrip(), description=description, epilog=f"example: {example}")
    parser.set_defaults(execute=execute)
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="exclude records that are damaged or altered, and list them; without this flag they are an error",
    )
    parser.add_argument(
        "--metric",
        help="metric to compare (default: the study's own, else test/acc); another one makes the report exploratory",
    )
    parser.add_argument(
        "--baseline",
        metavar="VARIANT",
        help="variant to compare with (default: the study's own, else the first by name); another one makes the report "
        "exploratory",
    )
    if out is not None:
        about = f"folder of the report; replaces an earlier report there (default: {out})"
        parser.add_argument("--out", metavar="DIR", type=_folder, help=about)
        parser.add_argument("--png", action="store_true", help="also write the figures as PNG")
        parser.add_argument("--open", action="store_true", help="open the report in the web browser")
    return parser


def body(argv: Sequence[str]) -> int:
    """Write the report or the export, and print its path."""
    for flag in (word.partition("=")[0] for word in argv):
        if flag in RENAMED:
            raise UserError(f"{flag}: is a command now: {PROG} {RENAMED[flag]}")
    named = bool(argv) and argv[0] in COMMANDS
    parser = COMMANDS[argv[0]]() if named else _study_parser()
    arguments = parser.parse_args(argv[named:])
    arguments.command = shlex.join([PROG, *argv])
    status: int = arguments.execute(arguments)
    return status


def _report(arguments: Namespace) -> int:
    """The report of one study, once or again and again."""
    from analysis.report import write
    from analysis.sources.read import has_plan

    _check_wandb(arguments)
    source = _located(arguments.study)
    explored = has_plan(source) and (arguments.metric or arguments.baseline)
    out = _out(source, "report-exploratory" if explored else "report", arguments)
    write.check_replaceable(out)
    if arguments.watch:
        return _watch(source, out, arguments)
    study = _read(source, arguments)
    if not arguments.wandb:
        return _finish(_document(study, out, arguments), [study], out, arguments)
    from analysis.wandb_pages.publish import check, publish

    check(study)
    place = Tracking(project=arguments.project, entity=arguments.entity)
    document = _document(study, out, arguments)
    _finish(document, [study], out, arguments)
    for line in publish(study, document, out, place):
        print(line)
    return 0


def _check_wandb(arguments: Namespace) -> None:
    """Raise `UserError` for flags that do not go together with --wandb, or only with it."""
    for flag in ("watch", "metric", "baseline"):
        if arguments.wandb and getattr(arguments, flag):
            raise UserError(f"--wandb: saves the planned report, once; it is not allowed with --{flag}")
    for flag in ("project", "entity"):
        if not arguments.wandb and getattr(arguments, flag) is not None:
            raise UserError(f"--{flag}: is allowed only with --wandb")


def _watch(source: str, out: Path, arguments: Namespace) -> int:
    """Write the report whenever runs have ended. The page reloads itself until all have."""
    import time

    from analysis.report.provenance import digest
    from analysis.sources.source_run import ENDED

    shown = None
    while True:
        study = _read(source, arguments)
        ended, planned = len(study.of(*ENDED)), len(study.runs) - len(study.of("unplanned"))
        left = len(study.of("incomplete"))
        if ended and shown != (digest(study), left):
            refresh = arguments.watch if left else None
            page = _write(_document(study, out, arguments), [study], out, arguments, refresh)
            print(f"{page}: {ended} of {planned} runs have ended", flush=True)
            arguments.open = arguments.open and not webbrowser.open(page.resolve().as_uri())
        elif shown is None:
            print(f"{source}: no run has ended yet", flush=True)
        shown = (digest(study), left)
        if not left:
            return 0
        time.sleep(arguments.watch)


def _compare(arguments: Namespace) -> int:
    """The report that compares two studies."""
    from analysis.report import write
    from analysis.report.several_studies import compare_document
    from analysis.results.study_results import analyze
    from analysis.sources.by_dataset import check_one_dataset

    a, b = _located(arguments.a), _located(arguments.b)
    out = _out(b, f"report-against-{Path(a).resolve().name}", arguments)
    write.check_replaceable(out)
    studies = [_read(source, arguments) for source in (a, b)]
    for study in studies:
        check_one_dataset(study)
    first, second = map(analyze, studies)
    return _finish(compare_document(first, second, arguments.command), studies, out, arguments)


def _across(arguments: Namespace) -> int:
    """The report over several datasets."""
    from analysis.report import write
    from analysis.report.several_studies import across_document
    from analysis.results.study_results import analyze

    sources = list(map(_located, arguments.studies))
    out = _out(sources[0], "report-across", arguments)
    write.check_replaceable(out)
    studies = [_read(source, arguments) for source in sources]
    document = across_document(list(map(analyze, studies)), arguments.command)
    return _finish(document, studies, out, arguments)


def _export(arguments: Namespace) -> int:
    """The export. It holds what was planned, so it takes no other metric or baseline than the plan's."""
    from analysis.sources.exported import export
    from analysis.sources.read import has_plan

    source = _located(arguments.study)
    for flag in ("metric", "baseline"):
        if has_plan(source) and getattr(arguments, flag) is not None:
            raise UserError(f"--{flag}: is not allowed: the plan of {source} states it")
    print(export(_read(source, arguments), arguments.out))
    return 0


def _located(source: str) -> str:
    """The study that a source means. If that is the only one in a folder, a line says so."""
    from analysis.sources.read import locate

    if (study := locate(source)) != source:
        print(f"{PROG}: the only study in {source} is {study}", file=sys.stderr)
    return study


def _out(source: str, name: str, arguments: Namespace) -> Path:
    """The folder of the report: `name` in the study's folder, unless --out says where."""
    from analysis.sources.read import is_imported

    if arguments.out is None and is_imported(source):
        raise UserError(f"{source}: give the folder of the report with --out DIR")
    return arguments.out or Path(source) / name


def _read(source: str, arguments: Namespace) -> RunsTable:
    from analysis.sources.read import read

    return read(source, arguments.skip_unreadable, arguments.metric, arguments.baseline)


def _document(study: RunsTable, out: Path, arguments: Namespace) -> Document:
    from analysis.figures.labels import study_styles
    from analysis.report.sections.models import model_section
    from analysis.report.several_studies import stratified_document
    from analysis.report.study_report import study_document
    from analysis.results.study_results import analyze
    from analysis.sources.by_dataset import datasets_of

    if len(datasets_of(study)) > 1:
        return stratified_document(study, out)
    results = analyze(study)
    styles, best = study_styles(results.variants, results.means), results.means.best
    models = None if arguments.without_models else model_section(study, best, styles, arguments.skip_unreadable)
    return study_document(results, models, out, with_images=not arguments.without_models)


def _finish(document: Document, studies: Sequence[RunsTable], out: Path, arguments: Namespace) -> int:
    """Write the report, and print its headline and the path of its page."""
    page = _write(document, studies, out, arguments)
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    for paragraph in (*(f"Note: {warning}" for warning in document.warnings), *document.headline):
        print(textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False))
    print(page)
    if arguments.open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def _write(
    document: Document, studies: Sequence[RunsTable], out: Path, arguments: Namespace, refresh: int | None = None
) -> Path:
    """Write the report and record that the studies were looked at; returns the path of its page."""
    from analysis.report import write

    png = arguments.png or getattr(arguments, "wandb", False)  # W&B shows no SVG
    page = write.write(write.make(document, refresh, png), out)
    for study in studies:
        record_look(study)
    return page


def record_look(study: RunsTable) -> None:
    """Note in the study's folder that its results were seen. A folder that cannot be written is no error."""
    if study.folder is None or not study.recorded:
        return
    from analysis.results.conduct import this_look
    from experiments.runs.looks import add_look
    from experiments.runs.record import RecordError

    try:
        add_look(study.folder, this_look(study))
    except RecordError as error:
        print(f"{PROG}: this look is not recorded: {error}", file=sys.stderr)


def _folder(text: str) -> Path:
    return Path(folder(text))


def main(argv: Sequence[str] | None = None) -> None:
    """The console command."""
    run_command(body, PROG, argv)


if __name__ == "__main__":
    main()
