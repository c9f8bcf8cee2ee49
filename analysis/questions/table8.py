"""How does the study compare with Table 8 of the ViT paper?"""

import math
from collections.abc import Sequence

import pandas as pd

from analysis import words
from analysis.claims.claim import variant_settings
from analysis.claims.literature import PAPER_TABLE_8, paper_places
from analysis.findings import Findings
from analysis.findings.columns import verdict_fields
from analysis.verdicts import UNKNOWN, Estimate
from analysis.write.document import Section
from analysis.write.table import Column, Table

SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The columns of Table 8 with the paper's own heads."""


def question(findings: Findings) -> Section | None:
    """The paper's table with this study's means; nothing for a study that does not vary its kinds and sites."""
    study, means = findings.study, findings.means
    places = paper_places(study.metric, study.varied, variant_settings(study.plan, means.values))
    if not places:
        return None
    return Section("paper", "Table 8 of the ViT paper", [paper_table(places, findings)])


def paper_table(places: dict[tuple[str, str], str], findings: Findings) -> Table:
    """The paper's figure and this study's mean in each cell, with the verdict; `places`: see `paper_places`."""
    metric, variants = findings.means.metric, findings.variants

    def fields(kind: str, site: str) -> dict[str, object]:
        variant, published = places.get((kind, site)), PAPER_TABLE_8.get((kind, site), math.nan)
        mean = findings.means.of(variant) if variant else UNKNOWN
        verdict = verdict_fields(findings.comparisons.versus[variant])["_verdict_mark"] if variant else ""
        return {
            f"{site}_paper": published,
            f"{site}_ours": mean.value,
            f"{site}_low": mean.low,
            f"{site}_high": mean.high,
            f"{site}_n": mean.n if variant else None,
            f"_{site}": (published, mean),
            f"_{site}_link": variants.anchor(variant) if variant else "",
            f"_{site}_mark": "" if verdict == "baseline" else verdict,
        }

    kinds = dict.fromkeys(kind for kind, _ in PAPER_TABLE_8)
    rows = [{"kind": kind} | {k: v for site in SITES for k, v in fields(kind, site).items()} for kind in kinds]
    show = _cells(words.intervals(metric))
    columns = [Column("positional embedding", "kind", key=True)]
    for site, head in SITES.items():
        label = f"{head}: paper / this study{metric.unit}"
        columns.append(Column(label, f"_{site}", show, sort=f"{site}_ours", link=f"_{site}_link", mark=f"_{site}_mark"))
    caption = (
        f"Table 8 of the ViT paper / this study ({metric.label}: mean and {words.CONFIDENCE} interval; in brackets: "
        f"number of seeds). Marks against {variants.name(variants.baseline)}: + or ▲ better, − or ▼ worse, = or ■ "
        "equivalent, × not tested."
    )
    note = (
        "Paper: ViT-B/16 on ImageNet, 5-shot linear evaluation, one number for each cell, no intervals. Compare "
        "differences between rows, not absolute accuracies. Relative attention acts in every layer; as in the paper, "
        "it is listed under Default/Stem."
    )
    return Table("table8", caption, pd.DataFrame(rows, dtype=object), tuple(columns), (note,))


def _cells(interval: words.Format) -> words.Format:
    """`61.38 / 72.2 ± 3.4 (5)`; a dash for what there is not, and nothing for a cell of neither."""

    def shown(cells: Sequence[tuple[float, Estimate]]) -> list[str]:
        ours = interval([mean for _, mean in cells])
        texts = [f"{text} ({mean.n})" if mean.n else text for text, (_, mean) in zip(ours, cells, strict=True)]
        paper = [words.number(100 * published, 2) for published, _ in cells]
        both = [f"{a} / {b}" for a, b in zip(paper, texts, strict=True)]
        return [words.DASH if text == f"{words.DASH} / {words.DASH}" else text for text in both]

    return shown
