"""How two studies differ: the same variants at two commits, two scales or two datasets."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from analysis import stats
from analysis.answers.study_results import StudyResults
from analysis.results.policy import Values
from analysis.sources.matching import check_same_levels, differing_settings
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.stats.comparisons import PairedComparison, Rule, near_chance, with_diverged
from experiments.errors import UserError

Side = tuple[Values, Values]
"""the values of study A and those of study B"""


@dataclass(frozen=True)
class TwoStudies:
    """How the variants of both studies A and B changed. Of verdicts on B - A, "better" is higher, for every metric."""

    a: StudyResults
    b: StudyResults
    changes: dict[str, PairedComparison]
    """variant of both studies, in A's order -> B - A of the metric, paired by seed; the variants are the family"""
    shifts: dict[str, PairedComparison]
    """variant that is no baseline -> B - A of its difference from the baseline.

    Two verdicts that differ do not show that the differences do: Gelman and Stern, The American Statistician 60 (2006),
    328-331.
    """
    settings: list[tuple[str, str, str]]
    """the settings that differ: path, value in A, value in B"""
    identical: list[str]
    """the variants whose runs have the same seeds, status and metrics in both"""
    labels: Sequence[str] = "AB"

    @property
    def sides(self) -> dict[str, StudyResults]:
        """What the report calls a study -> the study."""
        return dict(zip(self.labels, (self.a, self.b), strict=True))

    @property
    def identical_shifts(self) -> list[str]:
        """The variants whose difference from the baseline is identical."""
        baselines = {self.a.study.baseline, self.b.study.baseline}
        return [v for v in self.shifts if baselines <= {*self.identical} and v in self.identical]

    @property
    def other_verdicts(self) -> list[tuple[str, str, str]]:
        """Variant, verdict against the baseline in A and in B, where these differ."""
        both = [(v, *(side.comparisons.versus[v].stable for side in (self.a, self.b))) for v in self.shifts]
        return [(variant, before, now) for variant, before, now in both if before != now]

    @property
    def depending(self) -> list[str]:
        """The variants of which a verdict depends on diverged runs."""
        changes = [self.changes, self.shifts]
        return [v for v in self.changes if any(v in of and of[v].depends_on_diverged for of in changes)]


def compare_studies(a: StudyResults, b: StudyResults, labels: Sequence[str] = "AB") -> TwoStudies:
    """Compare the variants that both studies have, by A's margin, for one look. `labels`: what the report calls the studies.

    Raises `UserError` where the studies share no variant, have different metrics, or use a name for different variants.
    """
    one, two = a.study, b.study
    if one.metric != two.metric:
        raise UserError(f"compare: {one.name} measures {one.metric}, {two.name} measures {two.metric}")
    shared = [variant for variant in one.variants if variant in two.variants]
    if not shared:
        raise UserError(f"compare: {one.name} and {two.name} share no variant")
    check_same_levels("compare", one, two, shared)
    baselines = {one.baseline, two.baseline}
    others = [variant for variant in shared if variant not in baselines]
    finished = a.means.values, b.means.values
    counted = a.policy.count_diverged(finished[0]), b.policy.count_diverged(finished[1])
    unknown = a.policy.unknown_chance | b.policy.unknown_chance
    floor = math.hypot(a.policy.floor, b.policy.floor)
    rule = Rule(one.margin, floor=floor, families=2, variance="paired")

    def to_baseline(values: Side) -> Side:
        return _minus(values[0], one.baseline), _minus(values[1], two.baseline)

    near_a, near_b = a.policy.near_chance(finished[0]), b.policy.near_chance(finished[1])
    changes = near_chance(_changes(shared, finished, counted, rule, unknown), near_a & near_b)
    rule = replace(rule, floor=stats.floor_of_difference(floor))
    depending = others if unknown & baselines else unknown
    shifts = _changes(others, to_baseline(finished), to_baseline(counted), rule, depending)
    same = [variant for variant in shared if _results(one, variant) == _results(two, variant) != ""]
    near = near_a & near_b if one.baseline in near_a and two.baseline in near_b else ()
    return TwoStudies(a, b, changes, near_chance(shifts, near), differing_settings(one, two, shared), same, labels)


def _results(study: RunsTable, variant: str) -> str:
    """What the ended runs of a variant have reached, as text; empty where none has ended."""
    runs = study.of(*ENDED)
    runs = runs.loc[runs["variant"] == variant, ["seed", "status", *study.metrics]].sort_values("seed")
    return "" if runs.empty else runs.to_csv(index=False)


def outcome(change: PairedComparison) -> str:
    """What B is, compared with A."""
    return {"better": "higher", "worse": "lower"}.get(change.verdict, change.verdict)


def _minus(values: Values, baseline: str) -> Values:
    """variant -> seed -> its value minus the baseline's on the same seed."""
    base = values[baseline]
    return {
        variant: {seed: value - base[seed] for seed, value in runs.items() if seed in base}
        for variant, runs in values.items()
    }


def _changes(
    variants: list[str], finished: Side, counted: Side, rule: Rule, unknown: Collection[str]
) -> dict[str, PairedComparison]:
    """B - A for each variant, with its verdict where diverged runs count; "not enough evidence" where that is `unknown`."""

    def compared(values: Side) -> dict[str, PairedComparison]:
        sides = {f"{name} {variant}": runs[variant] for name, runs in zip("AB", values) for variant in variants}
        pairs = stats.compare(sides, [(f"B {variant}", f"A {variant}") for variant in variants], rule)
        return dict(zip(variants, pairs.values()))

    return with_diverged(compared(finished), compared(counted), unknown)
