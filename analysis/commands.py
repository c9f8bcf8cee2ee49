"""What the commands of `vit-report` do: read studies, write a report or an export, and print where it is."""

import importlib.util
import json
import shutil
import sys
import textwrap
import webbrowser
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from analysis.figures.style import use_file
from analysis.findings import Findings, Page, analyze_each
from analysis.findings.conduct import this_look
from analysis.outputs.as_json import across_dict, as_dict
from analysis.outputs.paper_table import check_file, paper_table, write_table
from analysis.report import study_document
from analysis.runs import exported
from analysis.runs.by_dataset import ADVICE, by_dataset
from analysis.runs.read import TABLE, has_plan, is_imported, locate, read, read_each, studies_in
from analysis.runs.runs import Runs
from analysis.runs.tabular import FORMATS
from analysis.studies.over_studies import across_document, studies_table
from analysis.studies.several import index_document
from analysis.words import plain
from analysis.write import files as write
from analysis.write.document import Document
from experiments.errors import UserError
from experiments.runs.history import add_look
from experiments.runs.tracking import server
from experiments.runs.tracking.settings import Tracking
from vit.registry import REGISTRY

ALONE = (
    ("table", "writes only the table", ("out", "figures", "open", "wandb", "json", "style", "models")),
    ("json", "prints JSON and writes no report", ("out", "figures", "open", "wandb", "rename", "style", "models")),
    ("wandb", "shows the planned comparison", ("metric", "baseline")),
)
"""A flag, what it does, and the flags that do not go with it."""

LIMIT_SECONDS = 120  # for everything that is asked of the server of W&B
TABLE_FLAGS = ("factor", "where", "failed", "seed", "margin", "lower_is_better", "variance", "family", "dataset")
ONE_STUDY = ("metric", "baseline", "table", "json", "wandb", *TABLE_FLAGS)
"""The flags that an index does not take. With one of them, a folder that holds one study means that study."""


def report(arguments: Namespace) -> int:
    """The report of one study, or the index of the studies in a folder."""
    _check_flags(arguments)
    folders = studies_in(arguments.study)
    if len(folders) > 1 or (folders and not any(getattr(arguments, flag) for flag in ONE_STUDY)):
        return _index(folders, arguments)
    source = _located(arguments.study)
    explored = has_plan(source) and (arguments.metric or arguments.baseline)
    return _answer([source], "report-exploratory" if explored else "report", arguments)


def _index(folders: Sequence[Path], arguments: Namespace) -> int:
    """Write the index of the studies in a folder."""
    for flag in ONE_STUDY:
        if getattr(arguments, flag):
            several = f"{arguments.study} holds {len(folders)}: {', '.join(map(str, folders))}"
            raise UserError(f"--{flag.replace('_', '-')}: is for one study; {several}")
    out = _out(arguments.study, "report", arguments)
    studies: dict[Path, Runs | UserError] = {}
    for folder in folders:
        try:
            studies[folder] = read(str(folder), arguments.skip_unreadable)
        except UserError as error:
            studies[folder] = error
    readable = [study for study in studies.values() if isinstance(study, Runs)]
    if not readable:
        raise UserError(f"{arguments.study}: holds no study that can be read: {studies[folders[0]]}")
    return _finish(index_document(Path(arguments.study), studies, out), readable, out, arguments)


def across(arguments: Namespace) -> int:
    """The same for studies of several datasets together."""
    _check_flags(arguments)
    return _answer(list(map(_located, arguments.studies)), "report-across", arguments)


def _answer(sources: Sequence[str], name: str, arguments: Namespace) -> int:
    """A report, called `name`, or with --table and --json only these. Each is a look at the studies."""
    out = None if arguments.table or arguments.json else _out(sources[0], name, arguments)
    studies = [study for source in sources for study in _read(source, arguments)]
    if sources[0].startswith(f"{TABLE}:") and not arguments.factor:
        print(f"factor: {next(iter(studies[0].factors))}", file=sys.stderr if out is None else sys.stdout)
    parts, columns = by_dataset(studies), arguments.columns
    several = len(parts) > 1
    if not several and name == "report-across":
        raise UserError("across: one dataset is not enough; give two or more studies, of different datasets")
    if several and arguments.wandb:
        raise UserError(f"--wandb: is for one dataset, not for {', '.join(parts)}; {ADVICE}")
    if arguments.wandb:
        _check_workspace(studies[0])
        place = Tracking(project=arguments.project, entity=arguments.entity)
    found = analyze_each(parts, _page(out, arguments))
    one = next(iter(found.values()))
    if out is None:
        names = None if columns is None else [text.strip() for text in columns.split(",")]
        if file := arguments.table:
            shown = {name: f.for_latex if file.suffix == ".tex" else f for name, f in found.items()}
            single, asked = next(iter(shown.values())), (names, arguments.spread)
            table = studies_table(shown, *asked) if several else paper_table(single, *asked)
            label = arguments.label or f"tab:{'across' if several else one.study.name}-{file.stem}"
            write_table(table, file, label, arguments.caption)
        print(arguments.table or json.dumps(across_dict(found) if several else as_dict(one), indent=1))
        for study in studies:
            record_look(study)
        return 0
    command = arguments.command * (name == "report-across")
    document = across_document(found, studies, command, arguments.spread) if several else study_document(one)
    _finish(document, studies, out, arguments)
    if arguments.wandb:
        print(save_workspace(one, document, place))
    return 0


