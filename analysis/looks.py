"""How often a study was looked at, and which seeds its tests may use. A study in, numbers out; no wording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis import stats
from analysis.sources.runs_table import ENDED, RunsTable
from experiments.runs.looks import Look

Values = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class StudyLooks:
    """The looks at a study so far, this one included, and the plan of looks if the study has one.

    With a plan, tests use the seeds of the last planned look that is reached: one for whose seeds all runs have ended.
    Seeds beyond it are not tested before the next planned look, and never after the last one.
    """

    looks: tuple[Look, ...]
    """looks at different numbers of seeds, in order; the last one is this"""
    plan: tuple[int, ...]
    """the planned numbers of seeds; empty without a plan"""
    complete: int
    """how many seeds, in the planned order, have all their runs ended"""
    tests: stats.Looks | None
    """what the tests use; None without a plan, and before the first planned look"""

    @property
    def waiting(self) -> bool:
        """Whether nothing may be tested yet: the first planned look is not reached."""
        return bool(self.plan) and self.tests is None

    @property
    def intervals(self) -> str:
        """How intervals are adjusted, the end of a sentence that begins with "Intervals"."""
        return "are adjusted for the planned looks only" if self.plan else "are not adjusted"

    @property
    def confidence(self) -> float:
        """The confidence level of an interval of differences: 95 %, or that of the planned look."""
        return 0.95 if self.tests is None else 1 - self.tests.level(0.05)

    @property
    def following(self) -> int | None:
        """The next planned look; None where there is none."""
        return next((n for n in self.plan if n > self.complete), None)

    def limit(self, values: Values) -> dict[str, dict[int, float]]:
        """The values (variant -> seed -> value) that may be tested, with NaN for the seeds of a planned look that lack one."""
        if not self.plan:
            return {variant: dict(runs) for variant, runs in values.items()}
        seeds = self.tests.seeds if self.tests else ()
        return {variant: {seed: runs.get(seed, float("nan")) for seed in seeds} for variant, runs in values.items()}

    def may_test(self, seed: int) -> bool:
        """Whether tests may use this seed."""
        return not self.plan or (self.tests is not None and seed in self.tests.seeds)


def study_looks(study: RunsTable) -> StudyLooks:
    """The looks at a study, as its records are now."""
    this = this_look(study)
    metric = [look for look in study.looks if look.metric == this.metric]
    place = next((i for i, look in enumerate(metric) if look.same(this)), len(metric))
    complete = _complete(study)
    reached = max((n for n in study.plan.looks if n <= len(complete)), default=None)
    tests = None if reached is None else stats.Looks(tuple(study.plan.looks), tuple(complete[:reached]))
    return StudyLooks((*metric[:place], this), tuple(study.plan.looks), len(complete), tests)


def this_look(study: RunsTable) -> Look:
    """The look that a report of the study is now."""
    counts = study.of("finished")["variant"].value_counts().reindex(study.variants, fill_value=0)
    return Look.now(map(int, counts), study.metric, "vit-report")


def _complete(study: RunsTable) -> list[int]:
    """The seeds before the first one that has a run left to end, in the planned order."""
    planned = study.runs[study.runs["status"] != "unplanned"]
    left = set(planned.loc[~planned["status"].isin([*ENDED, "unreadable"]), "seed"])
    seeds = list(dict.fromkeys(planned["seed"]))
    first = next((i for i, seed in enumerate(seeds) if seed in left), len(seeds))
    return [int(seed) for seed in seeds[:first]]
