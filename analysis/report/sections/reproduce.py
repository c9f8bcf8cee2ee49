"""The section "Reproduce": the commands that train the runs and write this report, and the user's own files."""

from __future__ import annotations

import shlex
from argparse import ArgumentError, ArgumentParser, Namespace

import yaml

from analysis.report.document import Code, Section
from analysis.report.sections.provenance import origin
from analysis.report.text import text
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED


def reproduce(study: RunsTable) -> Section:
    """Return the section of one study."""
    words, given = _parsed(study.plan.command)
    lines = [*_checkout(study), *_plugins(study)]
    folder = f"{(given.out or 'runs').rstrip('/')}/{study.name}"
    if study.plan.command and study.plan.tuned_settings:
        lines.append(text("provenance", "tuned", plan=f"{folder}/study.json"))
    if study.plan.command:
        lines.append(_sweep(study, words, given) or study.plan.command)
    report = [folder, *_explored(study)]
    if study.plan.source:  # W&B or Optuna, which hold no plan
        report = [study.plan.source, "--metric", study.metric, "--baseline", study.baseline, "--out", "report"]
    lines.append(shlex.join(["vit-report", *report]))
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


def _sweep(study: RunsTable, words: list[str], given: Namespace) -> str:
    """The sweep's command with every planned seed: the last command may have named only some of them."""
    planned = study.plan.seeds
    listed = ",".join(map(str, planned)) + "," * (len(planned) == 1)
    seeds = str(len(planned)) if planned == list(range(len(planned))) else listed
    return shlex.join([*words, "--seeds", seeds, *(["--out", given.out] if given.out else [])]) if words else ""


def _checkout(study: RunsTable) -> list[str]:
    commits = study.of(*ENDED)["commit"].dropna().unique()
    if len(commits) > 1:
        return [text("provenance", "several_commits")]
    return [f"git checkout {commit}" for commit in commits]


def _explored(study: RunsTable) -> list[str]:
    """The flags of an exploratory report: its metric and baseline where the plan states others."""
    stated = study.stated_plan
    metric = ["--metric", study.metric] if study.metric != stated.metric else []
    return metric + (["--baseline", study.baseline] if study.baseline != stated.baseline else [])


def _plugins(study: RunsTable) -> list[str]:
    """The line that makes the plug-ins of the runs known."""
    values = sorted(study.of(*ENDED)["plugin_modules"].dropna().unique())
    modules = ",".join(dict.fromkeys(name for value in values for name in str(value).split(",")))
    return [text("provenance", "plugins", modules=shlex.quote(modules))] if modules else []


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
