"""One study for each dataset: from several studies, or from one that has the dataset among its factors."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.runs.runs import DATASET, Runs, factor_levels, level_text
from experiments.catalogue import DATASETS
from experiments.compared import variant_name
from experiments.errors import UserError

ADVICE = "use one study for each dataset, and vit-report across A B"


def datasets_of(study: Runs) -> list[str]:
    """The datasets of a study's runs, in their order; empty where they are not recorded."""
    return list(dict.fromkeys(study.runs[DATASET].dropna())) if DATASET in study.runs else []


def by_dataset(studies: Sequence[Runs]) -> dict[str, Runs]:
    """Dataset -> its study. One with the dataset among its factors becomes a study of each, see `split_by_dataset`.

    A study that does not state its dataset, such as a table, is called by its name, or by its source where two have the
    same name. Raises `UserError` for two studies of one dataset.
    """
    split = (split_by_dataset(study) if len(datasets_of(study)) > 1 else [study] for study in studies)
    parts = list(itertools.chain.from_iterable(split))
    unstated = Counter(part.name for part in parts if not datasets_of(part))
    named: dict[str, Runs] = {}
    for part in parts:
        name = part.plan.source.partition(":")[2] if unstated[part.name] > 1 else _dataset(part)
        if name in named:
            raise UserError(f"{named[name].name} and {part.name} use the same dataset, {name}")
        named[name] = part
    return named


def _dataset(study: Runs) -> str:
    """The one dataset of a study; an image folder has the folder's name as well."""
    name = next(iter(datasets_of(study)), study.name)
    if name in DATASETS and DATASETS[name].source == "folder" and "data.root" in study.runs:
        return f"{name} {Path(str(study.runs['data.root'].dropna().iloc[0])).name}"
    return name


def check_alike(studies: Mapping[str, Runs]) -> None:
    """Raise `UserError` where studies, by dataset, differ in their metric, margin, baseline or a variant's levels."""
    (first, study), *others = [(name, _shared(study)) for name, study in studies.items()]
    for name, other in others:
        for what in [key for key in study if key in other and study[key] != other[key]]:
            raise UserError(f"{first} and {name} have different {what}: {study[what]} and {other[what]}")


def _shared(study: Runs) -> dict[str, Any]:
    """What studies of several datasets share: what each is called -> its value."""
    better = "lower" if study.metric.lower_is_better else "higher"
    levels = {
        f"levels of {variant!r}": {path: level_text(level) for path, level in run.levels.items() if path != DATASET}
        for variant, run in study.plan.variants.items()
    }
    shared = {"metrics": f"{study.metric} ({better} is better)", "margins": study.margin, "baselines": study.baseline}
    return {**shared, **levels}


def split_by_dataset(study: Runs) -> list[Runs]:
    """A study that has the dataset among its factors, as one study for each dataset, without this factor.

    Raises `UserError` where the dataset is no factor, or belongs to one whose settings differ within a dataset.
    """
    factor = next((factor for factor in study.factors if DATASET in factor.split("+")), None)
    names = datasets_of(study)
    if factor is None:
        several = f"the runs use several datasets ({', '.join(names)}), which are no factor"
        raise UserError(f"{study.name}: {several}; {ADVICE}")
    levels = factor_levels(study.runs, factor)
    if levels.groupby(study.runs[DATASET]).nunique().max() > 1:
        raise UserError(f"{study.name}: {factor} has several levels for one dataset; {ADVICE}")
    rest = {name: texts for name, texts in study.factors.items() if name != factor}
    by_variant = study.levels(rest)
    renamed = {variant: variant_name(rest, row) for variant, row in zip(by_variant.index, by_variant.to_numpy())}
    return [_part(study, name, rest, renamed) for name in names]


def _part(study: Runs, dataset: str, factors: dict[str, list[str]], renamed: Mapping[str, str]) -> Runs:
    """The runs of one dataset as a study of the other factors. It may lack a variant, but not the baseline."""
    runs = study.runs[study.runs[DATASET] == dataset]
    curves = study.curves[study.curves["run"].isin(set(runs["run"]))]
    runs, curves = (frame.assign(variant=frame["variant"].map(renamed)) for frame in (runs, curves))
    baseline, names = renamed[study.baseline], set(runs["run"])
    planned = [run for run in study.plan.runs if run.name in names]
    parts = [run.model_copy(update={"variant": renamed[run.variant]}) for run in planned]
    if baseline not in {part.variant for part in parts}:
        raise UserError(f"{study.name}: the baseline {baseline!r} has no run on {dataset}")
    order = list(dict.fromkeys(renamed.values()))
    base = {**study.plan.base, "data": {**study.plan.base.get("data", {}), "name": dataset}}
    plan = study.plan.changed(factors=factors, baseline=baseline, base=base, runs=parts, tuning=None)
    return replace(
        study,
        plan=plan,
        stated=study.stated_plan,
        runs=runs.sort_values("variant", key=lambda variants: variants.map(order.index), kind="stable"),
        curves=curves,
        troubles={run: why for run, why in study.troubles.items() if run in names},
    )
