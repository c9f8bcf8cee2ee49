"""Infer a study from runs without a plan: runs of W&B, trials of Optuna, run folders without a study.json.

Such a source holds the runs that were made, not what was planned. The factors are the settings that differ between the
runs. The user gives baseline and metric, or they have defaults; the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.sources.runs_table import COLUMNS, ENDED, RunsTable, assemble, run_row
from analysis.sources.settings import PLACES, flatten, level_text, nested
from experiments.errors import UserError
from experiments.metric import Metric
from experiments.study import RunSpec, StudyPlan

METRIC = "test/acc"  # the default
MARGIN = 0.01
PREFERENCE = (*ENDED, "incomplete")  # which of several copies of one run counts: the first status in this order


@dataclass(frozen=True)
class ImportedRun:
    """A run read from a source without a plan.

    `config`: nested settings. `variant`: its name, or "" where the source has none. `summary`: as in summary.json.
    `rows`: its epochs, as in metrics.csv.
    """

    run: str
    status: str
    config: Mapping[str, Any]
    variant: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def infer(
    name: str,
    source: str,
    imported: Iterable[ImportedRun],
    metric: str | None = None,
    baseline: str | None = None,
    folder: Path | None = None,
) -> RunsTable:
    """A `RunsTable` from runs without a plan.

    A variant of the source whose runs have different settings is split by these. Of several copies of one run (same
    settings and seed), the one that got furthest counts. `folder` holds the runs' folders, where they have any. Raises
    `UserError` where there are no runs, or where they cannot be told apart.
    """
    runs = sorted(imported, key=lambda run: (PREFERENCE.index(run.status), run.run))
    if not runs:
        raise UserError(f"{source}: holds no runs")
    _check_units(source, runs, metric or METRIC)
    runs = [replace(run, config=_apart_from_columns(run.config)) for run in runs]
    settings = [dict(flatten(run.config)) for run in runs]
    factors = _factors(settings)
    labels = _variant_names(runs, [_label(factors, own) for own in settings])
    kept, troubles = _without_copies(source, runs, labels, settings)
    variants = sorted({label for label, _ in kept}, key=lambda label: (label != baseline, label))  # baseline first
    if baseline is not None and baseline not in variants:
        raise UserError(f"--baseline: {baseline!r} is not among the variants: {', '.join(variants)}")
    order = sorted(kept, key=lambda key: (variants.index(key[0]), key[1]))
    chosen = [runs[kept[key]] for key in order]
    planned_runs = [_planned(runs[kept[key]], key, settings[kept[key]], factors) for key in order]
    rows = [run_row(planned, run.status, run.config, run.summary) for planned, run in zip(planned_runs, chosen)]
    curves = [
        {"run": planned.name, "variant": planned.variant, "seed": planned.seed, **row}
        for planned, run in zip(planned_runs, chosen)
        for row in run.rows
    ]
    tree = {
        "name": name,
        "factors": {"+".join(paths): levels for paths, levels in factors},
        "baseline": baseline or variants[0],
        "metric": metric or METRIC,
        "margin": MARGIN,
        "seeds": sorted({seed for _, seed in order}),
        "base": _shared(settings),
        "runs": planned_runs,
        "source": source,
        "notes": [_note(source, metric or METRIC, baseline, folder)],
    }
    return assemble(StudyPlan.parse(tree, source), rows, curves, troubles, folder)


def _apart_from_columns(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of another program, `config.epochs` for one that is named like a column of `RunsTable.runs`."""
    return {f"config.{name}" if name in COLUMNS and name != "seed" else name: value for name, value in config.items()}


def _check_units(source: str, runs: Iterable[ImportedRun], metric: str) -> None:
    """Raise `UserError` where an accuracy is not a fraction: other programs log percent."""
    for run in runs:
        value = run.summary.get(metric)
        if Metric(metric).is_share and isinstance(value, int | float) and not (0 <= value <= 1 or math.isnan(value)):
            raise UserError(f"{source}: {run.run}: {metric} is {value:g}; expected a fraction from 0 to 1")


