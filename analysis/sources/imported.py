"""A study inferred from runs without a plan, as W&B or an Optuna storage holds them.

Such a source knows which runs there were, not what was planned: the factors are the settings that differ between runs.
Baseline, metric and margin are given by the user or are defaults, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.sources.study import ENDED, PLACES, Study, assemble, flatten, level_text, nested, run_row
from experiments.errors import UserError

MARGIN = 0.01
RANK = (*ENDED, "incomplete")  # which of several copies of one run is believed


@dataclass(frozen=True)
class ImportedRun:
    """A run as a mirror has it: `config` nested, `summary` and `rows` (its epochs) as in a record; `variant` "" if it
    has none.
    """

    run: str
    status: str
    config: Mapping[str, Any]
    variant: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def infer(name: str, source: str, found: Iterable[ImportedRun], metric: str, baseline: str | None) -> Study:
    """A `Study` from runs without a plan. Of several mirrors of one variant and seed, the one that got furthest counts."""
    runs = sorted(found, key=lambda run: (RANK.index(run.status), run.run))
    if not runs:
        raise UserError(f"{source}: holds no runs")
    settings = [dict(flatten(run.config)) for run in runs]
    factors = _factors(settings)
    labels = [run.variant or _label(factors, own) for run, own in zip(runs, settings)]
    kept, troubles = _first_mirrors(source, runs, labels, settings)
    variants = sorted(
        {label for label, _ in kept}, key=lambda label: (label != baseline, label)
    )  # the baseline comes first
    if baseline is not None and baseline not in variants:
        raise UserError(f"--baseline: {baseline!r} is not among the variants: {', '.join(variants)}")
    order = sorted(kept, key=lambda key: (variants.index(key[0]), key[1]))
    entries = [_entry(runs[kept[key]], key, settings[kept[key]], factors) for key in order]
    rows = [
        run_row(entry, runs[kept[key]].status, runs[kept[key]].config, runs[kept[key]].summary)
        for entry, key in zip(entries, order)
    ]
    curves = [
        {"run": e["run"], "variant": e["variant"], "seed": e["seed"], **row}
        for e, key in zip(entries, order)
        for row in runs[kept[key]].rows
    ]
    plan = {
        "name": name,
        "factors": {"+".join(paths): levels for paths, levels in factors},
        "baseline": baseline or variants[0],
        "metric": metric,
        "margin": MARGIN,
        "base": _shared(settings),
        "runs": entries,
        "source": source,
        "notes": [
            (
                f"Read from {source}, a mirror that holds no plan: factors are the settings that differ, the baseline is "
                f"{'as asked for' if baseline else 'the first by name'}, "
                f"the metric {metric}, and the margin the default, not one stated before the runs. Nothing shows whether "
                "a record was altered."
            )
        ],
    }
    return assemble(plan, rows, curves, troubles)


def _first_mirrors(
    source: str, runs: list[ImportedRun], labels: list[str], settings: list[dict[str, Any]]
) -> tuple[dict[tuple[str, int], int], dict[str, str]]:
    """The place in `runs` of each variant and seed's first run, and what is to be said of the others.

    Raises `UserError` where a seed is no number, or where runs that are alike have none.
    """
    kept: dict[tuple[str, int], int] = {}
    troubles, seedless = {}, []
    for at, (run, label, own) in enumerate(zip(runs, labels, settings)):
        seed = own.get("seed", 0)
        if not isinstance(seed, int):
            raise UserError(f"{source}: {run.run}: seed: {seed!r} is not a whole number")
        first = kept.setdefault((label, seed), at)
        if first != at:
            troubles[run.run] = f"is another mirror of {runs[first].run} ({label}, seed {seed}), so it is in no number"
            seedless += [] if "seed" in own else [run.run]
    if seedless:
        alike = f"{len(seedless)} runs have no setting `seed`, and all others like another run's, {seedless[0]} for one"
        raise UserError(f"{source}: {alike}: they can be neither told apart nor paired")
    return kept, troubles


Factors = list[tuple[tuple[str, ...], list[Any]]]


def _factors(settings: list[dict[str, Any]]) -> Factors:
    """The settings that differ between runs; those that always move together are one factor. (paths, levels in order)."""
    moves: dict[tuple[int, ...], list[str]] = {}
    for path in dict.fromkeys(path for own in settings for path in own):
        values = [level_text(own.get(path)) for own in settings]
        code = {value: number for number, value in enumerate(dict.fromkeys(values))}
        if path not in PLACES and len(code) > 1:
            moves.setdefault(tuple(code[value] for value in values), []).append(path)
    found = []
    for codes, paths in moves.items():
        first = dict(zip(reversed(codes), reversed(settings)))  # a level -> the first run that has it
        levels = [[first[number].get(path) for path in paths] for number in range(len(first))]
        found.append((tuple(paths), [level[0] if len(paths) == 1 else level for level in levels]))
    return found


def _label(factors: Factors, own: Mapping[str, Any]) -> str:
    """A variant's name where the mirror has none: its level, or `depth=2, head=logits`."""
    texts = {paths: level_text([own.get(path) for path in paths]) for paths, _ in factors}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{paths[0].rpartition('.')[2]}={text}" for paths, text in texts.items()) or "all"


def _entry(run: ImportedRun, key: tuple[str, int], own: Mapping[str, Any], factors: Factors) -> dict[str, Any]:
    variant, seed = key
    levels = {path: own.get(path) for paths, _ in factors for path in paths}
    return {"run": run.run, "run_id": run.summary.get("run_id"), "variant": variant, "levels": levels, "seed": seed}


def _shared(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that every run has alike, nested as in a plan."""
    first, *others = settings
    return nested(
        {
            path: value
            for path, value in first.items()
            if path not in PLACES and all(own.get(path) == value for own in others)
        }
    )
