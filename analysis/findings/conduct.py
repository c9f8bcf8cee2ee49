"""How a study was carried out: which runs count, how often it was looked at, and what a reader must be warned of."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from analysis import verdicts
from analysis.runs.held_fixed import changed_images, not_held_fixed, plan_changes, unrecorded_plugins
from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED
from analysis.verdicts.study import compare_variants
from experiments.errors import first_few
from experiments.runs.history import Look
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
    """The conduct of a study."""

    study: Runs
    looks: tuple[Look, ...]  # looks at different numbers of seeds, in order; the last one is this
    counts: pd.DataFrame  # a row for each variant, a column for each of `STATUSES`
    planned: int
    finished: int
    excluded: dict[str, list[str]]  # status other than "finished", also "unplanned" -> what its runs are called
    divergence: dict[str, verdicts.Estimate]  # variant -> share of its finished and diverged runs that diverged
    dataset: str  # of the plan's base; "" where it is not stated
    changed_images: list[str]  # variants whose runs used other images than runs with the same settings
    test_copies: int  # most test images of a run that are training images as well; 0 where not recorded
    split: Literal["fixed", "by seed", "by seed in some variants"]  # of images into those for training and testing
    not_fixed: dict[str, list[str]]  # setting that is no factor -> its values, where they differ between runs
    changes: dict[str, dict[Any, int]]  # changed field of the plan -> its value when runs started -> how many runs
    decided: dict[str, int | None] | None  # variant -> seeds that decide it, if any; None: none is stopped
    commits: int
    dirty: bool  # whether a run comes from code with uncommitted changes
    hardware: list[str]  # the names of the devices that runs used
    torch: list[str]  # the versions of PyTorch that runs used
    unrecorded_plugins: list[str]  # the plug-ins of runs without a record of their source, one for each run
    uncommitted_plugin: bool

    @property
    def counted(self) -> str:
        """How many runs finished, and which are not used and why, as text."""
        said = [f"{self.finished} of {self.planned} runs finished."]
        lists = "; --needed lists them" if self.study.planned else ""
        way = "; the sweep's command resumes them" if self.study.recorded else lists
        for status, runs in self.excluded.items():
            said.append(f"{len(runs)} {REASONS[status].format(way)}: {first_few(runs, '; ')}.")
        return " ".join(said)


def study_conduct(study: Runs) -> Conduct:
    """The conduct of a study, as its records are now."""
    ended, finished = study.of(*ENDED), study.of("finished")
    counts = pd.crosstab(study.runs["variant"], study.runs["status"])
    counts = counts.reindex(index=study.variants, columns=list(STATUSES), fill_value=0)
    lost, kept = counts["diverged"].to_numpy(), counts["finished"].to_numpy()
    runs = {
        status: _named(study.of(status), study.plan.variance != "unpaired") for status in (*STATUSES[1:], "unplanned")
    }
    changes = plan_changes(study)
    if study.plan.looks and "looks" not in changes:
        changes.pop("seeds", None)  # planned looks allow new seeds
    return Conduct(
        study=study,
        looks=study_looks(study),
        counts=counts,
        planned=len(study.runs) - len(runs["unplanned"]),
        finished=len(finished),
        excluded={status: names for status, names in runs.items() if names},
        divergence=dict(zip(study.variants, verdicts.proportion(lost, lost + kept), strict=True)),
        dataset=str(study.base.get("data.name") or ""),
        changed_images=changed_images(study),
        test_copies=int(max(ended["test_copies"].fillna(0), default=0)),
        split=_split(study),
        not_fixed=not_held_fixed(study),
        changes=changes,
        decided=_decided(study),
        commits=ended["commit"].nunique(),
        dirty=bool(ended["dirty"].eq(True).any()),
        hardware=ended["hardware"].dropna().unique().tolist(),
        torch=sorted(ended["versions"].str.extract(r"\btorch ([^,]+)")[0].dropna().unique()),
        unrecorded_plugins=list(unrecorded_plugins(study).get("model.pos_embed", [])),
        uncommitted_plugin=bool(ended["plugin_committed"].eq(False).any()),
    )


def _decided(study: Runs) -> dict[str, int | None] | None:
    """By the metric and the baseline of the plan, also in an exploratory report."""
    plan = study.stated_plan
    if plan.until_decided is None:
        return None
    stated = replace(study, plan=plan, stated=None)
    policy, values = stated.for_verdicts()
    compared = compare_variants(values, stated.baseline, policy)
    looks = {label: plan.stopped.get(label, len(policy.looks.seeds)) for label in plan.labels if label != plan.baseline}
    return {**looks, **dict.fromkeys(plan.undecided(compared.undecided))}


def _split(study: Runs) -> Literal["fixed", "by seed", "by seed in some variants"]:
    by_seed = [split == PER_SEED for split in study.one_run_each().get("data.split_seed", [])]
    return "fixed" if not any(by_seed) else "by seed" if all(by_seed) else "by seed in some variants"


def _named(runs: pd.DataFrame, paired: bool) -> list[str]:
    columns = zip(runs["run"], runs["variant"], runs["seed"])
    return [f"{variant}, {f'seed {seed}' if paired else run}" if variant else run for run, variant, seed in columns]


def this_look(study: Runs) -> Look:
    """The look that a report of the study is now."""
    counts = study.of("finished")["variant"].value_counts().reindex(study.variants, fill_value=0)
    return Look.now(map(int, counts), study.metric, "vit-report")


def study_looks(study: Runs) -> tuple[Look, ...]:
    """The recorded looks of the metric before this one, and this one."""
    this = this_look(study)
    earlier = [look for look in study.looks if look.metric == this.metric]
    place = next((i for i, look in enumerate(earlier) if look.same(this)), len(earlier))
    return (*earlier[:place], this)
