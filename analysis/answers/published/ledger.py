"""The ledger: what the studies of a folder say about published claims."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import formatting, stats
from analysis.answers.published.show import claim_fields
from analysis.answers.study_results import StudyResults, study_claims
from analysis.answers.trends.compute import Trend
from analysis.claims.check import ClaimResult
from analysis.claims.literature import published_claims
from analysis.figures.ledger import OUTCOMES, draw_ledger
from analysis.figures.style import Plot
from analysis.results.means import study_means
from analysis.results.policy import Comparisons, study_policy
from analysis.sources.read import explore
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import paragraphs, text
from experiments.metric import PERMUTED, Metric

ALL_OUTCOMES = (*OUTCOMES, "not comparable")
OWN = (
    Column("claim", "id", key=True),
    Column("statement", "statement"),
    *(Column(outcome, outcome) for outcome in ALL_OUTCOMES),
    Column("independent", "independent", formatting.counts),
)
CLAIMS = (*OWN, Column("source", "_source"))
TESTS = (
    Column("claim", "id", key=True),
    Column("study", "study", link="_link"),
    Column("metric", "metric"),
    Column("setting", "setting"),
    Column("outcome", "verdict", mark="_mark"),
    Column("also adjusted over this page", "_page"),
    Column("evidence", "evidence"),
    Column("n", "n", formatting.counts),
)
NUMBERS = ("value", "mean_difference")
OF_TREND = {"shrinks": "holds here", "grows": "does not hold here"}


def ledger_rows(results: StudyResults) -> list[dict[str, Any]]:
    """What a study says about each claim, by its own metric and by its accuracies on other test images."""
    study = results.study
    rows = [_of_claim(result, study.metric, results.comparisons) for result in results.claims]
    rows += [_of_trend(trend) for trend in results.trends if trend.spread.verdict != "not tested"]
    for metric in study.metrics:
        if (metric.img_size and metric.base == study.metric) or (metric == PERMUTED and study.metric == "test/acc"):
            other = explore(study, metric, None)
            claims = study_claims(other, study_means(other), study_policy(other))
            rows += [_of_claim(result, metric) for result in claims]
    setting = text("study", "training", study=study)
    return [{**row, "setting": setting, "_own": row["metric"] == study.metric} for row in rows]


def ledger_section(rows: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[str]]) -> list[Section]:
    """The section on all claims, in the order in which they are known; none without claims. Each row has its `study`.

    `groups`: of studies that share runs, see `independent_groups`.
    """
    if not rows:
        return []
    order = {claim.id: place for place, claim in enumerate(published_claims())}
    frame = pd.DataFrame(sorted(rows, key=lambda row: order.get(row["id"], len(order))), dtype=object)
    frame = frame.reindex(columns=[*dict.fromkeys((*frame, *NUMBERS))])  # where no claim has them
    frame["also_on_page"] = _on_page(frame)
    frame["_page"] = frame["also_on_page"].map({True: "yes", False: "no"}).fillna(formatting.DASH)
    claims = frame.drop_duplicates("id")[["id", "statement", "quote", "source", "_source"]]
    for outcome in ALL_OUTCOMES:
        decided = frame[frame["verdict"] == outcome]
        claims[outcome] = [_by_setting(decided[decided["id"] == id]) for id in claims["id"]]
    group = {study: place for place, studies in enumerate(groups) for study in studies}
    claims["independent"] = [frame.loc[frame["id"] == id, "study"].map(group).nunique() for id in claims["id"]]
    published = claims["source"] != ""
    sources = claims.loc[published, "source"].str.split(",").str[0].nunique()
    used = {group[study] for study in frame["study"]}
    counts = {
        "claims": int(published.sum()),
        "sources": sources,
        "studies": frame["study"].nunique(),
        "groups": len(used),
    }
    shared = [[study for study in names if study in set(frame["study"])] for names in groups]
    lost = frame["also_on_page"].dropna()
    said = paragraphs(
        "claims",
        "ledger_counts",
        **counts,
        repeats=[formatting.listing(names) for names in shared if len(names) > 1],
        decided=len(lost),
        lost=int((~lost.astype(bool)).sum()),
    )
    items = present(
        Table("claims", text("claims", "ledger_caption"), claims[published], CLAIMS),
        Table("own", text("claims", "own_caption"), claims[~published], OWN) if not published.all() else None,
        Plot("claims", draw_ledger(frame), text("claims", "ledger_figure")),
        Table("claim_tests", text("claims", "ledger_tests"), frame, TESTS, tuple(paragraphs("claims", "ledger_notes"))),
    )
    return [Section("claims", "Published claims", items, said)]


def _by_setting(tests: pd.DataFrame) -> str:
    """The studies of these tests: those with one setting, then that setting."""
    studies = tests.groupby("setting", sort=False)["study"].unique()
    return "; ".join(f"{formatting.listing([*named])} ({setting})" for setting, named in studies.items())


def _on_page(frame: pd.DataFrame) -> list[bool | None]:
    """Whether an outcome that is decided is so after an adjustment over all rows too; None for other outcomes."""
    testable = frame["verdict"] != "not comparable"
    p_for, p_against = (frame[p].where(testable).astype(float) for p in ("p_for", "p_against"))
    p = dict(zip(OUTCOMES, stats.holm_exclusive(p_for, p_against)))
    return [bool(p[outcome][i] <= stats.ALPHA) if outcome in p else None for i, outcome in enumerate(frame["verdict"])]


def _of_claim(result: ClaimResult, metric: Metric, comparisons: Comparisons | None = None) -> dict[str, Any]:
    estimate, decisive = result.estimate, result.decisive
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    numbers |= {"adjusted_low": result.adjusted.low, "adjusted_high": result.adjusted.high}
    numbers |= {"p_for": result.p_for, "p_against": result.p_against}
    tested = {"relation": decisive.relation, "bound": decisive.bound, "metric": str(metric)}
    if decisive.relation == "above":  # the sign of a difference of "within" has no meaning
        mean = result.average
        numbers |= {"mean_difference": mean.value, "mean_low": mean.low, "mean_high": mean.high}
    return claim_fields(result, comparisons) | numbers | tested


def _of_trend(trend: Trend) -> dict[str, Any]:
    outcome = OF_TREND.get(trend.spread.verdict, "undecided here")
    return {
        "id": f"shrink-{trend.name.replace('_', '-')}",
        "statement": text("trends", "claim", trend=trend).capitalize(),
        "quote": "",
        "source": "",
        "p_for": trend.spread.p(shrinks=True),
        "p_against": trend.spread.p(shrinks=False),
        "verdict": outcome,
        "evidence": text("trends", "spread", trend=trend),
        "n": trend.spread.change.change.n,
        "metric": str(trend.metric),
        "_mark": outcome.replace(" ", "-"),
    }
