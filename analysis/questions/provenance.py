"""Where do the numbers come from? Code, versions, hardware, time, settings, and the commands that make them."""

import ast
import contextlib
import hashlib
import shlex
from collections.abc import Callable
from typing import Any

import pandas as pd
import yaml

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import variant_table
from analysis.findings.rows import VariantRow
from analysis.runs.held_fixed import varying
from analysis.runs.runs import Runs
from analysis.runs.settings import PLACES
from analysis.runs.source_run import ENDED
from analysis.write.document import Code, Facts, Section, Warn, present
from analysis.write.table import Column, Table
from experiments.config import flatten
from experiments.errors import MOST_NAMED, duration_text, printable, setting_text, shell_words
from experiments.files import NAME
from experiments.presets import PRESETS, preset
from experiments.study import StudyPlan

SEVERAL = "# several commits: check out each one for the seeds listed under Provenance"
PLUGINS = "# a module, whose folder must be in PYTHONPATH, or the path of its file"
OVER = "over names and contents, SHA-256"
TUNED = "tuned.yaml"
FIELDS = ("name", "description", "factors", "extra", "baseline", "metric", "margin", "looks", "variance", "family")
"""What the plan of an earlier version has of a study file, which it lacks."""


def question(findings: Findings) -> Section:
    """Code, versions, hardware, time and settings; `origin` is the first item."""
    study = findings.study
    varied = {*varying(study), *PLACES}
    shared = tuple((path, setting_text(value)) for path, value in study.base.items() if path not in varied)
    settings = [Facts(shared, "Settings of all runs")] * bool(shared)
    items = present(origin(study), trained_on(findings), *settings)
    return Section("provenance", "Provenance", items, warnings=[*_reused(study), *_across_machines(findings)])


def reproduce(findings: Findings) -> Section:
    """The commands that train the runs and write this report, and the user's own files."""
    return Section("reproduce", "Reproduce", list(map(Code, commands(findings.study))))


def origin(study: Runs) -> Facts:
    """Where the numbers come from."""
    ended = study.of(*ENDED)
    wall = ended["wall_seconds"] / ended["cohort"].fillna(1)  # the runs of a cohort share its time
    device, times = ended["device_seconds"].sum(min_count=1), ended[["started", "finished"]].dropna()
    runs, plugins = words.plural(len(ended), "run"), _counted(ended["plugin_digest"])
    plan = (("Plan", study.planned_by),) if study.planned_by else ()
    digests = (*plan, ("Digest of all records", digest(study)))
    if not study.training_known:
        return Facts(digests)
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
    return Facts((*facts.items(), *digests))


def trained_on(findings: Findings) -> Table | None:
    """On what the runs of each variant were trained; None where that is the same for all, and none is reused."""
    ended = findings.study.of(*ENDED)
    if ended["reused_from"].isna().all() and max(ended[name].nunique() for name in ("hardware", "versions")) < 2:
        return None

    def of(show: Callable[[pd.DataFrame], Any]) -> Callable[[VariantRow], Any]:
        return lambda row: show(ended[ended["variant"] == row.variant])

    columns = (
        Column("runs", of(len), words.counts, "runs"),
        Column("reused", of(lambda runs: int(runs["reused_from"].notna().sum())), words.counts, "reused"),
        Column("hardware", of(lambda runs: _counted(runs["hardware"])), field="hardware"),
        Column("versions", of(lambda runs: _counted(runs["versions"])), field="versions"),
    )
    return variant_table("trained_on", "On what the runs of each variant were trained.", findings, columns)


def _reused(study: Runs) -> list[Warn]:
    taken = study.of(*ENDED)["reused_from"]
    line = f"{taken.count()} of {words.plural(len(taken), 'run')} are reused, from {_counted(taken)}."
    why = "They had ended when this study took them, so its margin and its looks may not precede their results."
    return [Warn(line, why)] if taken.notna().any() else []


def _across_machines(findings: Findings) -> list[Warn]:
    """The pairs whose runs of the same seed were trained on other hardware, or by another version of PyTorch."""
    ended = findings.study.of(*ENDED)
    torch = ended["versions"].str.extract(r"\btorch ([^,]+)")[0].fillna("")
    on = dict(zip(zip(ended["variant"], ended["seed"]), zip(ended["hardware"].fillna(""), torch)))
    seeds = {seed for _, seed in on if findings.policy.unit == "seed"}
    crossing = [
        f"{words.quoted(pair.a.name)} and {words.quoted(pair.b.name)}"
        for pair in findings.pairs
        if any(len({on[own] for own in ((pair.a.variant, s), (pair.b.variant, s)) if own in on}) > 1 for s in seeds)
    ]
    listed = "; ".join(crossing[:MOST_NAMED]) + "; ..." * (len(crossing) > MOST_NAMED)
    what = "runs of the same seed were trained on other hardware or by another version of PyTorch"
    line = f"In {len(crossing)} of {words.plural(len(findings.pairs), 'pair')}, {what}: {listed}."
    why = "There the same seed is as good as another one, so it ties the two runs loosely. See Provenance."
    return [Warn(line, why)] if crossing else []


