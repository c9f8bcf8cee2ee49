"""A study that has the dataset among its factors, as one study for each dataset."""

from collections.abc import Mapping
from dataclasses import replace

from analysis.runs.runs import Runs, factor_levels
from analysis.runs.settings import variant_name
from experiments.errors import UserError
from experiments.tuned import Tuned

DATASET = "data.name"
ADVICE = "use one study for each dataset, and vit-report across A B"


def datasets_of(study: Runs) -> list[str]:
    """The datasets of a study's runs, in their order; empty where they are not recorded."""
    return list(dict.fromkeys(study.runs[DATASET].dropna())) if DATASET in study.runs else []


def check_one_dataset(study: Runs) -> None:
    """Raise `UserError` for a study whose runs use several datasets: its variants cannot be compared as they are."""
    if len(names := datasets_of(study)) > 1:
        raise UserError(f"{study.name}: the runs use several datasets ({', '.join(names)}); {ADVICE}")


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
    """The runs of one dataset as a study of the other factors."""
    runs = study.runs[study.runs[DATASET] == dataset]
    curves = study.curves[study.curves["run"].isin(set(runs["run"]))]
    runs, curves = (frame.assign(variant=frame["variant"].map(renamed)) for frame in (runs, curves))
    baseline, own = renamed[study.baseline], set(runs["run"])
    planned = [run for run in study.plan.runs if run.name in own]
    names = {run.variant: renamed[run.variant] for run in planned}
    parts = [run.model_copy(update={"variant": names[run.variant]}) for run in planned]
    order = list(dict.fromkeys(renamed.values()))
    base = {**study.plan.base, "data": {**study.plan.base.get("data", {}), "name": dataset}}
    plan = study.plan.model_copy(update={"factors": factors, "baseline": baseline, "base": base, "runs": parts})
    if plan.tuned:
        plan = plan.model_copy(update={"tuned": _part_of_tuning(plan.tuned, dataset, names)})
    return replace(
        study,
        plan=plan,
        stated=study.stated_plan,
        runs=runs.sort_values("variant", key=lambda names: names.map(order.index), kind="stable"),
        curves=curves,
        troubles={run: why for run, why in study.troubles.items() if run in own},
        hits={run: hits for run, hits in study.hits.items() if run in own},
    )


def _part_of_tuning(tuned: Tuned, dataset: str, names: Mapping[str, str]) -> Tuned:
    """The tuning of the variants of one dataset. `names`: variant -> its name in the part."""
    kept = [trial for trial in tuned.trials if trial.variant in names]
    return tuned.model_copy(
        update={
            "base": {**tuned.base, DATASET: dataset},
            "variants": {names[variant]: own for variant, own in tuned.variants.items() if variant in names},
            "trials": [trial.model_copy(update={"variant": names[trial.variant]}) for trial in kept],
        }
    )
