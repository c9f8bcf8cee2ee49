"""Say where the numbers of a report come from and how to reproduce them. A study in, sections out."""

from __future__ import annotations

import hashlib
import shlex

import pandas as pd
import yaml

from analysis import formatting
from analysis.report.document import Code, Facts, Item, Section
from analysis.sources.held_fixed import not_held_fixed
from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import PLACES
from analysis.sources.source_run import ENDED
from experiments.metric import METRICS


def provenance(study: RunsTable) -> Section:
    """Return the section "Provenance": code, versions, hardware, total time, and the settings that all runs share."""
    items: list[Item] = [Facts(tuple(_origin(study)))]
    varied = {*varying(study), *PLACES}
    shared = tuple((path, _setting(value)) for path, value in study.base.items() if path not in varied)
    return Section("provenance", "Provenance", items + ([Facts(shared, "Settings of all runs")] if shared else []))


def reproduce(study: RunsTable) -> Section:
    """Return the section "Reproduce": the commands that train the runs and write this report."""
    commits = study.of(*ENDED)["commit"].dropna().unique()
    lines = [f"git checkout {commits[0]}"] if len(commits) == 1 else []
    if len(commits) > 1:
        lines.append("# several commits: check out each one for the seeds listed under Provenance")
    lines += _plugins(study)
    if study.plan.command and study.plan.tuned_settings:
        place = f"{_out(study.plan.command)}/{study.name}/study.json"
        lines.append(
            f"# `vit-sweep tune` found the settings of each variant; they are in {place}, which --tuned accepts"
        )
    lines += [_with_all_seeds(study)] if study.plan.command else []
    if source := study.plan.source:  # W&B or Optuna, which hold no plan
        words = [source, "--metric", study.metric, "--baseline", study.baseline, "--out", "report"]
    else:
        words = [f"{_out(study.plan.command)}/{study.name}", *_explored(study)]
    lines.append(f"vit-report {shlex.join(words)}")
    return Section("reproduce", "Reproduce", [Code("\n".join(lines)), *_definition(study), *_sources(study)])


def _explored(study: RunsTable) -> list[str]:
    """The flags of an exploratory report: its metric and baseline where the plan states others."""
    stated = (("metric", study.metric), ("baseline", study.baseline))
    return [word for name, own in stated if getattr(study.stated_plan, name) != own for word in (f"--{name}", own)]


def study_provenance(anchor: str, name: str, study: RunsTable) -> Section:
    """Return a section with the provenance and the commands of one of several studies of a report."""
    return Section(anchor, f"{name}: provenance", [provenance(study).items[0], *reproduce(study).items])


def digest(study: RunsTable) -> str:
    """Return one digest of all records: equal digests mean equal records.

    It is the SHA-256 of the runs' digests, sorted. Where the source has none, it is that of each run's status and metrics.
    """
    known = sorted(study.runs["digest"].dropna())
    if not known:
        known = sorted(study.runs[["run", "status", *METRICS]].to_csv(index=False).splitlines())
    return hashlib.sha256("\n".join(known).encode()).hexdigest()


def varying(study: RunsTable) -> set[str]:
    """Return the settings that differ between runs: the factors, those that were tuned, and what was not held fixed."""
    return {*study.varied, *study.plan.tuned_settings, *not_held_fixed(study)}


def _origin(study: RunsTable) -> list[tuple[str, str]]:
    ended = study.of(*ENDED)
    commits = [
        f"{'not in a git checkout' if pd.isna(commit) else commit} "
        f"({'uncommitted changes, ' if dirty is True else ''}{formatting.plural(len(runs), 'run')}, {_seeds(runs)})"
        for (commit, dirty), runs in ended.groupby(["commit", "dirty"], dropna=False, sort=True)
    ]
    wall = (ended["wall_seconds"] / ended["cohort"].fillna(1)).sum(min_count=1)  # the runs of a cohort share its time
    device = ended["device_seconds"].sum(min_count=1)
    started, finished = ended["started"].dropna(), ended["finished"].dropna()
    return [
        ("Commit", "; ".join(commits)),
        *((("Plug-in source", _counted(digests)),) if (digests := ended["plugin_digest"]).notna().any() else ()),
        ("Versions", _counted(ended["versions"])),
        ("Hardware", _counted(ended["hardware"])),
        (
            "Total time",
            f"{formatting.seconds(wall)} summed over {formatting.plural(len(ended), 'run')}, "
            f"of which {formatting.seconds(device)} device time",
        ),
        ("Date", f"{started.min()} to {finished.max()}" if len(started) else formatting.DASH),
        ("Digest of all records", digest(study)),
    ]


