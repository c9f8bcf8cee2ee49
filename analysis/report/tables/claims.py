"""Published claims, and whether the runs of a study reproduce them."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.claims.check import ClaimResult
from analysis.claims.claim import Published
from analysis.report.claim_text import evidence_text
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import margin_text
from analysis.results.study_results import StudyResults

_PUBLISHED = (
    "A published accuracy comes from a single run. This study contradicts it only if it lies outside the prediction "
    "interval for one more run of this study, widened by the margin."
)

_MORE_SEEDS = (
    "Additional seeds needed: – means that the claim is decided, or that there are too few seeds for an estimate."
)


def claims_table(results: StudyResults) -> Table | None:
    """Return the table of published claims; None where the study tests none of them."""
    if not results.claims:
        return None
    columns = (
        Column("published claim", ("id", "statement"), numeric=False),
        Column("outcome", ("verdict",), numeric=False),
        Column("evidence", ("evidence",), numeric=False),
        Column("n", ("n",), help="seeds; the smallest number over the comparisons"),
        Column("additional seeds needed (80 % power)", ("more_seeds_low", "more_seeds_high")),
        Column("source", ("source",), numeric=False),
    )
    rows = []
    for result in results.claims:
        more, evidence = result.more_seeds, evidence_text(result) + _beside_verdicts(results, result)
        rows.append(
            (
                Cell(result.claim.statement, (result.claim.id, result.claim.statement)),
                Cell(result.verdict, (result.verdict,), mark=result.verdict.replace(" ", "-")),
                Cell(evidence, (evidence,)),
                Cell(str(result.n), (result.n,), result.n),
                Cell(
                    formatting.seeds_needed(more),
                    (more.low, more.high) if more else (None, None),
                    math.inf if more is None or more.low is None else more.low,
                ),
                Cell(result.claim.source, (result.claim.source,)),
            )
        )
    return Table("claims", "Published claims and the outcome in this study.", columns, tuple(rows), _notes(results))


def _beside_verdicts(results: StudyResults, result: ClaimResult) -> str:
    """Why a claim holds for pairs that have no verdict; empty where that is not so."""
    pairs = {frozenset(evidence.variants) for evidence in result.hypotheses}
    undecided = [
        pair
        for pair, compared in results.pairs.items()
        if frozenset(pair) in pairs and compared.verdict == "not enough evidence"
    ]
    if result.verdict != "holds here" or not undecided:
        return ""
    which = "this pair" if len(pairs) == 1 else f"{len(undecided)} of the {len(pairs)} pairs"
    return (
        f" The verdict on {which} is “not enough evidence”: verdicts are two-sided and adjusted over all pairs, claims are "
        "one-sided and adjusted over the claims."
    )


def _notes(results: StudyResults) -> tuple[str, ...]:
    published = {isinstance(result.claim, Published) for result in results.claims}
    needed = [formatting.seeds_needed(result.more_seeds) for result in results.claims]
    return (
        *(
            (_ON_PAIRS.format(tuned=" but the tuned settings" * (results.tuning is not None)),)
            if False in published
            else ()
        ),
        "Undecided here: neither a claim nor its opposite is shown, or the outcome changes if diverged runs are counted at "
        "chance level. All outcomes are Holm-adjusted over the claims of this table, alpha = 5 %.",
        _MARGIN.format(margin=margin_text(results), intervals=results.policy.intervals),
        *((_PUBLISHED,) if True in published else ()),
        *((_SECOND_SET,) if results.others else ()),
        *((_MORE_SEEDS,) if any(text != formatting.DASH for text in needed) else ()),
        *((_OTHER_MODELS[True in published],) if False in published else ()),
    )


_ON_PAIRS = (
    "A claim is tested on every pair of variants that it is about and that differ in nothing else{tuned}. Two kinds are "
    "compared at one site, or each at its natural site. Holds here: the claim is shown for every pair. Does not hold here: the "
    "opposite is shown for at least one pair (Holm-adjusted over the pairs)."
)
_MARGIN = (
    'The sources state no margin, so this study\'s margin is used: "much lower" and "clearly better" mean by more than '
    '{margin}, "little" and "has a test accuracy of" mean within ±{margin}. The tests are one-sided at 5 %, so the confidence '
    "intervals (CI) are at 90 %. They {intervals}."
)
_SECOND_SET = (
    "The claims are a second set of tests, separate from the verdicts on pairs. Each set has a false result in at most 5 % "
    "of studies, so the report as a whole can have one in more than 5 % (at most 10 %)."
)
_OTHER_MODELS = {
    False: "The sources use other models, data or training than this study.",
    True: "Except for published accuracies, the sources use other models, data or training than this study.",
}
