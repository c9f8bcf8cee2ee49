"""Infer a study from runs without a plan: runs of W&B, rows of a table, run folders without a study.json.

Such a source holds the runs that were made, not what was planned. The factors are the settings that differ between the
runs. The user gives baseline and metric, or they have defaults; the report says so.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.asked import Asked
from analysis.runs.runs import Runs
from analysis.runs.settings import PLACES, in_order, leaves, level_text, nested
from analysis.runs.source_run import COLUMNS, ENDED, SourceRun, check_row
from experiments.errors import UserError, first_few
from experiments.metric import Metric, is_metric, known_metrics
from experiments.stated import variant_name
from experiments.study import StudyPlan
from vit.registry import nearest

METRIC = "test/acc"  # the default
MARGIN = 0.01
PREFERENCE = (*ENDED, "incomplete")  # which of several copies of one run counts: the first status in this order


def infer(
    source: str,
    source_runs: Iterable[SourceRun],
    asked: Asked,
    metric: str | None = None,
    margin: float | None = None,
    troubles: Mapping[str, str] | None = None,
    factors_are: str = "the settings that differ between the runs",
    **parts: Any,
) -> Runs:
    """A `Runs` from runs without a plan. `source`: their folder or address. `parts`: its other fields.

    `metric`: that asked for, which knows its direction; `margin` is in its unit. The default is ours, or the only one
    that was measured. A variant of the source whose runs have different settings is split by these. Of several copies
    of one run (same settings and seed), the one that got furthest counts. Unpaired runs have no copies, and are
    numbered in each variant. Raises `UserError` where there are no runs, or where they cannot be told apart.
    """
    metric, baseline, variance = metric or asked.metric, asked.baseline, asked.variance
    runs = list(map(_apart_from_columns, source_runs))
    if not runs:
        raise UserError(f"{source}: holds no runs")
    for run in runs:
        check_row(run.row, f"{source}: {run.name}")
    measured = {name for run in runs for name in known_metrics(run.row) if run.row.get(name) is not None}
    metric = metric or (METRIC if METRIC in measured or len(measured) != 1 else next(iter(measured)))
    for at, run in enumerate(runs):  # another program finished it without a finite value
        if run.status == "finished" and not run.row["run_id"] and metric in measured and run.row.get(metric) is None:
            runs[at] = replace(run, status="diverged")
    runs.sort(key=lambda run: (PREFERENCE.index(run.status), run.name))
    settings = [dict(leaves(run.config)) for run in runs]
    factors = _factors(settings)
    names, unpaired = _variant_names(runs, settings, factors), variance == "unpaired"
    if unpaired and any(run.row["run_id"] for run in runs):
        raise UserError(f"{source}: variance: 'unpaired' is not allowed: these runs are of vit-train, and have seeds")
    kept, copies = (
        (_numbered(runs, names, str(metric)), {}) if unpaired else without_copies(source, runs, names, settings)
    )
    variants = sorted(_in_order(runs, settings, factors, names), key=lambda variant: variant != baseline)
    if baseline is not None and baseline not in variants:
        known = nearest(baseline, variants, "the variants")
        raise UserError(f"{source}: baseline: {baseline!r} is not among the variants; {known}")
    kept = dict(sorted(kept.items(), key=lambda item: (variants.index(item[0][0]), item[0][1])))
    varied = [path for paths in factors for path in paths]
    tree = {
        "name": runs[0].study or Path(source).resolve().name,
        "factors": {"+".join(paths): levels for paths, levels in factors.items()},
        "baseline": variants[0],
        "metric": metric,
        **({} if is_metric(str(metric)) else {"lower_is_better": Metric(metric).lower_is_better}),
        "margin": MARGIN if margin is None and Metric(metric).is_share else margin,  # the default is for accuracies
        "variance": variance,
        **({} if asked.family == "all" else {"family": asked.family}),
        "seeds": sorted({seed for _, seed in kept}),
        "base": nested({path: value for path, value in settings[0].items() if path not in (*varied, *PLACES)}),
        "runs": [
            {
                "run": runs[at].name,
                "run_id": runs[at].summary.get("run_id") or "",
                "variant": variant,
                "levels": {path: settings[at].get(path) for path in varied},
                "seed": seed,
            }
            for (variant, seed), at in kept.items()
        ],
        "source": source,
        "notes": [
            *_notes(source, metric, baseline, margin, factors_are, "folder" in parts),
            *_lost([run.name for run in runs if run.name in copies and run.status != "finished"], unpaired),
        ],
        "command": asked.command or None,
    }
    plan = StudyPlan.parse(tree, source)
    return Runs.of_runs(plan, [runs[at] for at in kept.values()], troubles={**copies, **(troubles or {})}, **parts)


def _apart_from_columns(run: SourceRun) -> SourceRun:
    """The run, with `config.epochs` for a setting of another program that is named like a column of `Runs.runs`."""
    clashes = {name: f"config.{name}" for name in COLUMNS if name != "seed"}
    return replace(run, config={clashes.get(name, name): value for name, value in run.config.items()})


def _lost(replaced: Collection[str], unpaired: bool) -> list[str]:
    """What to know of failed runs `replaced` by a copy that finished."""
    why = "Runs that failed and are left out make a variant look better than it is."
    said = f"Another copy counts of runs that failed: {first_few(sorted(replaced))}. {why}"
    return [said] if replaced and not unpaired else []


def _factors(settings: list[dict[str, Any]]) -> dict[tuple[str, ...], list[Any]]:
    """Paths -> levels in order, of the settings that differ between runs. Settings that always change together are one
    factor, whose levels are lists.
    """
    linked: dict[tuple[int, ...], list[str]] = {}  # runs with equal levels -> the settings that vary like this
    for path in dict.fromkeys(path for values in settings for path in values):
        texts = [level_text(values.get(path)) for values in settings]
        first_run = dict(zip(reversed(texts), reversed(range(len(texts)))))  # level -> the first run that has it
        first = tuple(first_run[text] for text in texts)
        if path not in PLACES and any(first):
            linked.setdefault(first, []).append(path)
    factors = {}
    for first, paths in linked.items():
        of_runs = [[settings[run].get(path) for path in paths] for run in sorted(set(first))]
        by_text = {level_text(level): level[0] if len(paths) == 1 else level for level in of_runs}
        factors[tuple(paths)] = [by_text[text] for text in in_order(by_text)]
    return factors


def _variant_names(
    runs: list[SourceRun], settings: list[dict[str, Any]], factors: Iterable[tuple[str, ...]]
) -> list[str]:
    """The name of each run's variant: that of the source, or else its level, or `depth=2, head=logits`.

    W&B groups of other programs can hold runs with different settings. Then the names are both, `GROUP: depth=2`.
    """
    factors = list(factors)
    names = [variant_name((paths[0] for paths in factors), texts) for texts in _texts(settings, factors)]
    given = {run.variant for run in runs}
    if len(given) < len({(run.variant, name) for run, name in zip(runs, names)}):
        return [f"{run.variant}: {name}" if run.variant else name for run, name in zip(runs, names)]
    return [run.variant or name for run, name in zip(runs, names)]


def _texts(settings: list[dict[str, Any]], factors: Iterable[tuple[str, ...]]) -> list[list[str]]:
    """The level of each factor as text, for each run."""
    factors = list(factors)
    return [[level_text([values.get(path) for path in paths]) for paths in factors] for values in settings]


def _in_order(
    runs: list[SourceRun], settings: list[dict[str, Any]], factors: Iterable[tuple[str, ...]], names: list[str]
) -> list[str]:
    """The variants, by their levels, or by their names where the source has some: numbers in the order of numbers."""
    rows = [[name] for name in names] if any(run.variant for run in runs) else _texts(settings, factors)
    places = [{level: at for at, level in enumerate(in_order(sorted({*column})))} for column in zip(*rows)]
    place = {name: [of[level] for of, level in zip(places, row)] for name, row in zip(names, rows)}
    return sorted(place, key=lambda name: (place[name], name))


def _numbered(runs: list[SourceRun], variants: list[str], metric: str) -> dict[tuple[str, int], int]:
    """(variant, number) -> index. Numbers are in the order of values, so that the order of runs changes no result."""
    values = [(PREFERENCE.index(run.status), run.row.get(metric) or 0.0) for run in runs]
    kept: dict[tuple[str, int], int] = {}
    numbers = Counter[str]()
    for index in sorted(range(len(runs)), key=values.__getitem__):
        kept[variants[index], numbers[variants[index]]] = index
        numbers[variants[index]] += 1
    return kept


def without_copies(
    source: str, runs: list[SourceRun], variants: list[str], settings: list[dict[str, Any]]
) -> tuple[dict[tuple[str, int], int], dict[str, str]]:
    """(variant, seed) -> index of the first run; run -> why a copy is out. `UserError` for copies without a seed."""
    kept: dict[tuple[str, int], int] = {}
    copies = {}
    for index, (run, variant, values) in enumerate(zip(runs, variants, settings)):
        seed = values.get("seed") or 0
        first = runs[kept.setdefault((variant, seed), index)].name
        if first == run.name:
            continue
        if values.get("seed") is None:
            raise UserError(f"{source}: {run.name}: has no setting `seed`, and {first} has the same settings")
        copies[run.name] = f"is another copy of {first} ({variant}, seed {seed}), so it is not used"
    return kept, copies


def _notes(
    source: str, metric: str, baseline: str | None, margin: float | None, factors_are: str, has_digests: bool
) -> list[str]:
    """What the report warns of in a study without a plan. `factors_are`: "" where the user names all of it."""
    chosen = "the one given" if baseline else "the first variant"
    stated = f"the margin is {'the default' if margin is None else 'the one given'}, not one stated before the runs"
    has_margin = margin is not None or Metric(metric).is_share
    if not factors_are:
        return [f"{stated[0].upper()}{stated[1:]}."] * has_margin
    if not has_margin:
        stated = "no margin is stated for it, so no equivalence is tested"
    unchecked = "" if has_digests else " The source holds no digests, so altered values go unnoticed."
    return [
        f"Read from {source}, which holds no plan: the factors are {factors_are}, the baseline is {chosen}, the metric "
        f"is {metric}, and {stated}.{unchecked}"
    ]
