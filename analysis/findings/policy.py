"""How the verdicts of a study are reached, and what its runs have reached. The only reading of a study for them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.findings.chance import DATA, chance_level
from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED
from analysis.verdicts import Looks, Rule
from experiments.compared import MOST_PAIRS
from experiments.metric import Metric

FAILED = ("diverged", "pruned")


@dataclass(frozen=True, kw_only=True)
class Policy(Rule):
    """How verdicts of a study are reached."""

    metric: Metric


@dataclass(frozen=True)
class Outcomes:
    """What runs have reached: frames with a row for each seed, or number of an unpaired run, a column for each variant.

    `values`: the study's metric, NaN without a result. `ended` and `failed`: whether a run has ended, and whether it
    diverged or was pruned; such a run counts as `chance` (variants,), the metric of guessing, NaN where it is unknown.
    """

    values: pd.DataFrame
    ended: pd.DataFrame
    failed: pd.DataFrame
    chance: pd.Series

    def at(self, looks: Looks) -> "Outcomes":
        """Those that may be tested: with planned looks, the seeds of the look that is reached, in its order."""
        if not looks:
            return self
        seeds = list(looks.seeds)
        ended = pd.DataFrame(True, seeds, self.ended.columns)
        return replace(self, values=self.values.reindex(seeds), ended=ended, failed=self.failed.loc[seeds])

    @property
    def has_failed(self) -> bool:
        """Whether some run has failed."""
        return bool(self.failed.any(axis=None))

    @property
    def chance_unknown(self) -> bool:
        """Whether a failed run has no chance level, so that nothing is shown of variants with failed runs."""
        return bool(self.chance[self.failed.any()].isna().any())

    @property
    def counted(self) -> pd.DataFrame:
        """The values, where failed runs count at chance level."""
        return self.values.where(~self.failed, self.chance, axis=1)

    def near_chance(self, policy: Policy) -> Collection[str]:
        """The variants with a mean near guessing: at most the margin or, for an accuracy c, c (1 - c) / 4 away."""
        room = (self.chance * (1 - self.chance) / 4 * policy.metric.is_share).clip(lower=policy.margin or 0.0)
        return list(self.chance.index[(self.values.mean() - self.chance).abs() <= room])


def study_policy(study: Runs, datasets: int = 1) -> tuple[Policy, Outcomes]:
    """How the verdicts of a study are reached, one of so many `datasets`, and what its runs have reached."""
    plan, metric = study.plan, study.plan.compared_by
    runs = study.runs[study.runs["status"] != "unplanned"]
    ended = runs[runs["status"].isin(ENDED)]
    variants, seeds = list(dict.fromkeys(runs["variant"])), list(dict.fromkeys(ended["seed"]))
    status, values = (
        ended.pivot(index="seed", columns="variant", values=name).reindex(index=seeds, columns=variants)
        for name in ("status", metric)
    )
    values = values.astype(float).where(np.isfinite(values) & (status == "finished"))
    first = ended.drop_duplicates("variant").set_index("variant").reindex(columns=DATA).to_dict("index")
    chance = pd.Series({name: chance_level(row, metric) for name, row in first.items()}, variants, dtype=float)
    policy = Policy(
        metric=metric,
        margin=study.margin,
        lower_is_better=metric.lower_is_better,
        ceiling=1 - 1.0000001 * _one_image(study, metric) if metric.is_share else np.inf,
        looks=Looks(tuple(plan.looks), _complete(runs)),
        variance=plan.variance,
        family="baseline" if len(variants) > MOST_PAIRS else plan.family,
        has_grid=plan.has_grid,
        datasets=datasets,
    )
    return policy, Outcomes(values, status.notna(), status.isin(FAILED), chance)


def _complete(runs: pd.DataFrame) -> tuple[int, ...]:
    """The seeds before the first one that has a run left to end, in the planned order."""
    left = set(runs.loc[~runs["status"].isin([*ENDED, "unreadable"]), "seed"])
    seeds = list(dict.fromkeys(runs["seed"]))
    first = next((i for i, seed in enumerate(seeds) if seed in left), len(seeds))
    return tuple(map(int, seeds[:first]))


def _one_image(study: Runs, metric: Metric) -> float:
    """The share of one image of the metric's split; 0 where the size is not recorded."""
    sizes: Any = study.of("finished").get(f"{metric.partition('/')[0]}_images", pd.Series(dtype=float)).dropna()
    return 1 / float(sizes.min()) if len(sizes) and sizes.min() > 0 else 0.0
