"""Two studies compared: the same variants at two commits, two scales or two datasets. Results in, statistics out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from analysis import stats
from analysis.results.policy import ALPHA
from analysis.results.study_results import StudyResults
from analysis.sources.matching import check_same_levels
from analysis.sources.runs_table import RunsTable
from analysis.stats.comparisons import Rule, Values, paired, verdicts
from experiments.errors import UserError

Word = Literal["higher", "lower", "equivalent", "not enough evidence"]
WORDS: dict[float, Word] = {1.0: "higher", -1.0: "lower", 0.0: "equivalent"}
OPEN: Word = "not enough evidence"


@dataclass(frozen=True)
class Change:
    """A variant of both studies: B - A, paired by seed, and whether B is higher, lower or equivalent."""

    variant: str
    diff: stats.Estimate
    dropped: int
    """seeds that only one side has, or on which a side diverged"""
    p_holm: float
    word: Word
    depends_on_diverged: bool
    """whether the word changes if diverged runs count at chance level"""


@dataclass(frozen=True)
class TwoStudies:
    """Studies A and B, and how the variants of both changed."""

    a: StudyResults
    b: StudyResults
    shared: list[str]
    """the variants of both studies, in A's order"""
    changes: list[Change]
    """B - A of the metric for each shared variant; the variants are the family of Holm's adjustment"""
    shifts: list[Change]
    """B - A of the difference to the baseline, for each shared variant that is no baseline.

    Two verdicts that differ do not show that the differences do: Gelman and Stern, The American Statistician 60 (2006),
    328-331.
    """


def compare_studies(a: StudyResults, b: StudyResults) -> TwoStudies:
    """Compare the variants that both studies have.

    Raises `UserError` where the studies share no variant, have different metrics, or use a name for different variants.
    """
    if a.study.metric != b.study.metric:
        raise UserError(
            f"compare: {a.study.name} measures {a.study.metric}, {b.study.name} measures {b.study.metric}; they "
            "cannot be compared"
        )
    shared = [variant for variant in a.variants.names if variant in b.variants.names]
    if not shared:
        raise UserError(f"compare: {a.study.name} and {b.study.name} share no variant")
    check_same_levels("compare", a.study, b.study, shared)
    others = [variant for variant in shared if variant not in (a.study.baseline, b.study.baseline)]
    floor = math.hypot(a.policy.floor, b.policy.floor)
    rule, rule_of_shifts = (Rule(a.study.margin, ALPHA, floor=each) for each in (floor, math.sqrt(2) * floor))
    unknown = a.policy.unknown_chance | b.policy.unknown_chance
    counted_a, counted_b = (results.policy.count_diverged(results.values) for results in (a, b))
    sides = ((a.values, b.values), (counted_a, counted_b))
    finished, counted = (_changes({v: x[v] for v in shared}, {v: y[v] for v in shared}, rule) for x, y in sides)
    changes = _marked(finished, counted, unknown)
    shifts: list[Change] = []
    if others:
        finished, counted = (
            _changes(_to_baseline(a.study, x, others), _to_baseline(b.study, y, others), rule_of_shifts)
            for x, y in sides
        )
        shifts = _marked(finished, counted, set(others) if unknown & {a.study.baseline, b.study.baseline} else unknown)
    return TwoStudies(a, b, shared, changes, shifts)


def _marked(changes: list[Change], counted: list[Change], unknown: set[str]) -> list[Change]:
    """The changes, each with whether counting diverged runs gives another word, or is not possible."""
    return [
        replace(one, depends_on_diverged=one.word != other.word or (one.variant in unknown and one.word != OPEN))
        for one, other in zip(changes, counted, strict=True)
    ]


def _to_baseline(study: RunsTable, values: Values, variants: list[str]) -> Values:
    """variant -> seed -> its value minus the baseline's on the same seed."""
    base = values[study.baseline]
    return {
        variant: {seed: value - base[seed] for seed, value in values[variant].items() if seed in base}
        for variant in variants
    }


def _changes(a: Values, b: Values, rule: Rule) -> list[Change]:
    """B - A for each variant, paired by seed."""
    values = {("A", variant): runs for variant, runs in a.items()}
    values |= {("B", variant): runs for variant, runs in b.items()}
    later, earlier, dropped = paired(values, [(("B", variant), ("A", variant)) for variant in a])
    diffs = later - earlier
    p_holm, _, signs = verdicts(diffs, rule)
    return [
        Change(variant, stats.mean(row, floor=rule.floor), int(lost), float(p), WORDS.get(float(sign), OPEN), False)
        for variant, row, lost, p, sign in zip(a, diffs, dropped, p_holm, signs)
    ]
