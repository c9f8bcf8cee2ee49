"""Where do the numbers come from? Code, versions, hardware, time, settings, and the commands that make them."""

import hashlib
import shlex
from argparse import ArgumentError, ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import words
from analysis.findings import Findings
from analysis.runs.held_fixed import varying
from analysis.runs.runs import Runs
from analysis.runs.settings import PLACES
from analysis.runs.source_run import ENDED
from analysis.write.document import Code, Facts, Section
from experiments.config import flatten
from experiments.errors import duration_text, printable, setting_text, shell_words
from experiments.files import NAME
from experiments.presets import PRESETS, preset
from experiments.study import StudyPlan

SEVERAL = "# several commits: check out each one for the seeds listed under Provenance"
PLUGINS = "# a module, whose folder must be in PYTHONPATH, or the path of its file"
OVER = "over names and contents, SHA-256"
OPTIONS = ("--tuned", "--seeds", "--out")
YAML = (".yaml", ".yml")
FIELDS = ("name", "description", "factors", "extra", "baseline", "metric", "margin", "looks", "variance", "family")
"""What the plan of an earlier version has of a study file, which it lacks."""


def question(findings: Findings) -> Section:
    """Code, versions, hardware, time and settings; `origin` is the first item."""
    study = findings.study
    varied = {*varying(study), *PLACES}
    shared = tuple((path, setting_text(value)) for path, value in study.base.items() if path not in varied)
    settings = [Facts(shared, "Settings of all runs")] * bool(shared)
    return Section("provenance", "Provenance", [origin(study), *settings])


def reproduce(findings: Findings) -> Section:
    """The commands that train the runs and write this report, and the user's own files."""
    return Section("reproduce", "Reproduce", list(map(Code, commands(findings.study))))


def origin(study: Runs) -> Facts:
    """Where the numbers come from."""
    ended = study.of(*ENDED)
    wall = ended["wall_seconds"] / ended["cohort"].fillna(1)  # the runs of a cohort share its time
    device, times = ended["device_seconds"].sum(min_count=1), ended[["started", "finished"]].dropna()
    runs, plugins = words.plural(len(ended), "run"), _counted(ended["plugin_digest"])
    digests = (("Digest of all records", digest(study)),)
    if not study.training_known:
        return Facts(digests)
    total = f"{duration_text(wall.sum(min_count=1))} summed over {runs}, of which {duration_text(device)} device time"
    facts = {
        "Commit": _commits(ended),
        **({"Plug-in source": plugins} if plugins != words.DASH else {}),
        "Versions": _counted(ended["versions"]),
        "Hardware": _counted(ended["hardware"]),
        "Total time": total,
        "Date": f"{times['started'].min()} to {times['finished'].max()}" if len(times) else words.DASH,
    }
    return Facts((*facts.items(), *digests))


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
    if plan.source and plan.command:
        return [shell_words(plan.command)]
    parts, given = _parsed(plan.command or "")
    folder = f"{(given.out or 'runs').rstrip('/')}/{study.name}"
    commits = ended["commit"].dropna().unique().tolist()
    modules = dict.fromkeys(name for value in ended["plugin_modules"].dropna() for name in str(value).split(","))
    checkout = f"{'' if NAME.fullmatch(commits[0]) else '# '}git checkout {commits[0]}" if len(commits) == 1 else ""
    export = f"export VIT_PLUGINS={shlex.quote(','.join(modules))} {PLUGINS}" if modules else ""
    own = next((at for at, part in enumerate(parts) if part.endswith(YAML) or Path(part).name == plan.name), None)
    needed = dict[str, Any]()
    if own is not None:  # a built-in study may have other variants by now, and a study that goes on is its folder
        given_file = parts[own].endswith(YAML)
        parts[own] = parts[own] if given_file else f"{plan.name}.yaml"
        needed[parts[own]] = definition(plan, given_file)
    if plan.tuned:
        given.tuned = given.tuned if str(given.tuned).endswith(YAML) else "tuned.yaml"
        needed[given.tuned] = plan.tuned.tree()
    sweep = shlex.join([*parts, *_options(plan, given)]) if parts else shell_words(plan.command or "")
    lines = [SEVERAL * (len(commits) > 1), checkout, export, sweep, _report_command(study, folder)]
    files = [
        printable(f"# {name}, as the runs used it; also in their folders plugin/ ({OVER} {digest})")
        + f"\n{content.rstrip()}"
        for digest, contents in sorted(study.sources.items())
        for name, content in contents.items()
    ]
    read = [f"# {printable(file)}, as the sweep read it\n{_yaml(tree)}" for file, tree in needed.items()]
    return ["\n".join(map(printable, filter(None, lines))), *read, *files]


def definition(plan: StudyPlan, own: bool) -> dict[str, Any]:
    """The study as a file: the user's `own` as it was read or, where that is not known, what was planned."""
    if plan.study and own:
        return plan.study
    known = plan.preset in PRESETS
    usual = dict(flatten(preset(plan.preset).model_dump())) if known else {}
    base = {path: value for path, value in flatten(plan.base) if path not in usual or value != usual[path]}
    stated = plan.study or {field: getattr(plan, field) for field in FIELDS}
    return {**stated, "base": ({"preset": plan.preset} if known else {}) | base}


def _yaml(tree: dict[str, Any]) -> str:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None).rstrip()


def _report_command(study: Runs, folder: str) -> str:
    """The command that writes this report."""
    plan = study.plan
    stated = None if plan.source else study.stated_plan  # W&B and tables, the sources of imported runs, hold no plan
    metric = [] if stated and study.metric == stated.metric else ["--metric", study.metric]
    baseline = [] if stated and study.baseline == stated.baseline else ["--baseline", study.baseline]
    out = ["--out", "report"] if plan.source else []
    return shlex.join(["vit-report", plan.source or folder, *metric, *baseline, *out])


def _parsed(command: str) -> tuple[list[str], Namespace]:
    """The words of the sweep's command without `OPTIONS`, and these; no words where it is not valid shell."""
    flags = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in OPTIONS:
        flags.add_argument(option)
    try:
        given, words = flags.parse_known_args(shlex.split(command))
        if words[:1] != ["vit-sweep"]:
            raise ValueError
    except (ValueError, ArgumentError):  # the command is the user's text
        return [], Namespace(out=None, tuned=None)
    return words, given


def _options(plan: StudyPlan, given: Namespace) -> list[str]:
    """--seeds with every planned seed, since the last command may have named only some of them; the others as given."""
    planned = plan.seeds
    listed = ",".join(map(str, planned)) + "," * (len(planned) == 1)
    seeds = str(len(planned)) if planned == list(range(len(planned))) else listed
    options = {"--tuned": given.tuned, "--seeds": "" if plan.until_decided else seeds, "--out": given.out}
    return [word for option, value in options.items() if value for word in (option, value)]
