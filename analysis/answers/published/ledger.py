"""The ledger: what the studies of a folder say about published claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.answers.published.show import claim_fields
from analysis.answers.study_results import StudyResults, study_claims
from analysis.claims.check import ClaimResult
from analysis.claims.literature import published_claims
from analysis.figures.ledger import OUTCOMES, draw_ledger
from analysis.figures.style import Plot
from analysis.results.means import study_means
from analysis.results.policy import study_comparisons, study_policy
from analysis.results.variants import study_variants
from analysis.sources.read import explore
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import paragraphs, text
from experiments.metric import PERMUTED, Metric

ALL_OUTCOMES = (*OUTCOMES, "not comparable")
DECIDED = ("holds here", "does not hold here")
OWN = (
    Column("claim", "id", key=True),
    Column("statement", "statement"),
    *(Column(outcome, outcome) for outcome in ALL_OUTCOMES),
    Column("groups", "groups", formatting.counts),
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


def ledger_rows(results: StudyResults, families: int = 1) -> list[dict[str, Any]]:
    """What a study says about each claim, by its own metric and by its accuracies on other test images.

    `families`: how many times as strict the intervals are.
    """
    study, rows = results.study, list[dict[str, Any]]()
    for metric in dict.fromkeys([study.metric, *study.metrics]):
        larger = metric.img_size and metric.base == study.metric
        if metric == study.metric or larger or (metric == PERMUTED and study.metric == "test/acc"):
            other = explore(study, metric, None)
            policy, means = study_policy(other), study_means(other)
            policy = replace(policy, families=families * policy.families)
            comparisons = study_comparisons(study_variants(other), means.values, policy)
            rows += [_of_claim(result, metric) for result in study_claims(other, means, policy, comparisons)]
    setting = text("study", "training", study=study)
    return [{**row, "setting": setting, "_own": row["metric"] == study.metric} for row in rows]


def mark_strict(rows: Sequence[dict[str, Any]], strict: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, and whether an outcome that is decided is the same in the `strict` rows; None for other outcomes."""

    def key(row: Mapping[str, Any]) -> tuple[str, ...]:
        return row["study"], row["metric"], row["id"]

    known = {key(row): row["verdict"] for row in strict}
    decided = [row["verdict"] in DECIDED for row in rows]
    same = [known.get(key(row)) == row["verdict"] for row in rows]
    return [row | {"also_on_page": stays if here else None} for row, stays, here in zip(rows, same, decided)]


def ledger_section(rows: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[str]]) -> list[Section]:
    """The section on all claims, in the order in which they are known; none without claims. Each row has its `study`.

    `groups`: of studies that share runs, see `independent_groups`.
    """
    if not rows:
        return []
    order = {claim.id: place for place, claim in enumerate(published_claims())}
    frame = pd.DataFrame(sorted(rows, key=lambda row: order.get(row["id"], len(order))), dtype=object)
    frame["_page"] = frame["also_on_page"].map({True: "yes", False: "no"}).fillna(formatting.DASH)
    claims = frame.drop_duplicates("id")[["id", "statement", "quote", "source", "_source"]]
    for outcome in ALL_OUTCOMES:
        decided = frame[frame["verdict"] == outcome]
        claims[outcome] = [_by_setting(decided[decided["id"] == id]) for id in claims["id"]]
    group = {study: place for place, studies in enumerate(groups) for study in studies}
    claims["groups"] = [frame.loc[frame["id"] == id, "study"].map(group).nunique() for id in claims["id"]]
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


def _of_claim(result: ClaimResult, metric: Metric) -> dict[str, Any]:
    interval, decisive = result.estimate, result.decisive
    numbers = {"value": interval.value, "adjusted_low": interval.low, "adjusted_high": interval.high}
    tested = {"relation": decisive.relation, "bound": decisive.bound, "metric": str(metric)}
    return claim_fields(result) | numbers | tested