def _definition(study: RunsTable) -> list[Code]:
    """The user's own study file, as the sweep read it."""
    file = next((word for word in _words(study.plan.command) if word.endswith((".yaml", ".yml"))), None)
    if file is None or not study.plan.study:
        return []
    text = yaml.safe_dump(study.plan.study, sort_keys=False, allow_unicode=True)
    return [Code(f"# {file}, as the sweep read it\n{text.rstrip()}")]


def _plugins(study: RunsTable) -> list[str]:
    """The line that makes the plug-ins of the runs known."""
    modules = sorted(study.of(*ENDED)["plugin_modules"].dropna().unique())
    if not modules:
        return []
    listed = ",".join(dict.fromkeys(name for value in modules for name in str(value).split(",")))
    return [f"export VIT_PLUGINS={shlex.quote(listed)}  # the folder of its source must be in PYTHONPATH"]


def _sources(study: RunsTable) -> list[Code]:
    """The source of each plug-in, as the records hold it."""
    return [
        Code(f"# {name}, as the runs used it (SHA-256 of the plug-in: {digest})\n{text.rstrip()}")
        for digest, files in sorted(study.sources.items())
        for name, text in files.items()
    ]


def _with_all_seeds(study: RunsTable) -> str:
    """The sweep's command with every planned seed: the last command may have named only some of them."""
    planned = study.plan.seeds
    same: list[int | list[int]] = [planned]
    given = ",".join(map(str, planned)) + "," * (len(planned) == 1)
    if planned == list(range(len(planned))):
        given, same = str(len(planned)), [planned, len(planned)]
    words, definition = _words(study.plan.command), study.plan.study
    found = _option(words, "--seeds")
    if found is not None and planned:
        place, value = found
        words[place] = words[place].removesuffix(value) + given
    elif words and planned and definition and definition.get("seeds") not in same:
        words += ["--seeds", given]  # an earlier command may have named more than this one trains by itself
    else:
        return study.plan.command or ""
    return shlex.join(words)


def _out(command: str | None) -> str:
    """The --out of the sweep's command: a report shows the path as the user wrote it."""
    found = _option(_words(command), "--out")
    return found[1].rstrip("/") if found else "runs"


def _option(words: list[str], flag: str) -> tuple[int, str] | None:
    """The place of an option's value among a command's words, and the value: `--out DIR` or `--out=DIR`."""
    for place, word in enumerate(words):
        if word == flag and words[place + 1 :]:
            return place + 1, words[place + 1]
        if word.startswith(f"{flag}="):
            return place, word.removeprefix(f"{flag}=")
    return None


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError:  # the command is the user's text and may not be valid shell
        return []


def _seeds(runs: pd.DataFrame) -> str:
    """`seeds 0 to 4`."""
    seeds = sorted(set(runs["seed"]))
    consecutive = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    listed = f"{seeds[0]} to {seeds[-1]}" if consecutive else formatting.listing([str(seed) for seed in seeds])
    return f"seed{'s' * (len(seeds) != 1)} {listed}"


def _setting(value: object) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _counted(column: pd.Series) -> str:
    """Each value with the number of runs that have it, the most frequent first."""
    counts = sorted(column.fillna("").value_counts().items(), key=lambda item: (-item[1], item[0]))
    named = [value if len(counts) == 1 else f"{value} ({count} runs)" for value, count in counts if value]
    return "; ".join(named) or formatting.DASH
