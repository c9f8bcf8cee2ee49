"""Do published claims hold here?"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import words
from analysis.claims.check import ClaimResult, check
from analysis.claims.claim import Evidence, Hypothesis
from analysis.claims.literature import published_claims
from analysis.findings import Findings
from analysis.findings.columns import verdict_mark
from analysis.runs.runs import Runs
from analysis.write.document import Section
from analysis.write.table import Column, Table
from experiments.metric import Metric

ACCURACY = Metric("test/acc")  # claims are about accuracies only
SHOWN = {
    "holds here": "Shown for {hits} of {total} pairs. Weakest evidence: ",
    "does not hold here": "The opposite is shown for {hits} of {total} pairs. Example: ",
    "undecided here": "Not shown for {hits} of {total} pairs. Example: ",
}


def question(findings: Findings) -> Section | None:
    """The published claims that the study tests; the answer of a study of one variant has them."""
    results = study_claims(findings)
    if not results:
        return None
    alone = not findings.variants.others and findings.means.of(findings.variants.baseline).n
    outcomes = [
        (f"{words.capital(result.outcome)}: " if not result.obstacle else "") + evidence(result) for result in results
    ]
    said = [f"Published claim: {one.claim.statement} {outcome}" for one, outcome in zip(results, outcomes)]
    return Section("claims", "Published claims", [claims_table(results, findings)], answer=said if alone else [])


def study_claims(findings: Findings) -> list[ClaimResult]:
    """What a study says about published claims: nothing before the first planned look or without a margin."""
    study, means, policy = findings.study, findings.means, findings.policy
    if policy.looks.waiting or policy.margin is None:
        return []
    values, chance = policy.looks.limit(means.values), policy.chance
    counted = policy.looks.limit(chance.counted(means.values)) if chance.failed else None
    results = check(published_claims(), Evidence(study.plan, values, findings.comparisons.family, policy, counted))
    # where both variants of a difference learned nothing, or leave no room, it says nothing about what they vary
    groups = policy.without_room(values).values()
    alike = [h for one in results for h in one.hypotheses if any(group.issuperset(h.variants) for group in groups)]
    return [one for one in results if any(h.is_published or h not in alike for h in one.hypotheses)]


def claims_table(results: Sequence[ClaimResult], findings: Findings) -> Table:
    """The table of published claims."""
    columns = (
        Column("published claim", "statement"),
        Column("outcome", "verdict", mark=lambda row: verdict_mark(row["verdict"])),
        Column("evidence", "evidence"),
        Column("n", "n", words.counts, note="seeds; the smallest number over the comparisons"),
        Column("source", source),
    )
    about = training(findings.study)
    caption = f"Published claims and our own questions, and the outcome in this study{': ' if about else ''}{about}."
    return Table("claims", caption, list(map(claim_fields, results)), columns, notes=_notes(results, findings))


def _notes(results: Sequence[ClaimResult], findings: Findings) -> tuple[str, ...]:
    margin = words.margin(findings.policy.margin, findings.means.metric)
    one_run = (
        f"A published accuracy comes from a single run, so it is compared with the {words.CONFIDENCE} interval for one "
        "more run of this study."
    )
    untested = "Not tested: there is no interval, for the reason given."
    return (
        "Holds here: the interval of every pair that the claim is about lies on the side that it says. Does not hold "
        "here: that of at least one pair lies on the other side. Undecided here: neither. Not comparable: the study "
        "cannot decide the claim, for the reason given. The sources use other models, data or training than this "
        "study.",
        f'The sources state no margin, so this study\'s is used: "much lower" and "clearly better" mean by more than '
        f'{margin}, "little" and "has a test accuracy of" mean within ±{margin}.',
        *([untested] if any(result.outcome == "not tested" for result in results) else []),
        *([one_run] if any(result.decisive.is_published for result in results) else []),
    )


def training(study: Runs) -> str:
    """How the runs were trained, beside the outcome of a claim; empty where that is not known."""
    runs, lr = study.of("finished"), "optim.lr"
    if lr not in runs or runs.empty:
        return ""
    rates = sorted(pd.to_numeric(runs[lr], errors="coerce").dropna().unique())
    epochs = sorted(map(int, runs["epochs"].unique()))
    if not rates:  # of another program, or forged
        return ""
    several = len(rates) > 1
    shown = f"rates {rates[0]:.2g} to {rates[-1]:.2g}" if several else f"rate {rates[0]:.2g}"
    tuned = lr in study.plan.tuned_settings
    chosen = "a tuned rate for each variant" if tuned else "each rate for all" if several else "one rate for all"
    return f"{shown}, {words.listing(epochs)} epochs, {chosen}"


def claim_fields(result: ClaimResult) -> dict[str, object]:
    """The fields of a row of a table of claims."""
    claim = result.claim
    return {
        "id": claim.id,
        "statement": claim.statement,
        "verdict": result.outcome,
        "evidence": evidence(result),
        "n": result.n,
        "quote": claim.quote,
        "source": claim.source,
    }


def source(row: Mapping[str, Any]) -> str:
    """The quotation and the source in a row of a table of claims."""
    quote = f"“{row['quote']}” " if row["quote"] else ""
    return quote + (row["source"] or "our own question")


def evidence(result: ClaimResult) -> str:
    """How many hypotheses stand as the outcome says, and the numbers of the one with the weakest support."""
    one, estimate, total = result.decisive, result.estimate, len(result.hypotheses)
    obstacle = f"Not comparable: {result.obstacle}. " if result.obstacle else ""
    subject = " − ".join(one.variants)
    if one.is_published:
        subject += f" − the published {100 * result.claim.accuracy:.2f} %"  # type: ignore[attr-defined]
    seeds = words.plural(estimate.n, "seed")
    untested = sum(not h.tested for h in result.hypotheses)
    obstacle += f"Not tested: {untested} of {total} pairs. " if untested and total > 1 else ""
    if not one.tested:
        return f"{obstacle}{subject}: not tested ({seeds if estimate.n else 'the study does not compare them'})."
    places = words.decimals(100 * words.half_width(estimate))
    while places < words.MOST_PLACES and _hides_outcome(one, places):
        places += 1
    counted = SHOWN.get(result.outcome, "").format(hits=result.hits, total=total) if total > 1 else ""
    kind = "interval for one more run" if one.is_published else "interval"
    size = words.number(100 * estimate.value, places, signed=True)
    bound = words.margin(one.bound, ACCURACY)
    says = f"within ±{bound}" if one.relation == "within" else f"more than {bound}" if one.bound else "above zero"
    neither = " Neither this nor the opposite is shown." if result.outcome == "undecided here" else ""
    interval = f"{kind} {words.bounds(estimate, ACCURACY, places)}, {seeds}"
    return f"{obstacle}{counted}{subject}: {size} points ({interval}); the claim says {says}.{neither}"


def _hides_outcome(one: Hypothesis, places: int) -> bool:
    """Whether an end of the interval and a bound of the hypothesis look equal with so many decimals (in points)."""
    bounds = (one.bound, -one.bound) if one.relation == "within" else (one.bound,)
    ends = one.interval.low, one.interval.high
    return any(words.number(100 * end, places) == words.number(100 * bound, places) for end in ends for bound in bounds)
