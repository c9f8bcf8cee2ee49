"""Where the numbers come from (code, versions, hardware, time, settings), and the commands that make them."""

import hashlib
import shlex
from argparse import ArgumentError, ArgumentParser, Namespace

import pandas as pd
import yaml

from analysis import formatting
from analysis.sources.held_fixed import not_held_fixed
from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import PLACES
from analysis.sources.source_run import ENDED
from analysis.write.document import Code, Facts, Section
from analysis.write.text import facts, paragraphs, text
from experiments.errors import setting_text


def provenance(study: RunsTable) -> Section:
    """Return the section; `origin` is its first item."""
    varied = {*varying(study), *PLACES}
    shared = tuple((path, setting_text(value)) for path, value in study.base.items() if path not in varied)
    settings = [Facts(shared, "Settings of all runs")] if shared else []
    return Section("provenance", "Provenance", [origin(study), *settings])


def origin(study: RunsTable) -> Facts:
    """Where the numbers come from."""
    ended = study.of(*ENDED)
    wall = ended["wall_seconds"] / ended["cohort"].fillna(1)  # the runs of a cohort share its time
    times = ended[["started", "finished"]].dropna()
    terms = facts(
        "provenance",
        "origin",
        commits=[
            {"name": None if pd.isna(commit) else commit, "dirty": dirty is True, "n": len(runs), "seeds": _seeds(runs)}
            for (commit, dirty), runs in ended.groupby(["commit", "dirty"], dropna=False, sort=True)
        ],
        plugins=_counts(ended["plugin_digest"]),
        versions=_counts(ended["versions"]),
        hardware=_counts(ended["hardware"]),
        wall=wall.sum(min_count=1),
        device=ended["device_seconds"].sum(min_count=1),
        runs=len(ended),
        dates=[times["started"].min(), times["finished"].max()] if len(times) else [],
        digest=digest(study),
    )
    return Facts(terms if study.training_known else terms[-1:])


def digest(study: RunsTable) -> str:
    """Return the SHA-256 of the runs' sorted digests; where the source has none, of their status and metrics."""
    runs = study.runs
    known = runs["digest"].dropna().tolist() or runs[["run", "status", *study.metrics]].to_csv(index=False).splitlines()
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()


def varying(study: RunsTable) -> set[str]:
    """Return the settings that differ between runs: the factors, those that were tuned, and what was not held fixed."""
    return {*study.varied, *study.plan.tuned_settings, *not_held_fixed(study)}


def _counts(column: pd.Series) -> dict[str, int]:
    """The values with the number of runs that have them, the most frequent first."""
    counts = column[column.notna() & (column != "")].value_counts()
    return counts.sort_index().sort_values(ascending=False, kind="stable").to_dict()


def _seeds(runs: pd.DataFrame) -> str:
    """`0 to 4`, or `0, 2 and 5`."""
    seeds = sorted(set(runs["seed"]))
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return formatting.listing([str(seed) for seed in seeds])


def reproduce(study: RunsTable) -> Section:
    """Return the section with the commands that train the runs and write this report, and the user's own files."""
    plan, ended = study.plan, study.of(*ENDED)
    if plan.source and plan.command:
        return Section("reproduce", "Reproduce", [Code(plan.command)])
    words, given = _parsed(plan.command or "")
    folder = f"{(given.out or 'runs').rstrip('/')}/{study.name}"
    modules = dict.fromkeys(name for value in ended["plugin_modules"].dropna() for name in str(value).split(","))
    lines = paragraphs(
        "provenance",
        "before",
        commits=ended["commit"].dropna().unique().tolist(),
        modules=shlex.quote(",".join(modules)) if modules else "",
        tuned=f"{folder}/study.json" if plan.command and plan.tuned_settings else "",
    )
    if plan.command:
        lines.append(shlex.join([*words, *_options(plan.seeds, given)]) if words else plan.command)
    stated = None if plan.source else study.stated_plan  # W&B and tables, the sources of imported runs, hold no plan
    metric = [] if stated and study.metric == stated.metric else ["--metric", study.metric]
    baseline = [] if stated and study.baseline == stated.baseline else ["--baseline", study.baseline]
    out = ["--out", "report"] if plan.source else []
    lines.append(shlex.join(["vit-report", plan.source or folder, *metric, *baseline, *out]))
    files = [
        (text("provenance", "source", file=name, digest=digest), content)
        for digest, contents in sorted(study.sources.items())
        for name, content in contents.items()
    ]
    file = study_file(plan.command or "")
    if file and plan.study:
        definition = yaml.safe_dump(plan.study, sort_keys=False, allow_unicode=True)
        files.insert(0, (text("provenance", "definition", file=file), definition))
    shown = ["\n".join(lines), *(f"{head}\n{content.rstrip()}" for head, content in files)]
    return Section("reproduce", "Reproduce", list(map(Code, shown)))


def study_file(command: str) -> str | None:
    """The user's own study file in the command of a sweep; None for a built-in study."""
    return next((word for word in _parsed(command)[0] if word.endswith((".yaml", ".yml"))), None)


def _parsed(command: str) -> tuple[list[str], Namespace]:
    """The words of the sweep's command without --seeds and --out, and these; no words where it is not valid shell."""
    flags = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    flags.add_argument("--seeds")
    flags.add_argument("--out")
    try:
        given, words = flags.parse_known_args(shlex.split(command))
    except (ValueError, ArgumentError):  # the command is the user's text
        return [], Namespace(out=None)
    return words, given


def _options(planned: list[int], given: Namespace) -> list[str]:
    """--seeds with every planned seed, since the last command may have named only some of them, and --out as given."""
    listed = ",".join(map(str, planned)) + "," * (len(planned) == 1)
    seeds = str(len(planned)) if planned == list(range(len(planned))) else listed
    return ["--seeds", seeds, *(["--out", given.out] if given.out else [])]
