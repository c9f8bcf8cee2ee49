"""A study of the runs of a table or of W&B, each in the place that the user's plan gives it.

Planned runs that are absent are incomplete, and what the plan lacks is listed and not used. The verdicts are then
reached as those of a study of ours.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.asked import Asked
from analysis.runs import wandb_project
from analysis.runs.cells import cell_number, cell_text
from analysis.runs.inferred import PREFERENCE, without_copies
from analysis.runs.runs import Runs
from analysis.runs.scales import chance_of, margin_of, rounding_note
from analysis.runs.settings import leaves, level_text
from analysis.runs.source_run import SourceRun, apart, check_row
from analysis.runs.tabular import TableRuns, measured_in, read_file, runs_of
from analysis.verdicts.stopping import after_looks
from analysis.verdicts.study import columns
from experiments.errors import UserError
from experiments.metric import is_metric
from experiments.runs.history import read_looks
from experiments.study import StudyPlan
from experiments.table_plan import GivenPlan, TablePlan
from vit.registry import nearest

Place = tuple[str, int]  # variant, and seed or number of the run


def read_planned(source: str, asked: Asked) -> Runs:
    """A planned study of a table, "csv:FILE", or of W&B. A file that does not exist yet is a table without rows."""
    kind, _, name = source.partition(":")
    if kind == "csv":
        path = Path(name).expanduser()
        return planned_table(
            read_file(path) if path.exists() and path.stat().st_size else pd.DataFrame(), source, asked
        )
    assert asked.plan is not None
    if others := [flag for flag in ("where", "failed", "last", "mean_over") if flag in asked.given]:
        raise UserError(f"{others[0]}: is for a table of runs, such as runs.csv, and {source} is none")
    metric, notes = measured_in(pd.DataFrame(), asked.plan.plan.metric, asked)
    runs = []
    for run in wandb_project.find_runs(name):
        settings, value = dict(leaves(run.config)), dict(leaves(run.summary)).get(asked.plan.plan.metric)
        known = {apart(factor, "config"): settings.get(factor) for factor in asked.factor}
        known |= {"seed": _key(settings.get(asked.seed or "seed"))}
        is_known = isinstance(value, int | float) and math.isfinite(value)
        status = "diverged" if run.status == "finished" and not is_known else run.status
        summary = {**run.summary, str(metric): value if is_known else None}
        runs.append(replace(run, status=status, config={**settings, **known}, summary=summary, metric=metric))
    return _study(source, asked, TableRuns(runs, metric, notes))


def planned_table(frame: pd.DataFrame, source: str, asked: Asked) -> Runs:
    """A planned study of a table with one row for each run. `source`: what messages call the table."""
    if isinstance(frame, pd.DataFrame) and frame.empty:
        metric, notes = measured_in(pd.DataFrame(), asked.metric or "", asked)
        return _study(source, asked, TableRuns([], metric, notes))
    return _study(source, asked, runs_of(frame, source, asked))


def needed(study: Runs, plan: TablePlan) -> Iterator[str]:
    """A line for each run that is still wanted, by seed: until decided, those up to the next look.

    Runs of W&B that are in training are left out.
    """
    absent, numbers = set(study.of("incomplete")["run"]), plan.numbers
    waiting = {run.seed for run in study.plan.runs if run.name in set(study.of("incomplete")["run"])}
    first = next((at for at, number in enumerate(numbers) if number in waiting), len(numbers))
    most = next((look for look in plan.looks if look > first), len(numbers)) if plan.until_decided else len(numbers)
    for run in study.plan.runs:
        if run.name in absent and run.name == _absent((run.variant, run.seed), plan) and run.seed in numbers[:most]:
            yield plan.line(run.variant, run.seed)


def _study(source: str, asked: Asked, found: TableRuns) -> Runs:
    assert asked.plan is not None
    given, plan = asked.plan, asked.plan.plan
    for run in found.runs:
        check_row(run.row, f"{source}: {run.name}")
    placed, unused = _placed(found.runs, given, source)
    values = [run.summary.get(found.metric) for run in placed.values()]
    stated = _stated(source, asked, found, [math.nan if one is None else float(one) for one in values])
    runs = {
        (label, number): placed.get((label, number), SourceRun(_absent((label, number), plan), "incomplete"))
        for number in plan.numbers
        for label in plan.labels
    }
    known = {factor: apart(factor, "config") for factor in plan.factors}
    specs = [
        {
            "run": run.name,
            "run_id": run.summary.get("run_id") or "",
            "variant": label,
            "levels": {known[factor]: level for factor, level in plan.labels[label].items()},
            "seed": number,
        }
        for (label, number), run in runs.items()
    ]
    seen = tuple(read_looks(given.looks_file)) if given.looks_file else ()
    whole = StudyPlan.parse({**stated, "runs": specs}, given.place)
    study = Runs.of_runs(whole, runs.values(), looks=seen, looks_file=given.looks_file)
    rows = study.runs[[name for name in columns(study.metric) if name in study.runs]].to_dict("records")
    _, kept = after_looks(whole, rows)
    own = {(run.variant, run.seed) for run in kept.runs}
    for (label, number), run in placed.items():
        if (label, number) not in own:
            unused[run.name] = f"is after the look at {kept.stopped[label]} seeds, which decides {label}"
    if unused:
        name, why = next(iter(unused.items()))
        more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        stated["notes"] = [*stated["notes"], f"Not used: {name} {why}{more}."]
    unused = {name: f"{why}, so it is not used" for name, why in unused.items()}
    others = [SourceRun(name, "unplanned") for name in unused]
    kept = kept.changed(notes=[*stated["notes"], *(_notes(study, plan) if placed else [])])
    left = [run for place, run in runs.items() if place in own]
    return Runs.of_runs(kept, [*left, *others], looks=seen, looks_file=given.looks_file, troubles=unused)


def _stated(source: str, asked: Asked, found: TableRuns, values: list[float]) -> dict[str, Any]:
    """What the plan of the study has beside its runs. `values`: those of all runs, in the unit of the metric."""
    assert asked.plan is not None
    given, plan, metric = asked.plan, asked.plan.plan, found.metric
    is_known = any(map(math.isfinite, values))
    margin = margin_of(plan.margin, values, metric, given.place) if is_known else None
    return {
        "name": plan.name,
        "description": " ".join(filter(None, [plan.description, found.about])),
        "factors": {apart(factor, "config"): levels for factor, levels in plan.factors.items()},
        "extra": [{apart(factor, "config"): level for factor, level in own.items()} for own in plan.extra],
        "baseline": plan.baseline_label,
        "metric": str(metric),
        **({} if is_metric(str(metric)) else {"lower_is_better": metric.lower_is_better}),
        "margin": margin,
        **({} if plan.chance is None else {"chance": chance_of(plan.chance, values, metric, given.place)}),
        "looks": plan.looks,
        "variance": asked.variance,
        "family": plan.family,
        **({} if plan.until_decided is None else {"until_decided": plan.until_decided}),
        "seeds": sorted(plan.numbers),
        "base": {},
        "command": asked.command or None,
        "source": source,
        "notes": found.notes,
        "planned_by": given.described(),
    }


def _notes(study: Runs, plan: TablePlan) -> list[str]:
    """What to know of the values: a spread that is rounding alone, and how failed runs may be tested."""
    values = [list(own) for _, own in study.of("finished").groupby("variant", sort=False)[study.metric]]
    failed = list(dict.fromkeys(study.of("diverged")["variant"]))
    said = f"Not tested because of failed runs: {', '.join(failed)}. A plan with `chance`, what guessing gives, counts "
    said += "them as such runs. To leave rows out is no way."
    is_unknown = bool(failed) and plan.chance is None and not study.metric.is_share
    return [*rounding_note(values, study.metric), *[said] * is_unknown]


def _absent(place: Place, plan: TablePlan) -> str:
    """The name of a run that is not there."""
    return f"{place[0]}, {plan.counted} {place[1]}"


def _placed(runs: Sequence[SourceRun], given: GivenPlan, source: str) -> tuple[dict[Place, SourceRun], dict[str, str]]:
    """The runs in their places, and run -> why it has none. Raises `UserError` where none has one."""
    plan, unused = given.plan, dict[str, str]()
    labels = {tuple(_key(own[factor]) for factor in plan.factors): label for label, own in plan.labels.items()}
    if len(labels) < len(plan.labels):
        raise UserError(f"{given.place}: factors: two levels are the same number")
    inside, names = list[SourceRun](), list[str]()
    counts = Counter[str]()
    if plan.counted == "seed":  # of several copies of one run, the one that got furthest counts
        runs = sorted(runs, key=lambda run: PREFERENCE.index(run.status))
    for run in runs:
        levels = tuple(_key(run.config.get(apart(factor, "config"))) for factor in plan.factors)
        label = labels.get(levels)
        seed = counts[label or ""] if plan.counted == "run" else run.config.get("seed")
        if why := _unplanned(run.config, label, seed, plan):
            unused[run.name] = why
            continue
        counts[label or ""] += 1
        own = {apart(factor, "config"): level for factor, level in plan.labels[str(label)].items()}
        inside.append(replace(run, config={**run.config, **own, "seed": seed}))
        names.append(str(label))
    kept, copies = without_copies(source, inside, names, [dict(run.config) for run in inside])
    if runs and not inside:
        name, why = next(iter(unused.items()))
        raise UserError(f"{source}: no run is in the plan, {given.place}: {name} {why}")
    unused |= {name: why.removesuffix(", so it is not used") for name, why in copies.items()}
    return {place: inside[at] for place, at in kept.items()}, unused


def _unplanned(config: Mapping[str, Any], label: str | None, seed: Any, plan: TablePlan) -> str:
    """Why a run has no place in the plan; "" where it has one."""
    for factor, levels in plan.factors.items():
        held, levels = config.get(apart(factor, "config")), [*levels, *(own[factor] for own in plan.extra)]
        if _key(held) not in map(_key, levels):
            known = list(dict.fromkeys(map(level_text, levels)))
            return f"is not in the plan: {factor} is {level_text(held)}; {nearest(level_text(held), known)}"
    if label is None:
        return "is not in the plan: its combination of levels is not planned"
    if seed not in plan.numbers:
        where = nearest(str(seed), map(str, plan.numbers)) if plan.counted == "seed" else f"it has {plan.runs} runs"
        return f"is not in the plan: {plan.counted} {seed} of {label}; {where}"
    return ""


def _key(level: Any) -> Any:
    """What is equal for a level of the plan and the cell that holds it: a number, or text."""
    shown = cell_text(level_text(level))
    number = cell_number(shown)
    if number is not None and math.isfinite(number):
        return number
    return shown.lower() if shown in ("True", "False", "None") else shown
