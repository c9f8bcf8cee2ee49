"""Two studies as one study of two factors: the study, and the variants that both have."""

from collections.abc import Mapping

import pandas as pd

from analysis.sources.matching import check_same_levels
from analysis.sources.runs_table import RunsTable
from experiments.errors import UserError
from experiments.study import RunSpec, StudyPlan

STUDY, VARIANT = "study", "variant of both"
"""The factors."""


def joined(studies: Mapping[str, RunsTable], command: str) -> RunsTable:
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
    return RunsTable(measured, runs, curves.drop(columns=[STUDY, VARIANT]), stated=plan)
