"""A study of the runs of a table or of W&B, each in the place that the user's plan gives it.

Planned runs that are absent are incomplete, and what the plan lacks is listed and not used. The verdicts are then
reached as those of a study of ours.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from analysis.asked import Asked
from analysis.runs import wandb_project
from analysis.runs.inferred import PREFERENCE, without_copies
from analysis.runs.runs import Runs
from analysis.runs.settings import leaves, level_text
from analysis.runs.source_run import SourceRun, apart, check_row
from analysis.runs.tables.cells import cell_number, cell_text
from analysis.runs.tables.scales import in_unit, rounding_note
from analysis.runs.tables.tabular import TableRuns, measured_in, runs_of, ways_out
from analysis.verdicts.stopping import after_looks
from experiments.errors import UserError, plural
from experiments.metric import is_metric
from experiments.runs.history import read_looks
from experiments.stated import baseline_of
from experiments.study import StudyPlan
from experiments.table_plan import GivenPlan, TablePlan
from vit.registry import nearest

Place = tuple[str, int]  # variant, and seed or number of the run


def planned_wandb(source: str, given: GivenPlan, asked: Asked) -> Runs:
    """A planned study of runs of W&B."""
    metric, notes = measured_in(pd.DataFrame(), given.plan.metric, asked)
    runs = []
    for run in wandb_project.find_runs(source):
        settings, value = dict(leaves(run.config)), dict(leaves(run.summary)).get(given.plan.metric)
        config = {**settings, **{apart(factor, "config"): settings.get(factor) for factor in asked.factor}}
        seed = _key(settings.get(asked.seed or "seed"))
        config["seed"] = seed if isinstance(seed, int | float) else None
        is_known = isinstance(value, int | float) and math.isfinite(value)
        status = "diverged" if run.status == "finished" and not is_known else run.status
        summary = {**run.summary, str(metric): value if is_known else None}
        runs.append(replace(run, status=status, config=config, summary=summary, metric=metric))
    return _study(source, given, asked, TableRuns(runs, metric, notes))


def planned_table(frame: pd.DataFrame, source: str, given: GivenPlan, asked: Asked) -> Runs:
    """A planned study of a table with one row for each run. `source`: what messages call the table."""
    if isinstance(frame, pd.DataFrame) and frame.empty:
        return _study(source, given, asked, TableRuns([], *measured_in(pd.DataFrame(), given.plan.metric, asked)))
    return _study(source, given, asked, runs_of(frame, source, asked))


def needed(study: Runs, plan: TablePlan) -> Iterator[str]:
    """A line for each run that is still wanted, by seed: until decided, those up to the next look.

    Runs of W&B that are in training are left out.
    """
    incomplete, numbers = set(study.of("incomplete")["run"]), plan.numbers
    waiting = [run for run in study.plan.runs if run.name in incomplete]
    first = min((numbers.index(run.seed) for run in waiting), default=0)
    most = next((look for look in plan.looks if look > first and plan.until_decided), len(numbers))
    for run in waiting:
        if run.name == _absent(run.variant, run.seed, plan) and run.seed in numbers[:most]:
            yield plan.line(run.variant, run.seed)


def _study(source: str, given: GivenPlan, asked: Asked, found: TableRuns) -> Runs:
    plan, levels = given.plan, {label: _settings(own) for label, own in given.plan.labels.items()}
    for run in found.runs:
        check_row(run.row, f"{source}: {run.name}")
    placed, unused = _placed(found.runs, given, source)
    runs = {
        (label, number): placed.get((label, number), SourceRun(_absent(label, number, plan), "incomplete"))
        for number in plan.numbers
        for label in levels
    }
    specs = [
        {"run": run.name, "run_id": run.row["run_id"] or "", "variant": label, "levels": levels[label], "seed": number}
        for (label, number), run in runs.items()
    ]
    stated = _stated(source, given, asked, found, placed)
    rows = [{**run.row, "variant": label, "seed": number} for (label, number), run in runs.items()]
    _, kept = after_looks(StudyPlan.parse({**stated, "runs": specs}, given.place), rows)
    own = {(run.variant, run.seed) for run in kept.runs}
    for place in placed.keys() - own:
        stop = f"is after the look at {kept.stopped[place[0]]} seeds, which decides {place[0]}"
        unused[placed[place].name] = stop
    if unused:
        name, why = next(iter(unused.items()))
        more = f"; nor {plural(len(unused) - 1, 'more row')}" if len(unused) > 1 else ""
        kept = kept.changed(notes=[*stated["notes"], f"Not used: {name}, which {why}{more}."])
    left = [run for place, run in runs.items() if place in own] + [SourceRun(name, "unplanned") for name in unused]
    seen = tuple(read_looks(given.looks_file)) if given.looks_file else ()
    troubles = {name: f"{why}, so it is not used" for name, why in unused.items()}
    return Runs.of_runs(kept, left, looks=seen, looks_file=given.looks_file, troubles=troubles, others=found.others)


def _stated(
    source: str, given: GivenPlan, asked: Asked, found: TableRuns, placed: Mapping[Place, SourceRun]
) -> dict[str, Any]:
    """What the plan of the study has beside its runs."""
    plan, metric, held = given.plan, found.metric, dict[str, list[float]]()
    for (label, _), run in placed.items():
        value = run.summary.get(metric)
        held.setdefault(label, []).append(math.nan if value is None else float(value))
    values = [*chain(*held.values())]
    failed = [label for label, own in held.items() if any(map(math.isnan, own))]
    lost = [ways_out(failed, f"`chance:` in {given.place}")] * (
        bool(failed) and plan.chance is None and not metric.is_share
    )
    return {
        **plan.model_dump(include={"name", "looks", "family", "until_decided"}, exclude_none=True),
        **({} if is_metric(str(metric)) else {"lower_is_better": metric.lower_is_better}),
        "margin": None,
        **in_unit(plan, values, metric, given.place),
        "description": " ".join(filter(None, [plan.description, found.about])),
        "factors": _settings(plan.factors),
        "extra": list(map(_settings, plan.extra)),
        "baseline": baseline_of(plan.baseline, plan.labels),
        "metric": str(metric),
        "variance": asked.variance,
        "seeds": sorted(plan.numbers),
        "base": {},
        "command": asked.command or None,
        "source": source,
        "notes": [*found.notes, *rounding_note(held.values(), metric), *lost],
        "planned_by": given.described(),
    }


def _settings(by_factor: Mapping[str, Any]) -> dict[str, Any]:
    """The same by the names that the columns of factors have in `Runs.runs`."""
    return {apart(factor, "config"): value for factor, value in by_factor.items()}


def _absent(label: str, number: int, plan: TablePlan) -> str:
    """The name of a run that is not there."""
    return f"{label}, {plan.counted} {number}"


def _placed(runs: Sequence[SourceRun], given: GivenPlan, source: str) -> tuple[dict[Place, SourceRun], dict[str, str]]:
    """The runs in their places, and run -> why it has none. Raises `UserError` where none has one."""
    plan, unused = given.plan, dict[str, str]()
    labels = {tuple(map(_key, own.values())): label for label, own in plan.labels.items()}
    if len(labels) < len(plan.labels):
        raise UserError(f"{given.place}: factors: two levels are the same number")
    inside, names, counts = list[SourceRun](), list[str](), Counter[str]()
    if plan.counted == "seed":  # of several copies of one run, the one that got furthest counts
        runs = sorted(runs, key=lambda run: PREFERENCE.index(run.status))
    for run in runs:
        held = {factor: run.config.get(apart(factor, "config")) for factor in plan.factors}
        label = labels.get(tuple(map(_key, held.values())), "")
        seed = counts[label] if plan.counted == "run" else run.config.get("seed")
        if why := _unplanned(held, label, seed, plan):
            unused[run.name] = f"is not in the plan: {why}"
            continue
        counts[label] += 1
        inside.append(replace(run, config={**run.config, **_settings(plan.labels[label]), "seed": seed}))
        names.append(label)
    if unused and not inside:
        name, why = next(iter(unused.items()))
        raise UserError(f"{source}: no run is in the plan, {given.place}: {name} {why}")
    kept, copies = without_copies(source, inside, names, [dict(run.config) for run in inside])
    unused |= {name: why.removesuffix(", so it is not used") for name, why in copies.items()}
    return {place: inside[at] for place, at in kept.items()}, unused


def _unplanned(held: Mapping[str, Any], label: str, seed: Any, plan: TablePlan) -> str:
    """Why a run with these levels has no place in the plan; "" where it has one."""
    for factor, level in held.items():
        known = list(dict.fromkeys(own[factor] for own in plan.labels.values()))
        if _key(level) not in map(_key, known):
            return f"{factor} is {level_text(level)}; {nearest(level_text(level), map(level_text, known))}"
    if not label:
        return "its combination of levels is not planned"
    if seed not in plan.numbers:
        near = nearest(str(seed), map(str, plan.numbers)) if plan.counted == "seed" else f"it has {plan.runs} runs"
        return f"{plan.counted} {seed} of {label}; {near}"
    return ""


def _key(level: Any) -> Any:
    """What is equal for a level of the plan and the cell that holds it: a number, or text."""
    shown = cell_text(level_text(level))
    number = cell_number(shown)
    if number is not None and math.isfinite(number):
        return number
    return shown.lower() if shown in ("True", "False", "None") else shown
