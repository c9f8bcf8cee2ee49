"""The section of published claims: whether the runs of a study reproduce them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis import formatting
from analysis.claims.check import ClaimResult
from analysis.claims.claim import Published
from analysis.report import formats
from analysis.report.table import Column, Table
from analysis.report.text import paragraphs, text
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import Comparison
from experiments.metric import Metric


def claims_table(
    claims: Sequence[ClaimResult],
    pairs: Mapping[tuple[str, str], Comparison],
    variants: Variants,
    policy: Policy,
    tuned: bool,
) -> Table | None:
    """The table of published claims; None where the study tests none. `pairs`: the verdicts on pairs of variants.

    `tuned`: whether settings were tuned for each variant.
    """
    if not claims:
        return None
    needed = [claim.more_seeds for claim in claims]
    frame = pd.DataFrame(
        {
            "id": [result.claim.id for result in claims],
            "statement": [result.claim.statement for result in claims],
            "verdict": [result.outcome for result in claims],
            "evidence": [evidence(result, pairs) for result in claims],
            "n": [result.n for result in claims],
            "more_seeds_low": pd.Series([more and more.low for more in needed], dtype=object),
            "more_seeds_high": pd.Series([more and more.high for more in needed], dtype=object),
            "source": [result.claim.source for result in claims],
            "_mark": [result.outcome.replace(" ", "-") for result in claims],
            "_seeds": [formatting.seeds_needed(more) for more in needed],
            "_order": [more.low if more and more.low else math.inf for more in needed],
        }
    )
    columns = (
        Column("published claim", formats.text("statement"), numeric=False),
        Column("outcome", formats.text("verdict"), numeric=False, mark="_mark"),
        Column("evidence", formats.text("evidence"), numeric=False),
        Column("n", formats.count("n"), sort="n", note="seeds; the smallest number over the comparisons"),
        Column("additional seeds needed (80 % power)", formats.text("_seeds"), sort="_order"),
        Column("source", formats.text("source"), numeric=False),
    )
    published = [isinstance(result.claim, Published) for result in claims]
    notes = paragraphs(
        "claims",
        "notes",
        published=any(published),
        on_pairs=not all(published),
        open=any(more is not None for more in needed),
        variants=variants,
        policy=policy,
        tuned=tuned,
    )
    return Table("claims", text("claims", "caption"), frame, columns, tuple(notes))


def evidence(result: ClaimResult, pairs: Mapping[tuple[str, str], Comparison] | None = None) -> str:
    """How many hypotheses stand as the outcome says, and the numbers of the one with the weakest support."""
    decisive, estimate = result.decisive, result.estimate
    about = {frozenset(hypothesis.variants) for hypothesis in result.hypotheses}
    undecided = [
        pair
        for pair, compared in (pairs or {}).items()
        if frozenset(pair) in about and compared.verdict == "not enough evidence"
    ]
    places = formatting.decimals(100 * formatting.half_width(estimate))
    needed = result.more_seeds
    return text(
        "claims",
        "evidence",
        result=result,
        decisive=decisive,
        bound=formatting.margin(Metric("test/acc"), decisive.bound),
        published=getattr(result.claim, "accuracy", None),
        measured=formatting.number(100 * estimate.value, places, signed=True),
        interval=formatting.bounds(estimate, 100),
        tested=not math.isnan(estimate.low),
        total=len(result.hypotheses),
        is_adjustment=_interval_decides(result),
        hopeless=needed is not None and needed.low is None,
        sd=100 * decisive.moments[1],
        undecided_pairs=len(undecided) if result.outcome == "holds here" else 0,
    )


def _interval_decides(result: ClaimResult) -> bool:
    """Whether the interval, which is not adjusted for the number of tests, lies on one side of what the claim says.

    It is then the adjustment that leaves the claim open, unless only a prediction interval can contradict it.
    """
    low, high, bound = result.estimate.low, result.estimate.high, result.decisive.bound
    if result.decisive.needs_prediction:
        return False
    if result.decisive.relation == "within":
        return low > bound or high < -bound or (low > -bound and high < bound)
    return low > bound or high < bound
