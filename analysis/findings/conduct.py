"""How a study was carried out: which runs count, how often it was looked at, what was changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from analysis import verdicts
from analysis.runs.held_fixed import plan_changes
from analysis.runs.runs import ENDED, Runs
from experiments.errors import UserError, first_few, say
from experiments.metric import Metric
from experiments.runs.history import Look, add_look
from experiments.sections import PER_SEED

STATUSES = ("finished", "diverged", "pruned", "incomplete", "unreadable")
REASONS = {
    "diverged": "diverged (no finite result; excluded from means)",
    "pruned": "pruned (stopped early; excluded from means)",
    "incomplete": "incomplete (not started or not finished{})",
    "unreadable": "unreadable (changed or damaged records; skipped on request)",
    "unplanned": "not in the plan (not used)",
}


@dataclass(frozen=True)
class Conduct:
    """How a study was carried out, by its records."""

    study: Runs

    @cached_property
    def counts(self) -> pd.DataFrame:
        """How many runs there are: a row for each variant, a column for each of `STATUSES`."""
        counts = pd.crosstab(self.study.runs["variant"], self.study.runs["status"])
        return counts.reindex(index=self.study.variants, columns=list(STATUSES), fill_value=0)

    @property
    def finished(self) -> int:
        """The number of runs that finished."""
        return len(self.study.of("finished"))

    @property
    def planned(self) -> int:
        """The number of runs in the plan."""
        return len(self.study.runs) - len(self.study.of("unplanned"))

    @cached_property
    def excluded(self) -> dict[str, list[str]]:
        """A status other than "finished", also "unplanned" -> what its runs are called."""
        paired = self.study.plan.variance != "unpaired"
        runs = {status: _named(self.study.of(status), paired) for status in (*STATUSES[1:], "unplanned")}
        return {status: names for status, names in runs.items() if names}

    @property
    def counted(self) -> str:
        """How many runs finished, and which are not used and why, as text."""
        said = [f"{self.finished} of {self.planned} runs finished."]
        way = "; the sweep's command resumes them" if self.study.recorded else ""
        for status, runs in self.excluded.items():
            said.append(f"{len(runs)} {REASONS[status].format(way)}: {first_few(runs, '; ')}.")
        return " ".join(said)

    @property
    def divergence(self) -> dict[str, verdicts.Estimate]:
        """Variant -> the share of its finished and diverged runs that diverged."""
        lost, kept = self.counts["diverged"].to_numpy(), self.counts["finished"].to_numpy()
        return dict(zip(self.study.variants, verdicts.proportion(lost, lost + kept), strict=True))

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """The recorded looks of the metric at different numbers of seeds, in order; the last one is this."""
        this = this_look(self.study)
        earlier = [look for look in self.study.looks if look.metric == this.metric]
        place = next((i for i, look in enumerate(earlier) if look.same(this)), len(earlier))
        return (*earlier[:place], this)

    @cached_property
    def changes(self) -> dict[str, dict[Any, int]]:
        """A changed field of the plan -> its value when runs started -> how many runs."""
        changes = plan_changes(self.study)
        if self.study.plan.looks and "looks" not in changes:
            changes.pop("seeds", None)  # planned looks allow new seeds
        return changes

    @property
    def split(self) -> Literal["fixed", "by seed", "by seed in some variants"]:
        """How the images are split into those for training and testing."""
        by_seed = [split == PER_SEED for split in self.study.one_run_each().get("data.split_seed", [])]
        return "fixed" if not any(by_seed) else "by seed" if all(by_seed) else "by seed in some variants"

    @property
    def hardware(self) -> list[str]:
        """The names of the devices that runs used."""
        names: list[str] = self.study.of(*ENDED)["hardware"].dropna().unique().tolist()
        return names


def two_scales(values: pd.DataFrame, metric: Metric) -> list[str]:
    """What is said where one variant is within 0 to 1 and another in percent: higher is better, and the mean of the one
    times 100 is within a factor of two of that of the other. `values`: see `Means`.
    """
    if metric.lower_is_better or not metric.is_column:
        return []
    means, most = values.mean()[values.min() >= 0], values.max()
    shares, percents = means[most <= 1], means[(most > 1.5) & (most <= 100)]
    return [
        f"{share} is from 0 to 1 ({a:g}) and {percent} seems to be in percent ({b:g}): write both in one unit."
        for share, a in shares.items()
        for percent, b in percents.items()
        if 50 * a <= b <= 200 * a
    ][:1]


def record_looks(studies: Iterable[Runs]) -> None:
    """Note in each study's folder that its results were seen. A folder that cannot be written is no error."""
    for study in studies:
        try:
            if study.folder and study.recorded:
                add_look(study.folder, this_look(study))
        except UserError as error:
            say(f"vit-report: this look is not recorded: {error}", error=True)


def _named(runs: pd.DataFrame, paired: bool) -> list[str]:
    columns = zip(runs["run"], runs["variant"], runs["seed"])
    return [f"{variant}, {f'seed {seed}' if paired else run}" if variant else run for run, variant, seed in columns]


def this_look(study: Runs) -> Look:
    """The look that a report of the study is now."""
    counts = study.of("finished")["variant"].value_counts().reindex(study.variants, fill_value=0)
    return Look.now(map(int, counts), study.metric, "vit-report")
