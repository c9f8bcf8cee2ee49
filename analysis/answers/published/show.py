"""Published and derived figures beside a study's: claims, Table 8 of the ViT paper, limits on generated probes."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import ExtraColumns, mark, mark_note
from analysis.answers.conduct.provenance import study_file
from analysis.answers.study_results import StudyResults
from analysis.claims.check import ClaimResult
from analysis.claims.literature import PAPER_TABLE_8
from analysis.claims.theory import LEARNED, STANDARD_ERRORS, Expected, verdict
from analysis.formatting import Format
from analysis.results.means import Means
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.stats import UNKNOWN
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import paragraphs, text
from experiments.data.probes import IMAGES
from experiments.metric import Metric

ACCURACY = Metric("test/acc")  # claims are about accuracies only
SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The columns of Table 8 with the paper's own heads."""
PROBE_COLUMNS = (
    Column("expected, %", "_derived", formatting.digits, sort="derived_alone", note="derived from symmetry"),
    Column("measured", "_as_derived", note="compared with the expected accuracy"),
)
MEASURED = {"as derived": "as expected", "less": "lower", "more": "higher", "": formatting.DASH}


def claims_table(
    claims: Sequence[ClaimResult],
    variants: Variants,
    policy: Policy,
    tuned: bool,
    training: str = "",
    folded: bool = False,
) -> Table | None:
    """The table of published claims; None where the study tests none. `tuned`: whether settings were tuned by variant.

    `training`: how the runs were trained. `folded`: unless the claims are about systems of the study's own scale.
    """
    if not claims:
        return None
    frame = pd.DataFrame([claim_fields(result) for result in claims], dtype=object)
    columns = (
        Column("published claim", "statement"),
        Column("outcome", "verdict", mark="_mark"),
        Column("evidence", "evidence"),
        Column("n", "n", formatting.counts, note=text("claims", "n_note")),
        Column("source", "_source"),
    )
    notes = paragraphs("claims", "notes", claims=claims, variants=variants, policy=policy, tuned=tuned)
    folded = folded and not any(result.decisive.is_published for result in claims)
    caption = text("claims", "caption", training=training)
    return Table("claims", caption, frame, columns, tuple(notes), folded)


def claim_fields(result: ClaimResult) -> dict[str, object]:
    """The fields of a row of a table of claims."""
    return {
        "id": result.claim.id,
        "statement": result.claim.statement,
        "verdict": result.outcome,
        "evidence": evidence(result),
        "n": result.n,
        "quote": result.claim.quote,
        "source": result.claim.source,
        "_source": text("claims", "source", claim=result.claim),
        "_mark": result.outcome.replace(" ", "-"),
    }


def evidence(result: ClaimResult) -> str:
    """How many hypotheses stand as the outcome says, and the numbers of the one with the weakest support."""
    places = formatting.decimals(100 * formatting.half_width(result.estimate))
    interval = formatting.bounds(result.estimate, ACCURACY)
    return text("claims", "evidence", result=result, metric=ACCURACY, places=places, interval=interval)


def paper_table(
    places: Mapping[tuple[str, str], str],
    means: Means,
    variants: Variants,
    comparisons: Comparisons,
    policy: Policy,
    folded: bool = False,
) -> Table | None:
    """The paper's table, kinds by sites, with this study's means.

    `places`: (kind, site) -> variant, see `paper_places`.
    """
    if not places:
        return None

    def fields(kind: str, site: str) -> dict[str, object]:
        variant = places.get((kind, site))
        mean = means.of(variant) if variant else UNKNOWN
        return {
            f"{site}_paper": PAPER_TABLE_8.get((kind, site), math.nan),
            f"{site}_ours": mean.value,
            f"{site}_low": mean.low,
            f"{site}_high": mean.high,
            f"{site}_n": mean.n if variant else None,
            f"_{site}": mean,
            f"_{site}_link": variants.anchor(variant) if variant else "",
            f"_{site}_mark": mark(variant, means, comparisons) if variant else "",
        }

    kinds = dict.fromkeys(kind for kind, _ in PAPER_TABLE_8)
    rows = [{"kind": kind} | {k: v for site in SITES for k, v in fields(kind, site).items()} for kind in kinds]
    columns, show = [Column("positional embedding", "kind")], _with_seeds(formatting.intervals(means.metric))
    for site, head in SITES.items():
        ours = f"{head}: this study{means.metric.unit}"
        columns.append(Column(f"{head}: paper, %", f"{site}_paper", formatting.numbers(2, 100)))
        columns.append(Column(ours, f"_{site}", show, link=f"_{site}_link", mark=f"_{site}_mark"))
    caption = text("claims", "paper_caption", metric=means.metric)
    notes = text("claims", "paper_note"), mark_note(means, comparisons, policy)
    return Table("table8", caption, pd.DataFrame(rows, dtype=object), tuple(columns), notes, folded)


def _with_seeds(interval: Format) -> Format:
    """`97.12 ± 0.43 (5)`"""
    return lambda means: [f"{shown} ({mean.n})" if mean.n else shown for shown, mean in zip(interval(means), means)]


def probe_columns(expected: Mapping[str, Expected], means: Means) -> ExtraColumns | None:
    """The columns that the main table has in addition where runs used a probe.

    `expected`: variant -> its accuracies.
    """
    if not expected:
        return None
    chances = sorted({float(known.chance) for known in expected.values()})
    limits = {"learned": LEARNED, "errors": STANDARD_ERRORS, "images": IMAGES["test"]}
    measured = means.by_metric[means.metric]
    fields = {variant: _probe_fields(expected.get(variant), mean.value) for variant, mean in measured.items()}
    return ExtraColumns(fields, PROBE_COLUMNS, tuple(paragraphs("claims", "probe_notes", chances=chances, **limits)))


def _probe_fields(known: Expected | None, measured: float) -> dict[str, object]:
    outcome = verdict(known, measured) if known else ""
    shares = {f"derived_{part}": float(getattr(known, part, "nan")) for part in ("chance", "alone", "border")}
    texts = dict.fromkeys(f"{100 * shares[f'derived_{part}']:.4g}" for part in ("alone", "border"))
    shown = {"_derived": " to ".join(texts) if known else formatting.DASH, "_as_derived": MEASURED[outcome]}
    return {**shares, "as_derived": outcome, **shown}


def answer(results: StudyResults, page: Page) -> Answer:
    """Table 8 of the ViT paper with this study's means, and the published claims that the study tests."""

    def sections() -> list[Section]:
        study, variants, compared, policy = results.study, results.variants, results.comparisons, results.policy
        folded = not study.plan.command or study_file(study.plan.command) is not None  # no built-in study
        table = paper_table(results.paper, results.means, variants, compared, policy, folded)
        tuned, training = results.tuning is not None, text("study", "training", study=study)
        claims = claims_table(results.claims, variants, policy, tuned, training, folded)
        return [
            Section("paper", "Published figures: ViT paper, Table 8", present(table)),
            Section("claims", "Published claims", present(claims)),
        ]

    return Answer(sections)
