"""What the commands of `vit-report` do: read studies, write a report or an export. Each imports what only it needs."""

import importlib.util
import json
import shutil
import textwrap
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.findings import Findings, analyze, analyze_each
from analysis.findings.conduct import record_looks
from analysis.options import ReportOptions, flag_of
from analysis.runs.by_dataset import ADVICE, by_dataset
from analysis.runs.read import has_plan, is_imported, locate, read, read_each, studies_in
from analysis.runs.runs import ENDED, Runs
from analysis.runs.table import TABLE, file_of
from analysis.words import plain
from analysis.write.document import Document, Section
from experiments.errors import UserError, first_few, plural, say
from experiments.metric import known_metrics
from vit.registry import REGISTRY

OF_INDEX = {"skip_unreadable", "out", "figures", "open"}
"""The flags that an index takes. With another one, a folder that holds one study means that study."""

CIRCUMSTANCES = ("hardware", "versions", "commit")
"""What `check` shows of runs beside their metrics."""


def report(sources: Sequence[str], options: ReportOptions) -> int:
    """The report of one study, or the index of the studies in a folder."""
    folders, of_one = studies_in(sources[0]), [name for name in options.given if name not in OF_INDEX]
    if folders and not of_one:
        return _index(sources[0], folders, options)
    if len(folders) > 1:
        several = f"{sources[0]} holds {len(folders)}: {', '.join(map(str, folders))}"
        raise UserError(f"{flag_of(of_one[0])}: is for one study; {several}")
    source = _located(sources[0])
    explored = has_plan(source) and (options.metric or options.baseline)
    return _answer([source], "report-exploratory" if explored else "report", options)


def _index(source: str, folders: Sequence[Path], options: ReportOptions) -> int:
    """Write the index of the studies in a folder."""
    from analysis.outputs.several import index_document

    out = _out(source, "report", options)
    studies: dict[Path, Runs | UserError] = {}
    for folder in folders:
        try:
            studies[folder] = read(str(folder), skip_unreadable=options.skip_unreadable)
        except UserError as error:
            studies[folder] = error
    readable = [study for study in studies.values() if isinstance(study, Runs)]
    if not readable:
        raise UserError(f"{source}: holds no study that can be read: {studies[folders[0]]}")
    return _finish(index_document(Path(source), studies, out), readable, out, options)


def across(sources: Sequence[str], options: ReportOptions) -> int:
    """The same for studies of several datasets together."""
    return _answer(list(map(_located, sources)), "report-across", options)


def _answer(sources: Sequence[str], name: str, options: ReportOptions) -> int:
    """A report, called `name`, or one of `INSTEAD`. Each is a look at the studies."""
    instead = next((output for flag, output in INSTEAD.items() if flag in options.given), None)
    out = None if instead else _out(sources[0], name, options)
    studies = [study for source in sources for study in read_each(source, options)]
    parts = by_dataset(studies)
    _check_number(parts, name, options)
    if options.wandb:
        _check_workspace(studies[0])
    if options.models and studies[0].folder is None:
        raise UserError("--models: needs the folder of a study with checkpoints, not a table or an export")
    results = analyze_each(parts, options.model_copy(update={"out": out}))
    if instead:
        say(*(f"Note: {note}" for note in dict.fromkeys(note for study in studies for note in study.notes)), error=True)
        status, lines = instead(results, options)
        record_looks(studies)
        say(*lines)
        return status
    from analysis.outputs.across import document_of

    assert out is not None
    document = document_of(results, studies, options.command * (name == "report-across"), options.spread)
    _finish(document, studies, out, options)
    if options.wandb:
        say(save_workspace(next(iter(results.values())), document))
    return 0


def _check_number(parts: Mapping[str, Runs], name: str, options: ReportOptions) -> None:
    """Raise `UserError` for a flag of one dataset with several, and the reverse."""
    several = len(parts) > 1
    if several and (of_one := [flag for flag in ("gate", "wandb") if flag in options.given]):
        raise UserError(f"{flag_of(of_one[0])}: is for one dataset, not for {', '.join(parts)}; {ADVICE}")
    if not several and name == "report-across":
        raise UserError("across: one dataset is not enough; give two or more studies, of different datasets")
    if options.spread and not (several or options.table):
        raise UserError("--spread: is allowed only with --table, or over several datasets")


def _gate(results: Mapping[str, Findings], options: ReportOptions) -> tuple[int, list[str]]:
    from analysis.outputs.gate import gate
    from analysis.report import study_sections

    (findings,) = results.values()
    status, said = gate(findings, options.gate or "")
    _say_warnings(findings, study_sections(findings))
    return status, [said]


def _say_warnings(findings: Findings, sections: Sequence[Section]) -> None:
    """Print the warnings of a study, but for its notes, which are printed already."""
    texts = [warning.text for section in sections for warning in section.warnings]
    say(*(f"Note: {text}" for text in texts if text not in findings.study.notes), error=True)


def _table(results: Mapping[str, Findings], options: ReportOptions) -> tuple[int, list[str]]:
    from analysis.outputs.paper_table import table_of, write_table
    from analysis.questions import looks, notes

    assert options.table is not None
    for findings in results.values():  # what may change a verdict; the whole report would cost more than the table
        _say_warnings(findings, [section for ask in (notes, looks) if (section := ask.question(findings))])
    write_table(table_of(results, options.columns, options.spread, typed=options.table.suffix == ".tex"), options.table)
    return 0, [str(options.table)]


def _json(results: Mapping[str, Findings], _: ReportOptions) -> tuple[int, list[str]]:
    from analysis.outputs.as_json import across_dict, as_dict

    data = across_dict(results) if len(results) > 1 else as_dict(*results.values())
    return 0, json.dumps(data, indent=1).splitlines()


