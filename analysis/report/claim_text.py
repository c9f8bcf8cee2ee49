"""State what was measured for a published claim, and why a claim is undecided. Results in, text out."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.claims.check import ClaimResult, Evidence
from analysis.claims.claim import Published

INTERVAL = "90 % CI"  # the interval of one-sided tests at 5 %


def evidence_text(result: ClaimResult) -> str:
    """Return the number of pairs that support the outcome, and the numbers of the pair with the weakest support."""
    if not result.depends_on_diverged:
        return _evidence(result)
    return f"{_evidence(result)} This is the result of the finished runs. It changes if diverged runs are counted at chance level."


def _evidence(result: ClaimResult) -> str:
    decisive, total, hits = result.decisive, len(result.hypotheses), result.hits
    if math.isnan(decisive.estimate.low):
        return f"{_name(result, decisive)}: {formatting.plural(decisive.estimate.n, 'seed')}, too few for a test."
    measured, needed = _measured(result, decisive), _needed(decisive)
    if result.finished == "holds here":
        lead = "" if total == 1 else f"Shown for {_all(total)} pairs. Weakest evidence: "
        return f"{lead}{measured}, which is {needed}."
    if result.finished == "does not hold here":
        lead = "" if total == 1 else f"The opposite is shown for {hits} of {total} pairs. Example: "
        return f"{lead}{measured}; the claim says {needed}."
    lead = "" if total == 1 else f"Not shown for {hits} of {total} pairs. Example: "
    needed_seeds = result.more_seeds
    reason = f" {_why_open(decisive)}" if needed_seeds is not None and needed_seeds.low is None else ""
    shown = "The data do not show"
    if _interval_decides(decisive):
        shown = "The interval is not adjusted for the number of tests. After adjustment, the data do not show"
    return f"{lead}{measured}. {shown} whether the true difference is {needed}.{reason}"


def _interval_decides(evidence: Evidence) -> bool:
    """Whether the interval, which is not adjusted for the number of tests, lies on one side of what the claim says.

    It is then the adjustment that leaves the claim open, unless only a prediction interval can contradict it.
    """
    low, high, bound = evidence.estimate.low, evidence.estimate.high, evidence.bound
    if evidence.needs_prediction:
        return False
    if evidence.relation == "within":
        return low > bound or high < -bound or (low > -bound and high < bound)
    return low > bound or high < bound


def _all(total: int) -> str:
    return "both" if total == 2 else f"all {total}"


def _name(result: ClaimResult, evidence: Evidence) -> str:
    """`a − b` or `a − the published 78.85 %`."""
    if isinstance(result.claim, Published):
        return f"{evidence.variants[0]} − the published {formatting.number(100 * result.claim.accuracy, 2)} %"
    return " − ".join(evidence.variants)


def _measured(result: ClaimResult, evidence: Evidence) -> str:
    """`a − b is +23.6 points (90 % interval [+21.4, +25.8], 5 seeds)`."""
    estimate = evidence.estimate
    places = formatting.decimals(100 * formatting.half_width(estimate))
    value = formatting.number(100 * estimate.value, places, signed=True)
    seeds = formatting.plural(estimate.n, "seed")
    return f"{_name(result, evidence)} is {value} points ({INTERVAL} {formatting.bounds(estimate, 100)}, {seeds})"


def _needed(evidence: Evidence) -> str:
    """The difference that the claim says: `more than 1 point`, `within ±1 point` or `above zero`."""
    bound = f"{100 * evidence.bound:g} point{'s' * (evidence.bound != 0.01)}"
    if evidence.relation == "within":
        return f"within ±{bound}"
    return f"more than {bound}" if evidence.bound else "above zero"


def _why_open(evidence: Evidence) -> str:
    """Why no practical number of seeds would decide the claim."""
    if not evidence.needs_prediction:
        return "No practical number of seeds would decide it."
    return (
        f"Single runs vary too much (standard deviation {100 * evidence.sd:.1f} points) to contradict a published figure of "
        "one run, with any number of seeds."
    )
