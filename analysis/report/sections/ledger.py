"""The ledger: what the studies of a folder say about published claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.claims.check import ClaimResult
from analysis.claims.literature import published_claims
from analysis.figures.ledger import OUTCOMES, draw_ledger
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section
from analysis.report.sections.claims import claim_fields
from analysis.report.table import Column, Table
from analysis.report.text import paragraphs, text
from analysis.results.means import study_means
from analysis.results.policy import study_policy
from analysis.results.study_results import StudyResults, published_results
from analysis.results.trends import Trend
from analysis.sources.read import explore
from experiments.metric import Metric

CLAIMS = (
    Column("claim", "id", key=True),
    Column("statement", "statement"),
    *(Column(outcome, outcome) for outcome in OUTCOMES),
    Column("source", "source"),
)
TESTS = (
    Column("claim", "id", key=True),
    Column("study", "study", link="_link"),
    Column("metric", "metric"),
    Column("outcome", "verdict", mark="_mark"),
    Column("evidence", "evidence"),
    Column("n", "n", formats.count),
    Column("additional seeds needed (80 % power)", "_more", formats.each(formatting.seeds_needed), "more_seeds_low"),
)
OF_TREND = {"shrinks": "holds here", "grows": "does not hold here"}


def ledger_rows(results: StudyResults) -> list[dict[str, Any]]:
    """What a study says about each claim, by its own metric and by its accuracies at other image sizes."""
    study = results.study
    rows = [_of_claim(result, study.metric) for result in results.published.claims]
    rows += [_of_trend(trend) for trend in results.trends if trend.spread.verdict != "not tested"]
    for metric in study.metrics:
        if metric.img_size and metric.base == study.metric:
            resized = explore(study, metric, None)
            claims = published_results(resized, study_means(resized), study_policy(resized)).claims
            rows += [_of_claim(result, metric) for result in claims]
    return rows


def ledger_section(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    """The section on all claims, in the order in which they are known; none without claims. Each row has its `study`."""
    if not rows:
        return []
    order = {claim.id: place for place, claim in enumerate(published_claims())}
    frame = pd.DataFrame(sorted(rows, key=lambda row: order.get(row["id"], len(order))), dtype=object)
    claims = frame.drop_duplicates("id")[["id", "statement", "source"]]
    for outcome in OUTCOMES:
        decided = frame[frame["verdict"] == outcome].groupby("id")["study"].unique()
        claims[outcome] = [formatting.listing([*decided.get(id, ())]) for id in claims["id"]]
    return [
        Section(
            "claims",
            "Published claims",
            [
                Table(
                    "claims",
                    text("claims", "ledger_caption"),
                    claims,
                    CLAIMS,
                    tuple(paragraphs("claims", "ledger_notes")),
                ),
                Plot("claims", draw_ledger(frame.to_dict("records")), text("claims", "ledger_figure")),
                Table("claim_tests", text("claims", "ledger_tests"), frame, TESTS, folded=True),
            ],
        )
    ]


def _of_claim(result: ClaimResult, metric: Metric) -> dict[str, Any]:
    estimate, decisive = result.estimate, result.decisive
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return (
        claim_fields(result) | numbers | {"relation": decisive.relation, "bound": decisive.bound, "metric": str(metric)}
    )


def _of_trend(trend: Trend) -> dict[str, Any]:
    outcome = OF_TREND.get(trend.verdict, "undecided here")
    return {
        "id": f"shrink-{trend.name.replace('_', '-')}",
        "statement": text("trends", "claim", trend=trend).capitalize(),
        "source": text("trends", "source"),
        "verdict": outcome,
        "evidence": text("trends", "spread", trend=trend),
        "n": trend.spread.change.change.n,
        "metric": str(trend.metric),
        "_more": None,
        "_mark": outcome.replace(" ", "-"),
    }