def _commits(ended: pd.DataFrame) -> str:
    """Each commit with its runs and their seeds."""
    parts = []
    for (commit, dirty), runs in ended.groupby(["commit", "dirty"], dropna=False, sort=True):
        name = "not in a git checkout" if pd.isna(commit) else commit
        changed = "uncommitted changes, " * (dirty is True)
        parts.append(f"{name} ({changed}{words.plural(len(runs), 'run')}, seeds {_seeds(runs)})")
    return "; ".join(parts)


def digest(study: Runs) -> str:
    """Return the SHA-256 of the runs' sorted digests; where the source has none, of their status and metrics."""
    runs = study.runs
    known = runs["digest"].dropna().tolist() or runs[["run", "status", *study.metrics]].to_csv(index=False).splitlines()
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()


def _counted(column: pd.Series) -> str:
    """The values, the most frequent first, with the number of runs that have them where there are several."""
    counts = column[column.notna() & (column != "")].value_counts()
    counts = counts.sort_index().sort_values(ascending=False, kind="stable")
    runs = [f" ({words.plural(n, 'run')})" * (len(counts) > 1) for n in counts]
    texts = [f"{value}{n}" for value, n in zip(counts.index, runs)]
    return "; ".join(texts) or words.DASH


def _seeds(runs: pd.DataFrame) -> str:
    """`0 to 4`, or `0, 2 and 5`."""
    seeds = sorted(set(runs["seed"]))
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return words.listing([str(seed) for seed in seeds])


def commands(study: Runs) -> list[str]:
    """The commands, then each file that they need with a line above it that names it: the study, what is tuned."""
    plan, ended = study.plan, study.of(*ENDED)
    commits = ended["commit"].dropna().unique().tolist()
    named = dict.fromkeys(name for value in ended["plugin_modules"].dropna() for name in str(value).split(","))
    modules = [name for name in named if name not in plan.definition.get("plugins", ())]
    checkout = f"{'' if NAME.fullmatch(commits[0]) else '# '}git checkout {commits[0]}" if len(commits) == 1 else ""
    export = f"export VIT_PLUGINS={shlex.quote(','.join(modules))} {PLUGINS}" if modules else ""
    needed, sweep = dict[str, Any](), list[str]()
    if study.recorded:  # from the file alone: a built-in study may have other variants by now
        needed[f"{plan.name}.yaml"] = study_file(plan)
        needed |= {TUNED: plan.tuned.tree()} if plan.tuned else {}
        sweep = ["vit-sweep", "run", *needed]
        sweep[3:3] = ["--tuned"] if plan.tuned else []
        if plan.until_decided:
            sweep += ["--until-decided", *["--pairs"] * plan.until_decided.pairs]
    report = _report_command(study) if study.recorded or not plan.command else _typed(plan.command)
    lines = [SEVERAL * (len(commits) > 1), checkout, export, shlex.join(sweep), report]
    files = [
        printable(f"# {name}, as the runs used it; also in their folders plugin/ ({OVER} {digest})")
        + f"\n{content.rstrip()}"
        for digest, contents in sorted(study.sources.items())
        for name, content in contents.items()
    ]
    read = [f"# {printable(file)}, as the sweep used it\n{_yaml(tree)}" for file, tree in needed.items()]
    return ["\n".join(map(printable, filter(None, lines))), *read, *files]


def _typed(command: str) -> str:
    """The command of a record as it runs: a call of ours with literals in Python, or see `shell_words`."""
    with contextlib.suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        call = ast.parse(command, mode="eval").body
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("analysis.compare", "analysis.read"):
            for value in (*call.args, *(keyword.value for keyword in call.keywords)):
                if ast.unparse(value) != "frame":
                    ast.literal_eval(value)
            return ast.unparse(call)
    return shell_words(command)


def study_file(plan: StudyPlan) -> dict[str, Any]:
    """The study file as the sweep read it or, where a record lacks it, what was planned; with the base and the seeds
    that its command made of it.
    """
    known = plan.preset in PRESETS
    usual = dict(flatten(preset(plan.preset).model_dump())) if known else {}
    varied = {path for factor in plan.factors for path in factor.split("+")}  # not in the base of a file
    base = {p: value for p, value in flatten(plan.base) if p not in varied and (p not in usual or value != usual[p])}
    stated = plan.definition or {field: getattr(plan, field) for field in FIELDS}
    seeds = len(plan.seeds) if plan.seeds == list(range(len(plan.seeds))) else plan.seeds
    run = {} if plan.until_decided else {"seeds": seeds}  # with it, the looks say how many there are
    return {**stated, "base": ({"preset": plan.preset} if known else {}) | base, **run}


def _yaml(tree: dict[str, Any]) -> str:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None).rstrip()


def _report_command(study: Runs) -> str:
    """The command that writes this report."""
    stated = study.stated_plan if study.recorded else None  # W&B, the source of other runs, holds no plan
    metric = [] if stated and study.metric == stated.metric else ["--metric", study.metric]
    baseline = [] if stated and study.baseline == stated.baseline else ["--baseline", study.baseline]
    out = [] if study.recorded else ["--out", "report"]
    return shlex.join(["vit-report", study.source or f"runs/{study.name}", *metric, *baseline, *out])
