"""Sentences about published claims: what was measured, and why a claim is still open. Results in, text out."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.claims.check import ClaimResult, Evidence
from analysis.claims.claim import Above, Published

INTERVAL = "90 % interval"  # goes with one-sided tests at 5 %


def evidence_text(result: ClaimResult) -> str:
    """One sentence: how many hypotheses stand as the verdict says, and the numbers of the decisive one."""
    decisive, total, hits = result.decisive, len(result.hypotheses), result.hits
    if math.isnan(decisive.estimate.low):
        n = decisive.estimate.n
        return f"{_name(result, decisive)} rests on {n} seed{'s' * (n != 1)}, too few to test."
    measured, needed = _measured(result, decisive), _needed(decisive)
    if result.verdict == "reproduced":
        lead = "" if total == 1 else f"All {total} hypotheses hold; the least certain: "
        return f"{lead}{measured}, and {needed} was to be shown."
    if result.verdict == "contradicted":
        lead = "" if total == 1 else f"{hits} of {total} hypotheses fail{'s' * (hits == 1)}: "
        return f"{lead}{measured}, where the statement takes {needed}."
    lead = "" if total == 1 else f"{hits} of {total} hypotheses {'are' if hits > 1 else 'is'} open: "
    end = f"; {_why_open(decisive)}" if result.more_seeds is None else ""
    among = "" if total == 1 else f", among {total} hypotheses,"
    return f"{lead}{measured}, which{among} does not settle whether it is {needed}{end}."


def _name(result: ClaimResult, evidence: Evidence) -> str:
    """`a over b`, `a against b` or `a less the published 78.85 %`."""
    if isinstance(result.claim, Published):
        return f"{evidence.variants[0]} less the published {formatting.number(100 * result.claim.accuracy, 2)} %"
    a, b = evidence.variants
    return f"{a} {'over' if isinstance(result.claim, Above) else 'against'} {b}"


def _measured(result: ClaimResult, evidence: Evidence) -> str:
    estimate = evidence.estimate
    places = formatting.decimals(100 * formatting.half_width(estimate))
    value = formatting.number(100 * estimate.value, places, signed=True)
    interval = f"{INTERVAL} {formatting.bounds(estimate, 100)}, {estimate.n} seeds"
    return f"{_name(result, evidence)} is {value} points ({interval})"


def _needed(evidence: Evidence) -> str:
    """What the hypothesis says of the difference: `more than 1` or `within ±1`."""
    return {"above": "more than ", "within": "within ±"}[evidence.relation] + f"{100 * evidence.bound:g}"


def _why_open(evidence: Evidence) -> str:
    """Why no practical number of seeds would decide the claim."""
    if not evidence.needs_prediction:
        return "no practical number of seeds would settle it"
    scatter = f"{100 * evidence.sd:.1f} points (standard deviation)"
    return f"single runs scatter by {scatter} here, too widely for one published run to be contradicted by any number of ours"
