"""Several studies: whether their variants are the same, what else differs, and two studies as one of two factors."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import pandas as pd

from analysis.runs.by_dataset import DATASET, datasets_of
from analysis.runs.runs import Runs
from analysis.runs.settings import level_text
from analysis.runs.source_run import IMAGES
from experiments.config import LOCATIONS, locations
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError
from experiments.study import RunSpec, StudyPlan

STUDY, VARIANT = "study", "variant of both"  # the factors


def joined(studies: Mapping[str, Runs], command: str) -> Runs:
    """The runs of the variants and seeds that both studies have. `studies`: two, by what the report calls them.

    Margin and baseline are those of the first. Looks that a study plans are for its own tests. Raises `UserError` where
    the studies share no variant or no seed, have different metrics or datasets, or use a name for different variants.
    """
    (first, one), (second, other) = studies.items()
    if one.metric != other.metric:
        raise UserError(f"compare: {one.name} measures {one.metric}, {other.name} measures {other.metric}")
    variants = [variant for variant in one.variants if variant in other.variants]
    seeds = sorted({*one.plan.seeds} & {*other.plan.seeds})
    if not variants:
        raise UserError(f"compare: {one.name} and {other.name} share no variant")
    if not seeds:
        has = " and ".join(", ".join(map(str, study.plan.seeds)) for study in (one, other))
        raise UserError(f"compare: {one.name} and {other.name} share no seed: they have {has[:200]}")
    data = [study.base.get("data.name") for study in (one, other)]
    if None not in data and data[0] != data[1]:
        advice = "one report over several datasets: vit-report across"
        raise UserError(f"compare: {one.name} is on {data[0]}, {other.name} on {data[1]}; {advice}")
    check_same_levels("compare", one, other, variants)

    def part(label: str, frame: pd.DataFrame) -> pd.DataFrame:
        kept = frame[frame["variant"].isin(variants) & frame["seed"].isin(seeds)]
        levels = pd.DataFrame({STUDY: label, VARIANT: kept["variant"]}, index=kept.index)
        named = {name: f"{label}: " + kept[name] for name in ("run", "variant")}
        return pd.concat([kept.assign(**named), levels], axis=1)

    runs = pd.concat([part(label, study.runs) for label, study in studies.items()], ignore_index=True)
    curves = pd.concat([part(label, study.curves) for label, study in studies.items()], ignore_index=True)
    plan = StudyPlan(
        name=f"{one.name} ({first}) and {other.name} ({second})",
        factors={STUDY: [*studies], VARIANT: variants},
        baseline=f"{first}: {one.baseline if one.baseline in variants else variants[0]}",
        metric=one.stated_plan.metric,
        margin=one.plan.margin,
        variance="paired",  # two runs of one seed can differ by much less than the runs of two seeds
        seeds=seeds,
        base={},
        runs=[
            RunSpec(name=name, run_id="", variant=variant, seed=seed)
            for name, variant, seed in zip(runs["run"], runs["variant"], runs["seed"])
        ],
        command=command,
        study={"names": {VARIANT: "variant"}},
        source="compare",
    )
    measured = plan.model_copy(update={"metric": one.metric})
    return Runs(measured, runs, curves.drop(columns=[STUDY, VARIANT]), stated=plan)


def check_alike(studies: Sequence[Runs]) -> None:
    """Raise `UserError` where a study differs from the first one in its metric, variants or baseline."""
    one = studies[0]
    for other in studies[1:]:
        both = f"across: {one.name} ({datasets_of(one)[0]}) and {other.name} ({datasets_of(other)[0]})"
        if one.metric != other.metric:
            raise UserError(f"{both} have different metrics: {one.metric} and {other.metric}")
        for a, b in ((one, other), (other, one)):
            if only := [variant for variant in a.variants if variant not in b.variants]:
                named = ", ".join(map(repr, only[:6])) + f" and {len(only) - 6} more" * (len(only) > 6)
                raise UserError(f"{both} have different variants: {named} only on {datasets_of(a)[0]}")
        if one.baseline != other.baseline:
            raise UserError(f"{both} have different baselines: {one.baseline!r} and {other.baseline!r}")
        check_same_levels("across", one, other, one.variants, ignored=(DATASET,))


def check_same_levels(
    command: str, one: Runs, other: Runs, variants: Iterable[str], ignored: Collection[str] = ()
) -> None:
    """Raise `UserError`, for `command`, where a variant has another level of a factor in one study than in the other.

    `ignored`: settings that may differ. A setting that is not recorded is not compared.
    """
    for variant in variants:
        levels = [_settings(study, variant) for study in (one, other)]
        for path in dict.fromkeys([*one.varied, *other.varied]):
            if path not in ignored and all(path in own for own in levels) and levels[0][path] != levels[1][path]:
                raise UserError(
                    f"{command}: the variant {variant!r} has {path} = {levels[0][path]} in one study ({one.name}) and "
                    f"{levels[1][path]} in the other ({other.name}); variants are matched by their names, so these "
                    "studies cannot be compared"
                )


def differing_settings(one: Runs, other: Runs, variants: Iterable[str]) -> list[tuple[str, str, str]]:
    """What differs for a variant of both studies besides the factors: (path, values in `one`, values in `other`).

    These are settings, the numbers of images and the digest of their files. What is not recorded is not compared.
    """
    names = {name for study in (one, other) for name in datasets_of(study)} & DATASETS.keys()
    places = {"seed"} | set(LOCATIONS).intersection(*map(locations, names))  # where files are is no difference
    differing: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for variant in variants:
        a, b = (_settings(study, variant) for study in (one, other))
        for path in a:
            if path in b and path not in {*one.varied, *other.varied, *places} and a[path] != b[path]:
                values = differing.setdefault(path, ({}, {}))
                values[0][a[path]] = values[1][b[path]] = None
    return [(path, ", ".join(a), ", ".join(b)) for path, (a, b) in differing.items()]


def _settings(study: Runs, variant: str) -> dict[str, str]:
    """The recorded settings and images of a variant as text; one that differs between its runs is left out."""
    runs = study.runs[study.runs["variant"] == variant]
    paths = [path for path in runs if "." in str(path) or path in (*IMAGES, "image_files")]
    texts = {str(path): {level_text(cell) for cell in runs[path].dropna()} for path in paths}
    return {path: values.pop() for path, values in texts.items() if len(values) == 1}