def _note(source: str, metric: str, baseline: str | None, folder: Path | None) -> str:
    """What the report says of a study without a plan."""
    chosen = "the one given with --baseline" if baseline else "the first variant by name"
    unchecked = "" if folder else " The source holds no digests, so altered values go unnoticed."
    return (
        f"Read from {source}, which holds no plan: the factors are the settings that differ between the runs, the "
        f"baseline is {chosen}, the metric is {metric}, and the margin is the default, not one stated before the runs."
        f"{unchecked}"
    )


def _without_copies(
    source: str, runs: list[ImportedRun], labels: list[str], settings: list[dict[str, Any]]
) -> tuple[dict[tuple[str, int], int], dict[str, str]]:
    """(variant, seed) -> the index of the first run, and run -> why a copy is excluded.

    Raises `UserError` where a seed is not an integer, or where runs with the same settings have no seed.
    """
    kept: dict[tuple[str, int], int] = {}
    troubles, seedless = {}, []
    for index, (run, label, own) in enumerate(zip(runs, labels, settings)):
        seed = own.get("seed", 0)
        if not isinstance(seed, int):
            raise UserError(f"{source}: {run.run}: seed: {seed!r} is not an integer")
        first = kept.setdefault((label, seed), index)
        if first != index:
            troubles[run.run] = f"is another copy of {runs[first].run} ({label}, seed {seed}), so it is not used"
            seedless += [] if "seed" in own else [run.run]
    if seedless:
        raise UserError(
            f"{source}: {len(seedless)} runs have no setting `seed` and the same settings as another run, for example "
            f"{seedless[0]}; seeds are needed to tell runs of a variant apart and to pair them"
        )
    return kept, troubles


def _variant_names(runs: list[ImportedRun], labels: list[str]) -> list[str]:
    """The name of each run's variant: that of the source, followed by `labels` where it has several settings.

    W&B groups of other programs can hold runs with different settings, which are different variants.
    """
    settings: dict[str, set[str]] = {}
    for run, label in zip(runs, labels):
        settings.setdefault(run.variant, set()).add(label)
    return [
        label if not run.variant else run.variant if len(settings[run.variant]) == 1 else f"{run.variant}: {label}"
        for run, label in zip(runs, labels)
    ]


Factors = list[tuple[tuple[str, ...], list[Any]]]


def _factors(settings: list[dict[str, Any]]) -> Factors:
    """(paths, levels in order) of the settings that differ between runs. Settings that always change together are one
    factor.
    """
    columns: dict[tuple[int, ...], list[str]] = {}
    for path in dict.fromkeys(path for own in settings for path in own):
        values = [level_text(own.get(path)) for own in settings]
        code = {value: number for number, value in enumerate(dict.fromkeys(values))}
        if path not in PLACES and len(code) > 1:
            columns.setdefault(tuple(code[value] for value in values), []).append(path)
    found = []
    for codes, paths in columns.items():
        first = dict(zip(reversed(codes), reversed(settings)))  # a level -> the first run that has it
        levels = [[first[number].get(path) for path in paths] for number in range(len(first))]
        found.append((tuple(paths), [level[0] if len(paths) == 1 else level for level in levels]))
    return found


def _label(factors: Factors, own: Mapping[str, Any]) -> str:
    """The name of a variant where the source has none: its level, or `depth=2, head=logits`."""
    texts = {paths: level_text([own.get(path) for path in paths]) for paths, _ in factors}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{paths[0].rpartition('.')[2]}={text}" for paths, text in texts.items()) or "all"


def _planned(run: ImportedRun, key: tuple[str, int], own: Mapping[str, Any], factors: Factors) -> RunSpec:
    variant, seed = key
    levels = {path: own.get(path) for paths, _ in factors for path in paths}
    digits = run.summary.get("run_id") or ""
    return RunSpec(name=run.run, run_id=digits, variant=variant, levels=levels, seed=seed)


def _shared(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that are equal in all runs, nested as in a plan."""
    first, *others = settings
    return nested(
        {
            path: value
            for path, value in first.items()
            if path not in PLACES and all(own.get(path) == value for own in others)
        }
    )
