"""Infer a study from runs without a plan: runs of W&B, rows of a table, run folders without a study.json.

Such a source holds the runs that were made, not what was planned. The factors are the settings that differ between the
runs. The user gives baseline and metric, or they have defaults; the report says so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
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
LEFT_OUT = "Runs that failed and are left out make a variant look better than it is."
PREFERENCE = (*ENDED, "incomplete")  # which of several copies of one run counts: the first status in this order


def infer(
    source: str,
    source_runs: Iterable[SourceRun],
    asked: Asked,
    metric: str | None = None,
    stated: Mapping[str, Any] = MappingProxyType({}),
    troubles: Mapping[str, str] = MappingProxyType({}),
    factors_are: str = "the settings that differ between the runs",
    **parts: Any,
) -> Runs:
    """A `Runs` from runs without a plan. `source`: their folder or address. `parts`: its other fields.

    `metric`: that asked for, which knows its direction; the default is ours, or the only one that was measured.
    `stated`: fields of the plan, with the margin in the unit of the metric. A variant of the source whose runs have
    different settings is split by these. Of several copies of one run (same settings and seed), the one that got
    furthest counts. Unpaired runs have no copies, and are numbered in each variant. `factors_are`: "" where the user
    names all of it. Raises `UserError` where there are no runs, or where they cannot be told apart.
    """
    unpaired = asked.variance == "unpaired"
    metric, runs = _measured(_checked(source, source_runs, unpaired), metric or asked.metric)
    told = _Variants(runs)
    kept, copies = (told.numbered(metric), {}) if unpaired else without_copies(source, runs, told.names, told.settings)
    variants = sorted(told.in_order(), key=lambda variant: variant != asked.baseline)
    if asked.baseline is not None and asked.baseline not in variants:
        known = nearest(asked.baseline, variants, "the variants")
        raise UserError(f"{source}: baseline: {asked.baseline!r} is not among the variants; {known}")
    kept = dict(sorted(kept.items(), key=lambda item: (variants.index(item[0][0]), item[0][1])))
    notes = _notes(source, metric, asked.baseline, stated.get("margin"), factors_are, "folder" in parts)
    if lost := sorted(run.name for run in runs if run.name in copies and run.status != "finished"):
        notes.append(f"Another copy counts of runs that failed: {first_few(lost)}. {LEFT_OUT}")
    tree = {
        **told.fields(kept),
        "name": runs[0].study or Path(source).resolve().name,
        "baseline": variants[0],
        "metric": metric,
        **({} if is_metric(str(metric)) else {"lower_is_better": Metric(metric).lower_is_better}),
        "margin": MARGIN if Metric(metric).is_share else None,  # the default is for accuracies
        "variance": asked.variance,
        **({} if asked.family == "all" else {"family": asked.family}),
        "source": source,
        "notes": notes,
        "command": asked.command or None,
        **stated,
    }
    plan = StudyPlan.parse(tree, source)
    return Runs.of_runs(plan, [runs[at] for at in kept.values()], troubles={**copies, **troubles}, **parts)


def _checked(source: str, source_runs: Iterable[SourceRun], unpaired: bool) -> list[SourceRun]:
    """The runs, with `config.epochs` for a setting of another program that is named like a column of `Runs.runs`."""
    clashes = {name: f"config.{name}" for name in COLUMNS if name != "seed"}
    runs = [
        replace(run, config={clashes.get(name, name): value for name, value in run.config.items()})
        for run in source_runs
    ]
    if not runs:
        raise UserError(f"{source}: holds no runs")
    for run in runs:
        check_row(run.row, f"{source}: {run.name}")
    if unpaired and any(run.row["run_id"] for run in runs):
        raise UserError(f"{source}: variance: 'unpaired' is not allowed: these runs are of vit-train, and have seeds")
    return runs


def _measured(runs: list[SourceRun], metric: str | None) -> tuple[str, list[SourceRun]]:
    """The metric, and the runs by how far they got. One that another program finished without a value has failed."""
    measured = {name for run in runs for name in known_metrics(run.row) if run.row.get(name) is not None}
    metric = metric or (METRIC if METRIC in measured or len(measured) != 1 else next(iter(measured)))

    def has_failed(run: SourceRun) -> bool:
        return run.status == "finished" and not run.row["run_id"] and run.row.get(metric) is None

    ended = [replace(run, status="diverged") if metric in measured and has_failed(run) else run for run in runs]
    return metric, sorted(ended, key=lambda run: (PREFERENCE.index(run.status), run.name))


class _Variants:
    """The variants of runs, as their settings tell them apart. Lists have an item for each run.

    `settings`: by dotted path. `factors`: paths -> levels in order, of the settings that differ between runs; settings
    that always change together are one factor, whose levels are lists. `levels`: the text of each factor's level.
    `names`: that of the source, or else the level, or `depth=2, head=logits`. W&B groups of other programs can hold
    runs with different settings; then the names are both, `GROUP: depth=2`.
    """

    def __init__(self, runs: list[SourceRun]) -> None:
        self.runs, self.settings = runs, [dict(leaves(run.config)) for run in runs]
        self.factors = _factors(self.settings)
        self.levels = [
            [level_text([values.get(path) for path in paths]) for paths in self.factors] for values in self.settings
        ]
        names = [variant_name((paths[0] for paths in self.factors), texts) for texts in self.levels]
        split = len({run.variant for run in runs}) < len({(run.variant, name) for run, name in zip(runs, names)})
        self.names = [
            f"{run.variant}: {name}" if split and run.variant else run.variant or name for run, name in zip(runs, names)
        ]

    def in_order(self) -> list[str]:
        """The variants, by their levels, or by their names where the source has some: numbers as numbers."""
        rows = [[name] for name in self.names] if any(run.variant for run in self.runs) else self.levels
        places = [{level: at for at, level in enumerate(in_order(sorted({*column})))} for column in zip(*rows)]
        place = {name: [of[level] for of, level in zip(places, row)] for name, row in zip(self.names, rows)}
        return sorted(place, key=lambda name: (place[name], name))

    def numbered(self, metric: str) -> dict[tuple[str, int], int]:
        """(variant, number) -> index. Numbers are in the order of values: the order of runs changes no result."""
        values = [(PREFERENCE.index(run.status), run.row.get(metric) or 0.0) for run in self.runs]
        kept: dict[tuple[str, int], int] = {}
        numbers = Counter[str]()
        for index in sorted(range(len(values)), key=values.__getitem__):
            kept[self.names[index], numbers[self.names[index]]] = index
            numbers[self.names[index]] += 1
        return kept

    def fields(self, kept: Mapping[tuple[str, int], int]) -> dict[str, Any]:
        """Factors, base, seeds and runs of a plan. `kept`: (variant, seed) -> index of its run."""
        varied = [path for paths in self.factors for path in paths]
        base = {path: value for path, value in self.settings[0].items() if path not in (*varied, *PLACES)}
        runs = [
            {
                "run": self.runs[at].name,
                "run_id": self.runs[at].summary.get("run_id") or "",
                "variant": variant,
                "levels": {path: self.settings[at].get(path) for path in varied},
                "seed": seed,
            }
            for (variant, seed), at in kept.items()
        ]
        factors = {"+".join(paths): levels for paths, levels in self.factors.items()}
        return {"factors": factors, "base": nested(base), "seeds": sorted({seed for _, seed in kept}), "runs": runs}


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
