"""What a study's runs say about published claims. No I/O and no wording.

A claim holds where each of its hypotheses holds (for example one for each pair of variants). So "holds here" takes a test
of each hypothesis at the same level (an intersection-union test: Berger, Technometrics 24 (1982), 295-300). One false
hypothesis contradicts a claim, so for "does not hold here" the tests are Holm-adjusted over its hypotheses. Of these two
outcomes at most one is false, so both are then adjusted over the claims as one family (`holm_exclusive`): all false
outcomes of a study together occur in at most alpha of all studies. Every other claim is "undecided here". A claim that
makes no hypothesis about a study is left out.

Runs that diverged have no final value. A claim is decided only if the outcome is the same where diverged runs count as
runs at chance level.

Claims are checked at the study's own scale, which is rarely that of the source: "does not hold here" concerns the
statement as a rule, not the source's measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.claims.claim import Claim
from analysis.claims.hypotheses import Hypothesis
from analysis.claims.settings import Values
from analysis.stats.estimates import Estimate
from analysis.stats.holm import holm, holm_exclusive
from analysis.stats.looks import Looks
from analysis.stats.power import FEW_SEEDS, SeedsNeeded, sd_quantiles
from experiments.metric import Metric
from experiments.study import StudyPlan

Outcome = Literal["holds here", "does not hold here", "undecided here"]


@dataclass(frozen=True)
class Evidence:
    """One hypothesis as measured: the relation of the mean difference to the bound that it states, and the estimate."""

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
    finished: Outcome
    """the outcome of the finished runs alone; `decisive` and `hits` are about it"""
    p: float
    """p of the claim being false, adjusted over the claims"""
    p_against: float
    """p of the claim being true, adjusted over the claims"""
    hypotheses: tuple[Evidence, ...]
    decisive: Evidence
    """of the hypotheses that stand as the outcome says, the one with the weakest support"""
    hits: int
    """how many hypotheses stand as the outcome says: shown, contradicted or open"""
    more_seeds: SeedsNeeded | None
    """how many more seeds would decide the claim with 80 % power if the observed means were the true ones, for the range
    of the standard deviation of `seeds_needed_band`; None where it is decided, there are too few seeds to say, or looks are planned"""
    n: int
    """seeds behind the hypothesis with the fewest"""

    @property
    def depends_on_diverged(self) -> bool:
        """Whether the outcome is another one if diverged runs count as runs at chance level."""
        return self.verdict != self.finished


def check(
    claims: Iterable[Claim],
    study: StudyPlan,
    values: Values,
    alpha: float = 0.05,
    floor: float = 0.0,
    with_diverged: Values | None = None,
    looks: Looks | None = None,
) -> list[ClaimResult]:
    """Check each claim that makes a hypothesis about the study, with its margin.

    `floor` is the smallest standard deviation of one run. `with_diverged` are the values where diverged runs count as runs
    at chance level; None where no run diverged. With planned `looks`, the values are those of the current look, in the planned
    order of the seeds. A claim with the same hypotheses as an earlier one is left out. All claims
    are about accuracies (`Metric.is_accuracy`): a study of another metric yields none.
    """
    if not Metric(study.metric).is_accuracy:
        return []
    margin = study.margin
    found: dict[tuple, tuple[Claim, list[Hypothesis]]] = {}
    for claim in claims:
        if hypotheses := claim.hypotheses(study, values, margin, floor):
            found.setdefault((claim.kind, frozenset(each.variants for each in hypotheses)), (claim, hypotheses))
    results = _judge(list(found.values()), alpha, looks)
    if with_diverged is None:
        return results
    counted = [(claim, claim.hypotheses(study, with_diverged, margin, floor)) for claim, _ in found.values()]
    return [
        result if result.finished == other.finished else _undecided(result)
        for result, other in zip(results, _judge(counted, alpha, looks), strict=True)
    ]


def _judge(found: list[tuple[Claim, list[Hypothesis]]], alpha: float, looks: Looks | None) -> list[ClaimResult]:
    """Decide each claim; all are one family."""
    each_for = [
        np.array([_p_value(hypothesis, "p_for", looks) for hypothesis in hypotheses]) for _, hypotheses in found
    ]
    each_against = [
        holm([_p_value(hypothesis, "p_against", looks) for hypothesis in hypotheses]) for _, hypotheses in found
    ]
    tested = [np.isfinite(p).any() for p in each_for]
    p_for = [np.nan_to_num(p, nan=1.0).max() if any_ else np.nan for p, any_ in zip(each_for, tested, strict=True)]
    p_against = [np.nanmin(p) if any_ else np.nan for p, any_ in zip(each_against, tested, strict=True)]
    adjusted = holm_exclusive(p_for, p_against)
    level = alpha if looks is None else looks.level(alpha)
    results = []
    for i, (claim, hypotheses) in enumerate(found):
        # what the adjustment over the claims does to a claim's p, it does to the p of each of its hypotheses
        shown = each_for[i] * _factor(p_for[i], adjusted[0][i], len(found)) <= alpha
        failed = each_against[i] * _factor(p_against[i], adjusted[1][i], len(found)) <= alpha
        outcome: Outcome = "does not hold here" if failed.any() else "holds here" if shown.all() else "undecided here"
        decided = outcome != "undecided here"
        pick = {"does not hold here": failed, "holds here": shown, "undecided here": ~shown}[outcome]
        evidence = tuple(_evidence(hypothesis, level) for hypothesis in hypotheses)
        weakest = np.flatnonzero(pick)[np.argmax(np.nan_to_num(each_for[i][pick], nan=1.0))]
        results.append(
            ClaimResult(
                claim=claim,
                verdict=outcome,
                finished=outcome,
                p=float(adjusted[0][i]),
                p_against=float(adjusted[1][i]),
                hypotheses=evidence,
                decisive=evidence[weakest],
                hits=int(pick.sum()),
                more_seeds=None if decided or looks else _more_seeds(hypotheses, ~shown, alpha / len(found)),
                n=min(hypothesis.moments[2] for hypothesis in hypotheses),
            )
        )
    return results


def _p_value(hypothesis: Hypothesis, test: Literal["p_for", "p_against"], looks: Looks | None) -> float:
    """A p-value of a hypothesis; with planned looks, for all looks so far."""

    def at(diffs: np.ndarray) -> float:
        return getattr(replace(hypothesis, diffs=diffs), test)()

    return at(hypothesis.diffs) if looks is None else float(looks.p_value(at, hypothesis.diffs)[0])


def _factor(p: float, adjusted: float, most: int) -> float:
    return adjusted / p if p > 0 else float(most)


def _undecided(result: ClaimResult) -> ClaimResult:
    return replace(result, verdict="undecided here")


def _evidence(hypothesis: Hypothesis, alpha: float) -> Evidence:
    return Evidence(
        variants=hypothesis.variants,
        relation=hypothesis.relation,
        bound=hypothesis.bound,
        estimate=hypothesis.estimate(alpha),
        sd=hypothesis.moments[1],
        needs_prediction=hypothesis.needs_prediction,
    )


def _more_seeds(hypotheses: list[Hypothesis], undecided: np.ndarray, alpha: float) -> SeedsNeeded | None:
    """For the range of the standard deviation that the seeds leave open."""
    if any(np.isnan(each.moments[1]) or each.moments[2] < FEW_SEEDS for each in hypotheses):
        return None
    spreads = np.array([sd_quantiles(*each.moments[1:]) for each in hypotheses])
    return SeedsNeeded(*(_more(hypotheses, undecided, alpha, sds) for sds in spreads.T))


def _more(hypotheses: list[Hypothesis], undecided: np.ndarray, alpha: float, sds: np.ndarray) -> int | None:
    """If the observed means are true: one false hypothesis is enough, otherwise each open one must be shown."""
    each = list(zip(hypotheses, undecided, sds.tolist(), strict=True))
    against = [hypothesis.missing(alpha / len(each), sd) for hypothesis, _, sd in each if not hypothesis.leans_for()]
    if against:
        return min((more for more in against if more is not None), default=None)
    wanted = [hypothesis.missing(alpha, sd) for hypothesis, open_, sd in each if open_]
    return None if None in wanted else max(more for more in wanted if more is not None)
