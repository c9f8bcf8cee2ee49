"""`Findings`: what every question of a report starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis.figures.drawing import Styles, styles_of
from analysis.findings.comparisons import Comparisons, compare_variants
from analysis.findings.conduct import Conduct
from analysis.findings.factors import Factors, study_factors
from analysis.findings.means import Means, study_means
from analysis.findings.policy import Outcomes, Policy, study_policy
from analysis.findings.rows import PairRow, VariantRow, variant_rows
from analysis.findings.variants import Variants, own_names, study_variants
from analysis.options import ReportOptions
from analysis.runs.by_dataset import check_alike
from analysis.runs.runs import ENDED, Runs
from analysis.words import checked_math, without_math
from experiments.errors import UserError
from vit.registry import nearest

SIZES = ("params", "params_fixed", "flops_per_image", "peak_memory_bytes")
TIMES = ("device_seconds", "images_per_second")
NOTHING_ASKED = ReportOptions()


@dataclass(frozen=True)
class Findings:
    """The names, means and comparisons of one study, and how its verdicts are reached; made once for all questions."""

    study: Runs
    policy: Policy
    variants: Variants
    outcomes: Outcomes
    means: Means
    comparisons: Comparisons
    options: ReportOptions = NOTHING_ASKED
    dataset: str = ""  # what a report on several calls it

    @cached_property
    def rows(self) -> list[VariantRow]:
        """A row for each variant, in the plan's order."""
        return variant_rows(self.dataset, self.variants, self.means, self.comparisons, self.cost)

    @cached_property
    def by_mean(self) -> list[VariantRow]:
        """The same, the best mean first; those without a mean last."""
        sign = 1 if self.means.metric.lower_is_better else -1
        return sorted(self.rows, key=lambda row: (not row.mean.n, sign * row.mean.value if row.mean.n else 0.0))

    @cached_property
    def pairs(self) -> list[PairRow]:
        """A row for each pair that is tested."""
        of = {row.variant: row for row in self.rows}
        return [PairRow(of[a], of[b], compared) for (a, b), compared in self.comparisons.family.items()]

    @property
    def counted(self) -> str:
        """What runs of a variant are counted by: seeds, the name of the column that takes their place, or runs."""
        return self.study.plan.names.get("seed", "seed") if self.policy.unit == "seed" else self.policy.unit

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run. The numbers of unpaired runs are left out, so that nobody pairs runs by them."""
        return self.study.runs.drop(columns=(["seed"] if self.policy.unit == "run" else []))

    @property
    def all_best(self) -> list[str]:
        """The variants with the best mean of those that are tested; several where they are equal."""
        return [row.variant for row in self.rows if row.mark == "best"]

    @cached_property
    def conduct(self) -> Conduct:
        """How the study was carried out."""
        return Conduct(self.study)

    @cached_property
    def factors(self) -> Factors:
        """The effects of the factors, where there are several."""
        return study_factors(self.study, self.outcomes, self.policy)

    @cached_property
    def cost(self) -> pd.DataFrame:
        """What each variant costs, see `study_cost`."""
        return study_cost(self.study)

    @property
    def as_typed(self) -> Findings:
        """The same with the variants' names as typed, for figures and LaTeX."""
        return replace(self, variants=replace(self.variants, brief=self.variants.typed))

    @cached_property
    def styles(self) -> Styles:
        """How figures name and draw the variants."""
        means = {variant: mean.value for variant, mean in self.means.of_variants.items() if mean.n}
        return styles_of(self.variants.typed, self.variants.baseline, means)


def analyze(study: Runs, options: ReportOptions = NOTHING_ASKED) -> Findings:
    """The findings of one study, see `analyze_each`."""
    (findings,) = analyze_each({"": study}, options).values()
    return findings


def analyze_each(
    studies: Mapping[str, Runs], options: ReportOptions = NOTHING_ASKED, datasets: int = 0
) -> dict[str, Findings]:
    """Dataset -> the findings of its study; the pairs of all datasets together are one family.

    `datasets`: how many share the level, if these are a part of them. Raises `UserError`, see `check_alike`, where no
    run has ended, and naming what is to be renamed and is no variant, metric or dataset.
    """
    check_alike(studies)
    variants = [name for study in studies.values() for name in own_names(study)]
    names = _new_names(options.rename, [*variants, *(str(study.metric) for study in studies.values()), *studies])
    shown = {name: without_math(names[name]) if name in names and name not in variants else name for name in studies}
    if len({*shown.values()}) < len(shown):
        raise UserError(f"--rename: two datasets would have the same name: {', '.join(shown.values())}")
    return {
        shown[name]: _findings(study, options, datasets or len(studies), name, names) for name, study in studies.items()
    }


def _findings(study: Runs, options: ReportOptions, datasets: int, dataset: str, names: Mapping[str, str]) -> Findings:
    if study.of(*ENDED).empty:
        raise UserError(f"{study.name}: no run has finished yet; there is nothing to report")
    if study.metric in names:
        of_metric = {str(study.metric): without_math(names[study.metric])}
        study = replace(study, plan=study.plan.changed(names={**study.plan.names, **of_metric}))
    (policy, outcomes), variants = study_policy(study, datasets), study_variants(study, names)
    comparisons = compare_variants(outcomes, variants.baseline, policy)
    means = study_means(study, outcomes.values)
    return Findings(study, policy, variants, outcomes, means, comparisons, options, dataset)


def _new_names(renamed: Sequence[str], old_names: Sequence[str]) -> dict[str, str]:
    """Old name -> new name. Of OLD=NEW, OLD is the longest known name before a "=". Raises `UserError`."""
    names = {}
    for text in renamed:
        olds = [name for name in old_names if text.startswith(f"{name}=") and text[len(name) + 1 :].strip()]
        if not olds:
            listed = nearest(text.rpartition("=")[0], list(dict.fromkeys(old_names)))
            raise UserError(f"--rename: {text!r} begins with no variant, metric or dataset; {listed}")
        old = max(olds, key=len)
        names[old] = checked_math(text[len(old) + 1 :], "rename")
    return names


def study_cost(study: Runs) -> pd.DataFrame:
    """A row for each variant: `SIZES`, `TIMES`, `device_seconds_ratio` and `slowest`.

    Sizes are the variant's (the largest, should its runs differ); times are medians over its runs, diverged ones too:
    one run beside which the machine had other work must not make a variant slow. `device_seconds_ratio` is the median,
    over the seeds that were trained on the same hardware as the baseline's run, of the ratio to it; `slowest` the
    longest run over the median of its variant's on its hardware.
    """
    ended = study.of(*ENDED)
    grouped = ended.groupby("variant", sort=False)
    seconds = ended.set_index(["seed", "hardware"])["device_seconds"]
    alike = seconds[(ended["variant"] == study.baseline).to_numpy()]
    alike = alike[~alike.index.duplicated()]
    ratio = pd.Series(seconds.to_numpy() / alike.reindex(seconds.index).to_numpy(), index=ended.index)
    usual = ended.groupby(["variant", "hardware"], dropna=False)["device_seconds"].transform("median")
    beside = pd.DataFrame({"device_seconds_ratio": ratio, "slowest": ended["device_seconds"] / usual})
    beside = beside.groupby(ended["variant"], sort=False).agg({"device_seconds_ratio": "median", "slowest": "max"})
    table = pd.concat([grouped[list(SIZES)].max(), grouped[list(TIMES)].median(), beside], axis=1)
    return table.reindex(study.variants)