INSTEAD = {"gate": _gate, "table": _table, "json": _json}
"""A flag -> what is made instead of a report: the exit status and the lines to print."""


def pool(sources: Sequence[str], options: ReportOptions) -> int:
    """The report of one pair of settings over studies."""
    from analysis.outputs import pooled

    if options.pair is None:
        raise UserError("--pair: is required; " + pooled.EXPECTED)
    located = list(map(_located, sources))
    out = _out(located[0], "report-pool", options)
    studies = {source: read_each(source, options)[0] for source in located}
    results = pooled.pool({source: analyze(study) for source, study in studies.items()}, options.pair)
    return _finish(pooled.pooled_document(results, options.command), [*studies.values()], out, options)


def export(sources: Sequence[str], options: ReportOptions) -> int:
    """The export. It holds what was planned, so it takes no other metric or baseline than the plan's."""
    source = _located(sources[0])
    for flag in ("metric", "baseline"):
        if has_plan(source) and flag in options.given:
            raise UserError(f"--{flag}: is not allowed: the plan of {source} states it")
    (study,) = read_each(source, options)
    from analysis.runs import exported

    assert options.out is not None  # DIR is required
    say(exported.export(study, options.out))
    return 0


def check(sources: Sequence[str], options: ReportOptions) -> int:
    """The runs of equal ids in two studies. Returns 1 if a metric differs."""
    if len(sources) != 2:
        raise UserError(f"check: {plural(len(sources), 'study', 'studies')}: expected two")
    studies = [read_each(_located(source), options)[0] for source in sources]
    equal, lines = _compared(*studies)
    record_looks(studies)
    say(*lines)
    return 0 if equal else 1


def _compared(a: Runs, b: Runs) -> tuple[bool, list[str]]:
    """Whether runs of equal ids ended alike with equal metrics; and what differs, as lines.

    Raises `UserError` where no run of an id has ended in both.
    """
    ended = [study.of(*ENDED).drop_duplicates("run_id") for study in (a, b)]
    both = ended[0].merge(ended[1], on="run_id", suffixes=(" a", " b"))
    if both.empty:
        raise UserError(f"check: no run of {a.name} that has ended has the run id of one of {b.name}")
    metrics = known_metrics(name for name in a.runs if name in b.runs)
    gaps = {metric: (both[f"{metric} a"] - both[f"{metric} b"]).abs().dropna() for metric in metrics}
    others = list[str]()
    for metric, gap in ((metric, gap) for metric, gap in gaps.items() if gap.any()):
        most = f"{metric.size(float(f'{gap.max():.2g}'))} ({both['run a'][gap.idxmax()]})"
        others.append(f"{metric}: {(gap == 0).sum()} of {len(gap)} equal; largest difference {most}")
    alike = both["status a"].eq(both["status b"])
    others += [] if alike.all() else [f"status: {alike.sum()} of {len(both)} equal"]
    known, differ = sum(not gap.empty for gap in gaps.values()), f"{len(others)} differ" if others else "all equal"
    said = f"{plural(len(both), 'run')} of equal ids in both, {plural(known, 'metric')}: {differ}"
    lines = [said, *first_few(others, "\n").splitlines()]
    for name in CIRCUMSTANCES:
        sides = [", ".join(sorted({*both[f"{name} {side}"].dropna()})) or "unknown" for side in "ab"]
        lines += [f"{name}: {sides[0]} | {sides[1]}"] * (sides[0] != sides[1])
    return not others, lines


def _check_workspace(study: Runs) -> None:
    """Raise `UserError` without the extra, or a study's folder that can keep the URL."""
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError('--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"')
    if study.folder is None or not study.recorded:
        raise UserError(f"--wandb: {study.name} has no study folder; give the folder of a study that vit-sweep trained")


def save_workspace(findings: Findings, document: Document) -> str:
    """Save the workspace of a study; what to tell the user."""
    from experiments.tracking import Unreachable, wandb_in_use

    try:
        with wandb_in_use():
            from analysis.outputs import workspace

            return f"workspace in W&B: {workspace.save(findings, document)}"
    except Unreachable as error:
        return f"no workspace is saved: {error}"


def _located(source: str) -> str:
    """The study that a source means. If that is the only one in a folder, a line says so."""
    study = locate(source)
    REGISTRY.plugins_imported |= file_of(study) is not None  # a report on a table needs none
    if study not in (source, f"{TABLE}{source}"):
        say(f"vit-report: the only study in {source} is {study}", error=True)
    return study


def _out(source: str, name: str, options: ReportOptions) -> Path:
    """The folder of the report, free or a report's: `name` in the study's folder, unless --out says where."""
    out = options.out or Path(source) / name
    if options.out is None and (file := file_of(source)):
        metric = f"-{options.metric}".replace("/", "-") if options.metric else ""
        out = file.with_name(f"{file.stem}{metric}-{name}")
    elif options.out is None and is_imported(source):
        raise UserError(f"{source}: give the folder of the report with --out DIR")
    from analysis.write import files

    files.check_unchanged(out)
    return out


def _finish(document: Document, studies: Sequence[Runs], out: Path, options: ReportOptions) -> int:
    """Write and open the report, record the look at the studies, and print the headline and the path of the page."""
    from analysis.write import files

    page = files.write(files.make(document, options.figures), out)
    record_looks(studies)
    if options.open:
        webbrowser.open(page.resolve().as_uri())
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    for paragraph in (*(f"Note: {warning.line}" for warning in document.warnings), *document.headline):
        say(*textwrap.wrap(plain(paragraph), width, break_long_words=False, break_on_hyphens=False))
    say(page)
    return 0
