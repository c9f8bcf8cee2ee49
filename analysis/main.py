"""`vit-report`: from a study's records to a report or an export. Heavy imports wait until they are needed."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
import webbrowser
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli import Parser, folder, run_command
from experiments.errors import UserError
from experiments.runs.tracking.settings import Tracking, add_place_arguments

if TYPE_CHECKING:
    from analysis.report.document import Document
    from analysis.sources.runs_table import RunsTable

PROG = "vit-report"
SOURCES = "wandb:ENTITY/PROJECT[/STUDY] or optuna:FILE[#STUDY]; these need --out"


def parser() -> Parser:
    """The command's arguments."""
    parser = Parser(
        prog=PROG,
        description="Write the report of a study: report.html (one file, works offline), report.md, tables as CSV and "
        "LaTeX, figures as PNG and SVG.",
        epilog="examples: vit-report runs/position; vit-report --compare runs-before/position runs/position; "
        "vit-report runs/position --export exported/position; vit-report digits/position mnist/position --across",
    )
    parser.add_argument(
        "studies",
        metavar="STUDY",
        type=folder,
        nargs="*",
        help=f"the folder of a study or of an exported study; or {SOURCES}. Several only with --across",
    )
    _add_several(parser)
    _add_reading(parser)
    _add_output(parser)
    return parser


def _add_several(parser: Parser) -> None:
    """Add the flags for reports on several studies."""
    parser.add_argument(
        "--compare",
        metavar=("A", "B"),
        type=folder,
        nargs=2,
        help="compare two studies, for example of two commits or scales (default folder: B/report-against-A)",
    )
    parser.add_argument(
        "--across",
        action="store_true",
        help="one report over several datasets: two or more studies of the same variants, each on another dataset "
        "(default folder: report-across in the folder of the first)",
    )


def _add_reading(parser: Parser) -> None:
    """Add the flags for what is read and compared."""
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="exclude records that are damaged or altered, and list them; without this flag they are an error",
    )
    parser.add_argument(
        "--without-models",
        action="store_true",
        help="leave out the figures of trained models and of test images; they need the dataset and take some seconds",
    )
    parser.add_argument(
        "--metric",
        help="metric to compare (default: the study's own, else test/acc); another one makes the report exploratory",
    )
    parser.add_argument(
        "--baseline",
        metavar="VARIANT",
        help="variant to compare with (default: the study's own, else the first by name); another one makes the report exploratory",
    )


def _add_output(parser: Parser) -> None:
    """Add the flags for what is written, and when."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=_folder,
        help="folder of the report; replaces an earlier report there (default: STUDY/report)",
    )
    parser.add_argument(
        "--export",
        metavar="DIR",
        type=_folder,
        help="instead of a report, write the study as study.json, runs.csv, curves.csv and, where records hold test "
        "predictions, test_hits.npz; vit-report DIR reads them",
    )
    parser.add_argument("--open", action="store_true", help="open the report in the web browser")
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=_seconds,
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


def body(argv: Sequence[str]) -> int:
    """Write the report or the export, and print its path."""
    command = parser()
    arguments = command.parse_args(argv)
    _check_combination(command, arguments)
    from analysis.sources.read import is_imported, locate

    given = arguments.compare or arguments.studies
    sources = list(map(locate, given))
    for asked, found in zip(given, sources, strict=True):
        if asked != found:
            print(f"{PROG}: the only study in {asked} is {found}", file=sys.stderr)
    if arguments.export:
        return _export(sources[0], arguments)
    beside = sources[0] if arguments.across else sources[-1]  # the study whose folder the report goes to
    if is_imported(beside) and arguments.out is None:
        command.error(f"{beside}: give the folder of the report with --out DIR")
    if arguments.across:
        return _across(sources, arguments, shlex.join([PROG, *argv]))
    if arguments.compare:
        return _compare(sources[0], sources[1], arguments, shlex.join([PROG, *argv]))
    out = arguments.out or Path(sources[0]) / _report_name(sources[0], arguments)
    return (_watch if arguments.watch else _report)(sources[0], out, arguments)


def _check_combination(command: Parser, arguments: Namespace) -> None:
    """End with an error where the numbers of studies and the flags do not go together."""
    given = len(arguments.studies)
    if arguments.across:
        if arguments.compare:
            command.error("--across is not allowed with --compare")
        if given < 2:
            command.error(f"--across: needs two or more studies, each on another dataset; got {given}")
    elif (given == 0) == (arguments.compare is None):
        command.error("give either the folder of a study, STUDY, or two with --compare A B")
    elif given > 1:
        command.error(f"one STUDY is expected, got {given}; --across reports on several studies together")
    for flag in ("compare", "across"):
        if getattr(arguments, flag) and arguments.watch:
            command.error(f"--watch is for one study; it is not allowed with --{flag}")
    for flag in ("compare", "across", "watch", "metric", "baseline"):
        if getattr(arguments, flag) and arguments.wandb:
            command.error(f"--wandb saves the planned report of one study; it is not allowed with --{flag}")
    for flag in ("project", "entity"):
        if getattr(arguments, flag) is not None and not arguments.wandb:
            command.error(f"--{flag}: is allowed only with --wandb")
    for flag in ("compare", "across", "watch", "out", "open", "wandb"):
        if arguments.export and getattr(arguments, flag):
            command.error(f"--export writes no report; it is not allowed with --{flag}")


def _report_name(source: str, arguments: Namespace) -> str:
    """The folder of a report in the study's folder. An exploratory report does not replace the planned one."""
    from analysis.sources.read import has_plan

    explored = has_plan(source) and (arguments.metric or arguments.baseline)
    return "report-exploratory" if explored else "report"


