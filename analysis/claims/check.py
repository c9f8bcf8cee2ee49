"""What a study's runs say about published claims. No I/O and no wording.

A claim holds where each of its hypotheses holds (for example one for each pair of variants). So "reproduced" takes a
test of each hypothesis at alpha, without adjustment (an intersection-union test: Berger, Technometrics 24 (1982),
295-300). One false hypothesis contradicts the claim, so those tests are Holm-adjusted over the hypotheses. Each kind of
error occurs in at most alpha of all studies. Every other claim is "undecided". A claim that makes no hypothesis about a
study is left out.

Claims are checked at the study's own scale, which is rarely that of the source: a contradiction concerns the statement
as a rule, not the source's measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.claims.claim import Claim
from analysis.claims.hypotheses import Hypothesis
from analysis.claims.settings import Values
from analysis.stats.estimates import Estimate
from analysis.stats.holm import holm

Outcome = Literal["reproduced", "contradicted", "undecided"]


@dataclass(frozen=True)
class Evidence:
    """One hypothesis as measured: how the mean difference is said to stand to the bound, and how it does."""

    variants: tuple[str, ...]
    """(a, b) for a - b, or (a,) for a - the published figure"""
    relation: Literal["above", "within"]
    bound: float
    estimate: Estimate
    """the mean difference with its 1 - 2 alpha interval"""
    sd: float
    """standard deviation of the differences"""
    needs_prediction: bool
    """whether it leans against a published figure of one run, which only a prediction interval can contradict"""


@dataclass(frozen=True)
class ClaimResult:
    """What a study says about a claim."""

    claim: Claim
    verdict: Outcome
    hypotheses: tuple[Evidence, ...]
    decisive: Evidence
    """of the hypotheses that stand as the verdict says, the one with the weakest support"""
    hits: int
    """how many hypotheses stand as the verdict says: shown, contradicted or open"""
    more_seeds: int | None
    """how many more seeds would decide the claim at 80 % power if the observed values were the true ones: 0 where it is
    decided, None where no practical number would or the spread is not known"""
    n: int
    """seeds behind the hypothesis with the fewest"""


def check(claims: Iterable[Claim], study: Mapping, values: Values, alpha: float = 0.05) -> list[ClaimResult]:
    """Check each claim that makes a hypothesis about the study; `study` is as in study.json, whose margin is used.

    A claim with the same hypotheses as an earlier one is left out. All claims are about accuracies: a study of another
    metric yields none.
    """
    if not study["metric"].endswith("/acc"):
        return []
    results, seen = [], set()
    for claim in claims:
        hypotheses = claim.hypotheses(study, values, study.get("margin", 0.01))
        what = (claim.kind, frozenset(hypothesis.variants for hypothesis in hypotheses))
        if hypotheses and what not in seen:
            seen.add(what)
            results.append(_judge(claim, hypotheses, alpha))
    return results


def _judge(claim: Claim, hypotheses: list[Hypothesis], alpha: float) -> ClaimResult:
    p_for = np.array([hypothesis.p_for() for hypothesis in hypotheses])
    shown, failed = p_for <= alpha, holm([hypothesis.p_against() for hypothesis in hypotheses]) <= alpha
    verdict: Outcome = "contradicted" if failed.any() else "reproduced" if shown.all() else "undecided"
    pick = {"contradicted": failed, "reproduced": shown, "undecided": ~shown}[verdict]
    evidence = tuple(_evidence(hypothesis, alpha) for hypothesis in hypotheses)
    return ClaimResult(
        claim=claim,
        verdict=verdict,
        hypotheses=evidence,
        decisive=evidence[np.flatnonzero(pick)[np.argmax(np.nan_to_num(p_for[pick], nan=1.0))]],
        hits=int(pick.sum()),
        more_seeds=_more_seeds(hypotheses, ~shown, alpha) if verdict == "undecided" else 0,
        n=min(hypothesis.moments[2] for hypothesis in hypotheses),
    )


def _evidence(hypothesis: Hypothesis, alpha: float) -> Evidence:
    return Evidence(
        variants=hypothesis.variants,
        relation=hypothesis.relation,
        bound=hypothesis.bound,
        estimate=hypothesis.estimate(alpha),
        sd=hypothesis.moments[1],
        needs_prediction=hypothesis.needs_prediction,
    )


def _more_seeds(hypotheses: list[Hypothesis], undecided: np.ndarray, alpha: float) -> int | None:
    """If the observed means are true: one false hypothesis is enough, otherwise each open one must be shown."""
    if any(np.isnan(hypothesis.moments[1]) for hypothesis in hypotheses):
        return None
    against = [each.missing(alpha / len(hypotheses)) for each in hypotheses if not each.leans_for()]
    if against:
        return min((more for more in against if more is not None), default=None)
    wanted = [each.missing(alpha) for each, still in zip(hypotheses, undecided) if still]
    known = [more for more in wanted if more is not None]
    return max(known) if len(known) == len(wanted) else None
