"""The section of published claims: whether the runs of a study reproduce them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from analysis import formatting
from analysis.claims.check import ClaimResult
from analysis.claims.claim import Published
from analysis.report import formats
from analysis.report.table import Column, Table
from analysis.report.text import paragraphs, text
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from experiments.metric import Metric

ACCURACY = Metric("test/acc")  # claims are about accuracies only


def claims_table(claims: Sequence[ClaimResult], variants: Variants, policy: Policy, tuned: bool) -> Table | None:
    """The table of published claims; None where the study tests none. `tuned`: whether settings were tuned by variant."""
    if not claims:
        return None
    needed = [result.more_seeds for result in claims]
    frame = pd.DataFrame(
        {
            "id": [result.claim.id for result in claims],
            "statement": [result.claim.statement for result in claims],
            "verdict": [result.outcome for result in claims],
            "evidence": [evidence(result) for result in claims],
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
        Column("n", formats.count("n"), sort="n", note=text("claims", "n_note")),
        Column("additional seeds needed (80 % power)", formats.text("_seeds"), sort="_order"),
        Column("source", formats.text("source"), numeric=False),
    )
    published = [isinstance(result.claim, Published) for result in claims]
    kinds = {"published": any(published), "on_pairs": not all(published), "open": any(needed)}
    notes = paragraphs("claims", "notes", variants=variants, policy=policy, tuned=tuned, **kinds)
    return Table("claims", text("claims", "caption"), frame, columns, tuple(notes))


def evidence(result: ClaimResult) -> str:
    """How many hypotheses stand as the outcome says, and the numbers of the one with the weakest support."""
    decisive, estimate = result.decisive, result.estimate
    places = formatting.decimals(100 * formatting.half_width(estimate))
    return text(
        "claims",
        "evidence",
        result=result,
        published=getattr(result.claim, "accuracy", None),
        bound=formatting.margin(ACCURACY, decisive.bound),
        measured=formatting.number(100 * estimate.value, places, signed=True),
        interval=formatting.bounds(estimate, 100),
        tested=not math.isnan(estimate.low),
    )
