"""What a study's runs say about published claims. No I/O and no wording.

A claim makes a hypothesis about each pair of variants that it is about. It "holds here" where the interval of each pair
lies on the side that the claim says, and "does not hold here" where one lies on the other side. The intervals are those
of the study: adjusted over all its pairs, so all its outcomes hold together. Every other claim is "undecided here", or
"not tested" where no pair has an interval. One that the study cannot decide (`Claim.obstacle`) is "not comparable". One
that makes no hypothesis about it is left out.

Claims are checked at the study's own scale, which is rarely that of the source: "does not hold here" concerns the
statement as a rule, not the source's measurement.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from analysis.claims.claim import Claim, Evidence, Hypothesis
from analysis.verdicts.estimates import Estimate
from experiments.metric import PERMUTED, Metric

Outcome = Literal["holds here", "does not hold here", "undecided here", "not tested", "not comparable"]


@dataclass(frozen=True)
class ClaimResult:
    """What a study says about a claim."""

    claim: Claim
    outcome: Outcome
    hypotheses: tuple[Hypothesis, ...]
    decisive: Hypothesis  # of the hypotheses that stand as the outcome says, the one with the weakest support
    hits: int  # how many hypotheses stand as the outcome says: shown, contradicted, open or not tested
    obstacle: str = ""  # why the study cannot decide the claim

    @property
    def estimate(self) -> Estimate:
        """The difference of the decisive hypothesis with its interval."""
        return self.decisive.interval

    @property
    def n(self) -> int:
        """Seeds behind the hypothesis with the fewest, of those that the study compares."""
        return min((one.interval.n for one in self.hypotheses if one.interval.n), default=0)


def check(claims: Iterable[Claim], evidence: Evidence) -> list[ClaimResult]:
    """Check each claim that makes a hypothesis about the study.

    Of claims with the same hypotheses that are all comparable, or all not, the first one counts. All claims are about
    accuracies (`Metric.is_accuracy`, or with permuted patches): a study of another metric yields none. Nor does one of
    validation images, which makes a choice.
    """
    metric = Metric(evidence.study.metric)
    if metric != PERMUTED and (not Metric(metric.base).is_accuracy or metric.startswith("val/")):
        return []
    images = "permuted" if metric == PERMUTED else "larger" if metric.img_size is not None else "trained"
    distinct: dict[tuple, tuple[Claim, list[Hypothesis]]] = {}
    for claim in claims:
        if claim.images == images and (hypotheses := claim.hypotheses(evidence)):
            key = type(claim), claim.incomparable, frozenset((h.variants, h.relation, h.bound) for h in hypotheses)
            distinct.setdefault(key, (claim, hypotheses))
    return [_judge(claim, hypotheses, claim.obstacle(hypotheses, evidence)) for claim, hypotheses in distinct.values()]


def _judge(claim: Claim, hypotheses: list[Hypothesis], obstacle: str) -> ClaimResult:
    outcome: Outcome
    if pick := [h for h in hypotheses if h.contradicted]:
        outcome = "does not hold here"
    elif not any(h.tested for h in hypotheses):
        outcome, pick = "not tested", hypotheses
    elif pick := [h for h in hypotheses if h.tested and not h.shown] or [h for h in hypotheses if not h.tested]:
        outcome = "undecided here"
    else:
        outcome, pick = "holds here", hypotheses
    outcome = "not comparable" if obstacle else outcome
    return ClaimResult(claim, outcome, tuple(hypotheses), min(pick, key=lambda h: h.support), len(pick), obstacle)
