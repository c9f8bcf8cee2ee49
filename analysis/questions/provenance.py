"""Where do the numbers come from? Code, versions, hardware, time, settings, and the commands that make them."""

import shlex
from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import variant_table
from analysis.findings.rows import VariantRow
from analysis.runs.held_fixed import varying
from analysis.runs.runs import ENDED, PLACES, Runs
from analysis.write.document import Code, Facts, Section, Warn, present
from analysis.write.table import Column, Table
from experiments.config import DEFAULTS, flatten
from experiments.errors import MOST_NAMED, duration_text, printable, setting_text, shell_words
from experiments.files import NAME
from experiments.presets import PRESETS, preset


def question(findings: Findings) -> Section:
    """Code, versions, hardware, time and settings; `origin` is the first item."""
    study = findings.study
    varied = {*varying(study), *PLACES}
    name = getattr(study.plan, "preset", "")
    usual = dict(flatten(preset(name).model_dump())) if name in PRESETS else DEFAULTS
    differ = {path: value for path, value in study.base.items() if path not in varied and value != usual.get(path)}
    shared = tuple((path, setting_text(value)) for path, value in differ.items())
    about = f"Settings of all runs, beside {f'the preset {name}' if name in PRESETS else 'defaults'}"
    items = present(origin(study), trained_on(findings), Facts(shared, about) if shared else None)
    return Section("provenance", "Provenance", items, warnings=[*_reused(study), *_across_machines(findings)])


def reproduce(findings: Findings) -> Section:
    """The commands that train the runs and write this report, at their commit."""
    return Section("reproduce", "Reproduce", [Code(commands(findings.study))])


def origin(study: Runs) -> Facts | None:
    """Where the numbers come from; None for a table, which does not say it."""
    if not study.training_known:
        return None
    ended = study.of(*ENDED)
    wall = ended["wall_seconds"] / ended["cohort"].fillna(1)  # the runs of a cohort share its time
    device, times = ended["device_seconds"].sum(min_count=1), ended[["started", "finished"]].dropna()
    runs, plugins = words.plural(len(ended), "run"), _counted(ended["plugin_digest"])
    total = f"{duration_text(wall.sum(min_count=1))} summed over {runs}, of which {duration_text(device)} device time"
    facts = {
        "Commit": _commits(ended),
        **({"Plug-in source": plugins} if plugins != words.DASH else {}),
        **({"Reused": _counted(taken)} if (taken := ended["reused_from"]).notna().any() else {}),
        "Versions": _counted(ended["versions"]),
        "Hardware": _counted(ended["hardware"]),
        "Total time": total,
        "Date": f"{times['started'].min()} to {times['finished'].max()}" if len(times) else words.DASH,
    }
    return Facts(tuple(facts.items()))


def trained_on(findings: Findings) -> Table | None:
    """On what the runs of each variant were trained; None where that is the same for all, and none is reused."""
    ended = findings.study.of(*ENDED)
    if ended["reused_from"].isna().all() and max(ended[name].nunique() for name in ("hardware", "versions")) < 2:
        return None

    def of(show: Callable[[pd.DataFrame], Any]) -> Callable[[VariantRow], Any]:
        return lambda row: show(ended[ended["variant"] == row.variant])

    reused = of(lambda runs: int(runs["reused_from"].notna().sum()))
    hardware, versions = of(lambda runs: _counted(runs["hardware"])), of(lambda runs: _counted(runs["versions"]))
    numbers = (Column("runs", of(len), words.counts, "runs"), Column("reused", reused, words.counts, "reused"))
    columns = (*numbers, Column("hardware", hardware, field="hardware"), Column("versions", versions, field="versions"))
    return variant_table("trained_on", "On what the runs of each variant were trained.", findings, columns)


def _reused(study: Runs) -> list[Warn]:
    sources = study.of(*ENDED)["reused_from"]
    line = f"{sources.count()} of {words.plural(len(sources), 'run')} are reused, from {_counted(sources)}."
    why = "They had ended when this study took them, so its margin and its looks may not precede their results."
    return [Warn(line, why)] if sources.notna().any() else []


def _across_machines(findings: Findings) -> list[Warn]:
    """The pairs whose runs of the same seed were trained on other hardware, or by another version of PyTorch."""
    ended = findings.study.of(*ENDED)
    torch = ended["versions"].str.extract(r"\btorch ([^,]+)")[0].fillna("")
    on = dict(zip(zip(ended["variant"], ended["seed"]), zip(ended["hardware"].fillna(""), torch)))
    seeds = {seed for _, seed in on if findings.policy.unit == "seed"}
    crossing = list[str]()
    for a, b in ((pair.a, pair.b) for pair in findings.pairs):
        both = [(on.get((a.variant, seed)), on.get((b.variant, seed))) for seed in seeds]
        if any(first and second and first != second for first, second in both):
            crossing.append(f"{words.quoted(a.name)} and {words.quoted(b.name)}")
    listed = "; ".join(crossing[:MOST_NAMED]) + "; ..." * (len(crossing) > MOST_NAMED)
    what = "runs of the same seed were trained on other hardware or by another version of PyTorch"
    line = f"In {len(crossing)} of {words.plural(len(findings.pairs), 'pair')}, {what}: {listed}."
    why = "There, two runs of one seed are no more alike than two of different seeds. See Provenance."
    return [Warn(line, why)] if crossing else []


def _commits(ended: pd.DataFrame) -> str:
    """Each commit with its runs and their seeds."""
    parts = []
    for (commit, dirty), runs in ended.groupby(["commit", "dirty"], dropna=False, sort=True):
        name = "not in a git checkout" if pd.isna(commit) else commit
        changed = "uncommitted changes, " * (dirty is True)
        parts.append(f"{name} ({changed}{words.plural(len(runs), 'run')}, seeds {_seeds(runs)})")
    return "; ".join(parts)


def _counted(column: pd.Series) -> str:
    """The values, the most frequent first, with the number of runs that have them where there are several."""
    counts = column[column.notna() & (column != "")].value_counts()
    counts = counts.sort_index().sort_values(ascending=False, kind="stable")
    runs = [f" ({words.plural(n, 'run')})" * (len(counts) > 1) for n in counts]
    return "; ".join(f"{value}{n}" for value, n in zip(counts.index, runs)) or words.DASH


def _seeds(runs: pd.DataFrame) -> str:
    """`0 to 4`, or `0, 2 and 5`."""
    seeds = sorted(set(runs["seed"]))
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return words.listing([str(seed) for seed in seeds])


def commands(study: Runs) -> str:
    """The commit, the command that trained the runs, and the one that writes this report."""
    commits = study.of(*ENDED).sort_values("started")["commit"].dropna().unique().tolist()
    checkout = [f"{'' if NAME.fullmatch(commit) else '# '}git checkout {commit}" for commit in commits[-1:]]
    if len(commits) > 1:
        checkout = ["# the runs are of several commits, see Provenance; this is the newest", *checkout]
    trained = [shell_words(study.plan.command)] if study.plan.command else []
    report = ["vit-report", study.plan.source.removeprefix("csv:") or f"runs/{study.name}"]
    stated = study.stated_plan if study.recorded else None
    for flag, value in (("metric", study.metric), ("baseline", study.baseline)):
        report += [] if stated and value == getattr(stated, flag) else [f"--{flag}", str(value)]
    return "\n".join(map(printable, [*checkout, *trained, *([shlex.join(report)] if study.recorded else [])]))
