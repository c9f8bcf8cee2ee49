"""The section "Reproduce": the commands that train the runs and write this report, and the user's own files."""

from __future__ import annotations

import shlex
from argparse import ArgumentError, ArgumentParser, Namespace

import yaml

from analysis.report.document import Code, Section
from analysis.report.sections.provenance import origin
from analysis.report.text import paragraphs, text
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED


def reproduce(study: RunsTable) -> Section:
    """Return the section of one study."""
    plan, ended = study.plan, study.of(*ENDED)
    words, given = _parsed(plan.command)
    folder = f"{(given.out or 'runs').rstrip('/')}/{study.name}"
    modules = dict.fromkeys(name for value in ended["plugin_modules"].dropna() for name in str(value).split(","))
    notes = paragraphs(
        "provenance",
        "before",
        commits=ended["commit"].dropna().unique().tolist(),
        modules=shlex.quote(",".join(modules)) if modules else "",
        tuned=f"{folder}/study.json" if plan.command and plan.tuned_settings else "",
    )
    sweep = [shlex.join([*words, *_options(study, given)]) if words else plan.command] if plan.command else []
    metric, baseline = ["--metric", study.metric], ["--baseline", study.baseline]
    if plan.source:  # W&B or Optuna, which hold no plan
        report = [plan.source, *metric, *baseline, "--out", "report"]
    else:  # an exploratory report has another metric or baseline than the plan
        stated = study.stated_plan
        report = [folder, *metric * (study.metric != stated.metric), *baseline * (study.baseline != stated.baseline)]
    lines = [*notes, *sweep, shlex.join(["vit-report", *report])]
    return Section("reproduce", "Reproduce", [Code("\n".join(lines)), *_definition(study, words), *_sources(study)])


def study_provenance(anchor: str, name: str, study: RunsTable) -> Section:
    """Return a section with the provenance and the commands of one of several studies of a report."""
    return Section(anchor, f"{name}: provenance", [origin(study), *reproduce(study).items])


def _parsed(command: str | None) -> tuple[list[str], Namespace]:
    """The words of the sweep's command without --seeds and --out, and these; no words where it is not valid shell."""
    flags = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    flags.add_argument("--seeds")
    flags.add_argument("--out")
    try:
        given, words = flags.parse_known_args(shlex.split(command or ""))
    except (ValueError, ArgumentError):  # the command is the user's text
        return [], Namespace(seeds=None, out=None)
    return words, given


def _options(study: RunsTable, given: Namespace) -> list[str]:
    """--seeds with every planned seed, since the last command may have named only some of them, and --out as given."""
    planned = study.plan.seeds
    listed = ",".join(map(str, planned)) + "," * (len(planned) == 1)
    seeds = str(len(planned)) if planned == list(range(len(planned))) else listed
    return ["--seeds", seeds, *(["--out", given.out] if given.out else [])]


def _definition(study: RunsTable, words: list[str]) -> list[Code]:
    """The user's own study file, as the sweep read it."""
    file = next((word for word in words if word.endswith((".yaml", ".yml"))), None)
    if file is None or not study.plan.study:
        return []
    content = yaml.safe_dump(study.plan.study, sort_keys=False, allow_unicode=True)
    return [Code(f"{text('provenance', 'definition', file=file)}\n{content.rstrip()}")]


def _sources(study: RunsTable) -> list[Code]:
    """The source of each plug-in, as the records hold it."""
    return [
        Code(f"{text('provenance', 'source', file=name, digest=digest)}\n{content.rstrip()}")
        for digest, files in sorted(study.sources.items())
        for name, content in files.items()
    ]
