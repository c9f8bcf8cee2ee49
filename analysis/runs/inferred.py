"""Infer a study from run folders without a study.json.

Such a folder holds the runs that were made, not what was planned. The factors are the settings that differ between the
runs. The user gives baseline and metric, or they have defaults; the report says so.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.asked import Asked
from analysis.runs.runs import Runs
from analysis.runs.settings import PLACES, in_order, leaves, level_text, nested
from analysis.runs.source_run import ENDED, SourceRun
from experiments.errors import UserError, first_few
from experiments.metric import Metric
from experiments.stated import variant_name
from experiments.study import StudyPlan
from vit.registry import nearest

METRIC = "test/acc"  # the default
MARGIN = 0.01
LEFT_OUT = "Runs that failed and are left out make a variant look better than it is."
PREFERENCE = (*ENDED, "incomplete")  # which of several copies of one run counts: the first status in this order


def infer(folder: Path, runs: Iterable[SourceRun], asked: Asked, troubles: Mapping[str, str], **parts: Any) -> Runs:
    """A `Runs` from the runs of a folder without a plan. `parts`: its other fields.

    Of several copies of one run (same settings and seed), the one that got furthest counts. Raises `UserError` where
    there are no runs.
    """
    source, metric = str(folder), asked.metric or METRIC
    runs = sorted(runs, key=lambda run: (PREFERENCE.index(run.status), run.name))
    if not runs:
        raise UserError(f"{source}: holds no runs")
    told = _Variants(runs)
    kept, copies = _without_copies(runs, told.names, told.settings)
    variants = sorted(told.in_order(), key=lambda variant: variant != asked.baseline)
    if asked.baseline is not None and asked.baseline not in variants:
        known = nearest(asked.baseline, variants, "the variants")
        raise UserError(f"{source}: baseline: {asked.baseline!r} is not among the variants; {known}")
    kept = dict(sorted(kept.items(), key=lambda item: (variants.index(item[0][0]), item[0][1])))
    chosen = "the one given" if asked.baseline else "the first variant"
    notes = [
        f"Read from {source}, which holds no plan: the factors are the settings that differ between the runs, the "
        f"baseline is {chosen}, the metric is {metric}, and the margin is the default, not one stated before the runs."
    ]
    if lost := sorted(run.name for run in runs if run.name in copies and run.status != "finished"):
        notes.append(f"Another copy counts of runs that failed: {first_few(lost)}. {LEFT_OUT}")
    tree = {
        **told.fields(kept),
        "name": folder.resolve().name,
        "baseline": variants[0],
        "metric": metric,
        "margin": MARGIN if Metric(metric).is_share else None,  # the default is for accuracies
        "source": source,
        "notes": notes,
        "command": asked.command or None,
    }
    plan = StudyPlan.parse(tree, source)
    return Runs.of_runs(plan, [runs[at] for at in kept.values()], troubles={**copies, **troubles}, **parts)


class _Variants:
    """The variants of runs, as their settings tell them apart. Lists have an item for each run.

    `settings`: by dotted path. `factors`: paths -> levels in order, of the settings that differ between runs; settings
    that always change together are one factor, whose levels are lists. `levels`: the text of each factor's level.
    `names`: the level, or `depth=2, head=logits`.
    """

    def __init__(self, runs: list[SourceRun]) -> None:
        self.runs, self.settings = runs, [dict(leaves(run.config)) for run in runs]
        self.factors = _factors(self.settings)
        self.levels = [
            [level_text([values.get(path) for path in paths]) for paths in self.factors] for values in self.settings
        ]
        self.names = [variant_name((paths[0] for paths in self.factors), texts) for texts in self.levels]

    def in_order(self) -> list[str]:
        """The variants, by their levels: numbers as numbers."""
        places = [{level: at for at, level in enumerate(in_order(sorted({*column})))} for column in zip(*self.levels)]
        place = {name: [of[level] for of, level in zip(places, row)] for name, row in zip(self.names, self.levels)}
        return sorted(place, key=lambda name: (place[name], name))

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


def _without_copies(
    runs: list[SourceRun], variants: list[str], settings: list[dict[str, Any]]
) -> tuple[dict[tuple[str, int], int], dict[str, str]]:
    """(variant, seed) -> index of the first run; run -> why a copy is out."""
    kept: dict[tuple[str, int], int] = {}
    copies = {}
    for index, (run, variant, values) in enumerate(zip(runs, variants, settings)):
        seed = values.get("seed") or 0
        first = runs[kept.setdefault((variant, seed), index)].name
        if first != run.name:
            copies[run.name] = f"is another copy of {first} ({variant}, seed {seed}), so it is not used"
    return kept, copies