def export(arguments: Namespace) -> int:
    """The export. It holds what was planned, so it takes no other metric or baseline than the plan's."""
    source = _located(arguments.study)
    for flag in ("metric", "baseline"):
        if has_plan(source) and getattr(arguments, flag) is not None:
            raise UserError(f"--{flag}: is not allowed: the plan of {source} states it")
    (study,) = _read(source, arguments)
    print(exported.export(study, arguments.out))
    return 0


def _check_workspace(study: Runs) -> None:
    """Raise `UserError` where the extra is not installed, or where the study has no folder that can keep the URLs."""
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError('--wandb: needs the extra "wandb"; install it with: pip install "vit-ablation[wandb]"')
    if study.folder is None or not study.recorded:
        raise UserError(f"--wandb: {study.name} has no study folder; give the folder of a study that vit-sweep trained")


def save_workspace(findings: Findings, document: Document, place: Tracking) -> str:
    """Save the workspace of a study; what to tell the user."""
    folder = findings.study.folder
    assert folder is not None  # see `_check_workspace`
    try:
        with server.wandb_in_use():
            from analysis.outputs import workspace

            url = server.bounded(lambda: workspace.save(findings, document, folder, place), LIMIT_SECONDS)
            return f"workspace in W&B: {url}"
    except server.Unreachable as error:
        return f"not saved in W&B ({error})"


def record_look(study: Runs) -> None:
    """Note in the study's folder that its results were seen. A folder that cannot be written is no error."""
    if study.folder is not None and study.recorded:
        try:
            add_look(study.folder, this_look(study))
        except UserError as error:
            print(f"vit-report: this look is not recorded: {error}", file=sys.stderr)


def _check_flags(arguments: Namespace) -> None:
    """Raise `UserError` for flags that do not go together with --table or --wandb, or only with it."""
    given = {flag for flag, value in vars(arguments).items() if value not in (None, False, [])}
    for flag, says, others in ALONE:
        for other in others:
            if {flag, other} <= given:
                raise UserError(f"--{flag}: {says}; it is not allowed with --{other}")
    of_table = ["columns", "label", "caption", *["spread"] * ("more" in vars(arguments))]  # `across` has it on its page
    for flag, needed in (*((flag, "table") for flag in of_table), ("project", "wandb"), ("entity", "wandb")):
        if flag in given and needed not in given:
            raise UserError(f"--{flag}: is allowed only with --{needed}")
    if arguments.table:
        check_file(arguments.table, arguments.label, arguments.caption)
    if "style" in given:
        use_file(arguments.style)


def _located(source: str) -> str:
    """The study that a source means. If that is the only one in a folder, a line says so."""
    study = locate(source)
    REGISTRY.plugins_imported |= study.startswith(f"{TABLE}:")  # a report on a table needs none
    if study not in (source, f"{TABLE}:{source}"):
        print(f"vit-report: the only study in {source} is {study}", file=sys.stderr)
    return study


def _out(source: str, name: str, arguments: Namespace) -> Path:
    """The folder of the report, free or a report's: `name` in the study's folder, unless --out says where."""
    if arguments.out is None and source.startswith(f"{TABLE}:"):
        file = Path(source.removeprefix(f"{TABLE}:")).expanduser()
        ending = next((ending for ending in FORMATS if file.name.lower().endswith(ending)), "")
        metric = str(arguments.metric).replace("/", "-")
        arguments.out = file.with_name(f"{file.name[: len(file.name) - len(ending)]}-{metric}-{name}")
    if arguments.out is None and is_imported(source):
        raise UserError(f"{source}: give the folder of the report with --out DIR")
    out: Path = arguments.out or Path(source) / name
    write.check_unchanged(out)
    return out


def _read(source: str, arguments: Namespace) -> list[Runs]:
    table = {flag: vars(arguments)[flag] for flag in TABLE_FLAGS if vars(arguments).get(flag) is not None}
    if source.startswith(f"{TABLE}:"):
        table["command"] = arguments.command
    return read_each(source, arguments.skip_unreadable, arguments.metric, arguments.baseline, **table)


def _page(out: Path | None, arguments: Namespace) -> Page:
    return Page(out, _renamed(arguments), arguments.models, arguments.skip_unreadable)


def _renamed(arguments: Namespace) -> tuple[tuple[str, str], ...]:
    """The variants of --rename with their new names."""
    pairs = [text.partition("=") for text in arguments.rename]
    for old, equals, new in pairs:
        if not (old and equals and plain(new)):
            raise UserError(f"--rename: {old + equals + new!r} is not allowed: expected OLD=NEW")
    return tuple((old, new) for old, _, new in pairs)


def _finish(document: Document, studies: Sequence[Runs], out: Path, arguments: Namespace) -> int:
    """Write and open the report, record the look at the studies, and print the headline and the path of the page."""
    page = write.write(write.make(document, arguments.figures), out)
    for study in studies:
        record_look(study)
    if arguments.open:
        webbrowser.open(page.resolve().as_uri())
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    for paragraph in (*(f"Note: {warning.line}" for warning in document.warnings), *document.headline):
        print(textwrap.fill(plain(paragraph), width, break_long_words=False, break_on_hyphens=False))
    print(page, flush=True)
    return 0
