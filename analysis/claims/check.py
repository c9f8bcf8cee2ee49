"""What a study's runs say about published claims. No I/O and no wording.

A claim holds where each of its hypotheses holds (for example one for each pair of variants). So "holds here" takes a
test of each hypothesis at the same level (an intersection-union test: Berger, Technometrics 24 (1982), 295-300). One
false hypothesis contradicts a claim, so for "does not hold here" the tests are Holm-adjusted over its hypotheses. Of
these two outcomes at most one is false, so both are then adjusted over the claims as one family (`holm_exclusive`): all
false outcomes of a study together occur in at most `ALPHA` of all studies. Every other claim is "undecided here". A
claim that the study cannot decide (`Claim.obstacle`) is "not comparable" and not in the family. A claim that makes no
hypothesis about a study is left out.

Runs that diverged have no final value. A claim is decided only if the outcome is the same where diverged runs count as
runs at chance level.

Claims are checked at the study's own scale, which is rarely that of the source: "does not hold here" concerns the
statement as a rule, not the source's measurement.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.claims.claim import Claim, Hypothesis
from analysis.stats.comparisons import Decided, Rule, Values, holm, holm_exclusive, with_diverged
from analysis.stats.estimates import ALPHA, Estimate
from analysis.stats.looks import Looks
from experiments.metric import PERMUTED, Metric
from experiments.study import StudyPlan

Outcome = Literal["holds here", "does not hold here", "undecided here", "not comparable"]


@dataclass(frozen=True, kw_only=True)
class ClaimResult(Decided):
    """What a study says about a claim. `decisive` and `hits` are about the verdict of the finished runs."""

    claim: Claim
    verdict: Outcome
    hypotheses: tuple[Hypothesis, ...]
    decisive: Hypothesis
    """of the hypotheses that stand as the outcome says, the one with the weakest support"""
    estimate: Estimate
    """the mean difference of the decisive hypothesis with the interval of one-sided tests at `ALPHA`"""
    adjusted: Estimate
    """the same with an interval at the level that the adjusted tests leave, so it agrees with the verdict"""
    average: Estimate
    """the mean difference over all hypotheses, with the mean of their intervals at `LEVEL`"""
    hits: int
    """how many hypotheses stand as the outcome says: shown, contradicted or open"""
    p_for: float
    """that the claim is false, and `p_against` that it is true; adjusted over its own hypotheses only"""
    p_against: float
    obstacle: str = ""
    """why the study cannot decide the claim"""

    @property
    def outcome(self) -> Outcome:
        """The verdict, unless it depends on diverged runs."""
        return "undecided here" if self.depends_on_diverged else self.verdict

    @property
    def n(self) -> int:
        """Seeds behind the hypothesis with the fewest."""
        return min(hypothesis.moments[2] for hypothesis in self.hypotheses)


def check(
    claims: Iterable[Claim], study: StudyPlan, values: Values, rule: Rule, at_chance: Values | None = None
) -> list[ClaimResult]:
    """Check each claim that makes a hypothesis about the study, with the rule's margin, floor, looks and variance.

    `at_chance` are the values where diverged runs count as runs at chance level; None where no run diverged.
    Of claims with the same hypotheses that are all comparable, or all not, the first one counts. All claims are about
    accuracies (`Metric.is_accuracy`, or with permuted patches): a study of another metric yields none. Nor does one of
    validation images, which makes a choice.
    """
    metric = Metric(study.metric)
    if metric != PERMUTED and (not Metric(metric.base).is_accuracy or metric.startswith("val/")):
        return []
    images = "permuted" if metric == PERMUTED else "larger" if metric.img_size is not None else "trained"
    claims = [claim for claim in claims if claim.images == images]
    distinct: dict[tuple, tuple[Claim, list[Hypothesis]]] = {}
    for claim in claims:
        if hypotheses := claim.hypotheses(study, values, rule):
            key = type(claim), claim.incomparable, frozenset((h.variants, h.relation, h.bound) for h in hypotheses)
            distinct.setdefault(key, (claim, hypotheses))
    made = {claim: hypotheses for claim, hypotheses in distinct.values()}
    obstacles = {claim: claim.obstacle(hypotheses, study, values, rule) for claim, hypotheses in made.items()}
    testable = [(claim, hypotheses) for claim, hypotheses in made.items() if not obstacles[claim]]
    results = {result.claim: result for result in _judge(testable, rule.looks)}
    if at_chance is not None:
        counted = [(claim, claim.hypotheses(study, at_chance, rule)) for claim, _ in testable]
        results = with_diverged(results, {result.claim: result for result in _judge(counted, rule.looks)})
    left = [(claim, hypotheses) for claim, hypotheses in made.items() if obstacles[claim]]
    for result in _judge(left, rule.looks):  # for its numbers; its verdict is replaced
        obstacle = obstacles[result.claim]
        results[result.claim] = replace(result, verdict="not comparable", obstacle=obstacle)
    return [results[claim] for claim in made]


def _judge(claims: list[tuple[Claim, list[Hypothesis]]], looks: Looks) -> list[ClaimResult]:
    """Decide each claim; all are one family."""
    p_for = [np.array([hypothesis.p_for(looks) for hypothesis in hypotheses]) for _, hypotheses in claims]
    alone = [np.array([hypothesis.p_against(looks) for hypothesis in hypotheses]) for _, hypotheses in claims]
    p_against = [holm(p) for p in alone]
    largest = [np.nan_to_num(p, nan=1.0).max() if np.isfinite(p).any() else np.nan for p in p_for]
    smallest = [np.nanmin(p) if np.isfinite(p).any() else np.nan for p in p_against]
    adjusted = zip(*holm_exclusive(largest, smallest))
    results = []
    for i, ((claim, hypotheses), (p, q)) in enumerate(zip(claims, adjusted, strict=True)):
        # what the adjustment over the claims does to a claim's p, it does to the p of each of its hypotheses
        holds, fails = (_factor(first, last, len(claims)) for first, last in ((largest[i], p), (smallest[i], q)))
        shown, failed = p_for[i] * holds <= ALPHA, p_against[i] * fails <= ALPHA
        outcome: Outcome = "does not hold here" if failed.any() else "holds here" if shown.all() else "undecided here"
        pick = failed if failed.any() else shown if shown.all() else ~shown
        at = min(np.flatnonzero(pick), key=lambda k: hypotheses[k].support(ALPHA))
        decisive, own = hypotheses[at], looks.of(hypotheses[at].variants)
        fails *= _factor(alone[i][at], p_against[i][at], len(hypotheses))
        factor = fails if failed.any() else holds if shown.all() else max(holds, fails)
        results.append(
            ClaimResult(
                claim=claim,
                verdict=outcome,
                hypotheses=tuple(hypotheses),
                decisive=decisive,
                estimate=decisive.estimate(own.level()),
                adjusted=decisive.estimate(own.level(ALPHA / factor)),
                average=_average([one.estimate(looks.of(one.variants).level() / 2) for one in hypotheses]),
                hits=int(pick.sum()),
                p_for=float(largest[i]),
                p_against=float(smallest[i]),
            )
        )
    return results


def _average(estimates: list[Estimate]) -> Estimate:
    value, low, high = np.mean([(one.value, one.low, one.high) for one in estimates], axis=0)
    return Estimate(value, low, high, min(one.n for one in estimates))


def _factor(p: float, adjusted: float, most: int) -> float:
    """By how much an adjustment multiplies p; at 0 and without a test, the most that it can be."""
    return adjusted / p if p > 0 and adjusted < 1 else float(most)
