"""How the verdicts of a study are reached, and what its runs have reached. The only reading of a study for them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.runs.runs import ENDED, Runs
from analysis.verdicts import Looks, Rule
from experiments.catalogue import DATASETS
from experiments.compared import MOST_PAIRS
from experiments.metric import Metric
from experiments.sections import OTHER_CLASSES

DATA = ["data.name", "data.classes", "data.num_classes"]  # the settings that say how many classes there are
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
        ceiling=_ceiling(study, metric),
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


def _ceiling(study: Runs, metric: Metric) -> float:
    """The accuracy of a run that errs on one image of the metric's split; 1 where their number is not recorded."""
    sizes: Any = study.of("finished").get(f"{metric.partition('/')[0]}_images", pd.Series(dtype=float)).dropna()
    one_image = 1 / float(sizes.min()) if len(sizes) and sizes.min() > 0 else 0.0
    return 1 - 1.0000001 * one_image if metric.is_share else np.inf


def chance_level(row: Mapping[str, Any], metric: Metric) -> float | None:
    """What guessing reaches on the images of a run: an accuracy of 1 / k for k classes, a cross-entropy of log k.

    `row`: its settings by dotted path. A few-shot metric names its dataset; every other metric is about a run's own
    data. None where the classes are not known, and for consistency under shifts, which has no such level.
    """
    if metric.is_consistency or not (metric.is_share or metric.is_loss) or not (classes := _classes(row, metric)):
        return None
    return 1 / classes if metric.is_share else math.log(classes)


def _classes(row: Mapping[str, Any], metric: Metric) -> int:
    """The number of classes that are guessed among; 0 where it is not known."""
    own, chosen = row.get("data.name"), row.get("data.classes")
    name, trained = metric.fewshot_dataset or own, len(str(chosen).split(",")) if chosen else 0
    if trained and name == own:
        return trained
    dataset = DATASETS.get(str(own if name == OTHER_CLASSES else name))
    classes = (dataset and dataset.num_classes) or row.get("data.num_classes")
    if classes is None or classes != classes:
        return 0
    return int(classes) - trained * (name == OTHER_CLASSES)