def _report(source: str, out: Path, arguments: Namespace) -> int:
    from analysis.report import write

    write.check_replaceable(out)
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


def _finish(document: Document, studies: Sequence[RunsTable], out: Path, arguments: Namespace) -> int:
    """Write the report, print its headline and the path of its page, and record that the studies were looked at."""
    from analysis.report import write

    page = write.write(write.make(document), out)
    for study in studies:
        record_look(study)
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    for paragraph in (*(f"Note: {warning}" for warning in document.warnings), *document.headline):
        print(textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False))
    print(page)
    if arguments.open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def record_look(study: RunsTable) -> None:
    """Note in the study's folder that its results were seen. A folder that cannot be written is no error."""
    if study.folder is None or not study.recorded:
        return
    from analysis.looks import this_look
    from experiments.runs.looks import add_look
    from experiments.runs.record import RecordError

    try:
        add_look(study.folder, this_look(study))
    except RecordError as error:
        print(f"{PROG}: this look is not recorded: {error}", file=sys.stderr)


def _export(source: str, arguments: Namespace) -> int:
    """Write the export. An export holds what was planned, so it takes no other metric or baseline than the plan's."""
    from analysis.sources.exported import export
    from analysis.sources.read import has_plan

    for flag in ("metric", "baseline"):
        if has_plan(source) and getattr(arguments, flag) is not None:
            raise UserError(f"--{flag}: is not allowed with --export: the plan of {source} states it")
    print(export(_read(source, arguments), arguments.export))
    return 0


def _read(source: str, arguments: Namespace) -> RunsTable:
    from analysis.sources.read import read

    return read(source, arguments.skip_unreadable, arguments.metric, arguments.baseline)


def _read_all(sources: Sequence[str], arguments: Namespace) -> list[RunsTable]:
    """Several studies. --metric and --baseline are for those without a plan, or for all if all have one."""
    from analysis.sources.read import has_plan, read

    planned = list(map(has_plan, sources))
    given = (arguments.metric, arguments.baseline)
    return [
        read(source, arguments.skip_unreadable, *((None, None) if has and not all(planned) else given))
        for source, has in zip(sources, planned, strict=True)
    ]


def _document(study: RunsTable, out: Path, arguments: Namespace) -> Document:
    from analysis.across import datasets_of
    from analysis.report.across import stratified_document
    from analysis.report.study_report import model_section, study_document
    from analysis.results import analyze

    if len(datasets_of(study)) > 1:
        return stratified_document(study, out)
    results = analyze(study)
    models = None if arguments.without_models else model_section(results, arguments.skip_unreadable)
    return study_document(results, models, out, with_images=not arguments.without_models)


def _compare(a: str, b: str, arguments: Namespace, command: str) -> int:
    from analysis.across import check_one_dataset
    from analysis.report import write
    from analysis.report.compare import compare_document
    from analysis.results import analyze

    out = arguments.out or Path(b) / f"report-against-{Path(a).resolve().name}"
    write.check_replaceable(out)
    studies = _read_all((a, b), arguments)
    for study in studies:
        check_one_dataset(study)
    first, second = map(analyze, studies)
    return _finish(compare_document(first, second, command), studies, out, arguments)


def _across(sources: Sequence[str], arguments: Namespace, command: str) -> int:
    from analysis.across import aggregate_studies
    from analysis.report import write
    from analysis.report.across import across_document
    from analysis.results import analyze

    out = arguments.out or Path(sources[0]) / "report-across"
    write.check_replaceable(out)
    studies = [analyze(study) for study in _read_all(sources, arguments)]
    document = across_document(aggregate_studies(studies), command)
    return _finish(document, [results.study for results in studies], out, arguments)


def _watch(source: str, out: Path, arguments: Namespace) -> int:
    """Write the report whenever runs have ended. The page reloads itself until all have."""
    import time

    from analysis.report import write
    from analysis.report.provenance import digest
    from analysis.sources.runs_table import ENDED

    write.check_replaceable(out)
    shown, opened = None, False
    while True:
        study = _read(source, arguments)
        ended, planned = len(study.of(*ENDED)), len(study.runs) - len(study.of("unplanned"))
        left = len(study.of("incomplete"))
        if ended and shown != (digest(study), left):
            page = write.write(
                write.make(_document(study, out, arguments), refresh=arguments.watch if left else None), out
            )
            print(f"{page}: {ended} of {planned} runs have ended", flush=True)
            if arguments.open and not opened:
                opened = webbrowser.open(page.resolve().as_uri())
            record_look(study)
        elif shown is None:
            print(f"{source}: no run has ended yet", flush=True)
        shown = (digest(study), left)
        if not left:
            return 0
        time.sleep(arguments.watch)


def _folder(text: str) -> Path:
    return Path(folder(text))


def _seconds(text: str) -> int:
    """A positive whole number of seconds."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a whole number of seconds from 1 up")
    return int(text)


def main(argv: Sequence[str] | None = None) -> None:
    """The console command."""
    run_command(body, PROG, argv)


if __name__ == "__main__":
    main()
