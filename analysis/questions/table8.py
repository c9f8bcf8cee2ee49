"""How does the study compare with Table 8 of the ViT paper?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import verdict_mark
from analysis.findings.rows import VariantRow
from analysis.verdicts import UNKNOWN, Estimate
from analysis.write.document import Section
from analysis.write.table import Column, Key, Table, Value
from experiments.metric import Metric
from vit.registry import site_of

KIND, SITE = "model.pos_embed", "model.pos_site"
PAPER_TABLE_8: dict[tuple[str, str], float] = {
    ("none", "stem"): 0.61382,
    ("learned-1d", "stem"): 0.64206,
    ("learned-1d", "every-layer"): 0.63964,
    ("learned-1d", "every-layer-shared"): 0.64292,
    ("learned-2d", "stem"): 0.64001,
    ("learned-2d", "every-layer"): 0.64046,
    ("learned-2d", "every-layer-shared"): 0.64022,
    ("relative", "stem"): 0.64032,
}
"""(kind, site) -> accuracy: Dosovitskiy et al., arXiv 2010.11929, Table 8 (ViT-B/16, ImageNet 5-shot, one number a
cell)"""
SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The columns of Table 8 with the paper's own heads."""


def question(findings: Findings) -> Section | None:
    """The paper's table with this study's means; nothing for a study that does not vary its kinds and sites."""
    study = findings.study
    of_variants = {variant: {**study.base, **study.plan.settings(run)} for variant, run in study.plan.variants.items()}
    places = paper_places(study.metric, study.varied, of_variants)
    if not places:
        return None
    return Section("paper", "Table 8 of the ViT paper", [paper_table(places, findings)])


def paper_places(
    metric: Metric, varied: Iterable[str], settings: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], str]:
    """(kind, site) in the paper's table -> variant; empty for a study without its factors (kind, site or both), its
    kinds or an accuracy. `varied`: the settings that the study varies. `settings`: those of each variant.
    """
    varied, kinds = set(varied), {kind for kind, _ in PAPER_TABLE_8}
    if KIND not in varied or not varied <= {KIND, SITE} or not metric.is_accuracy:
        return {}
    places = {}
    for variant, values in settings.items():
        kind = str(values.get(KIND))
        site = site_of(kind, values.get(SITE))
        places[kind, "stem" if (kind, "stem") in PAPER_TABLE_8 and site == site_of(kind) else site] = variant
    return places if len(places) > 1 and all(kind in kinds for kind, _ in places) else {}


def paper_table(places: dict[tuple[str, str], str], findings: Findings) -> Table:
    """The paper's figure and this study's mean in each cell, with the verdict; `places`: see `paper_places`."""
    metric, variants, of = findings.means.metric, findings.variants, {row.variant: row for row in findings.rows}
    columns = [Column("positional embedding", str, key=True)]
    fields: dict[Key, Value] = {"kind": str}
    for site, head in SITES.items():
        own = {kind: of[variant] for (kind, at), variant in places.items() if at == site}
        column, of_site = _site(site, own)
        columns.append(replace(column, label=f"{head}: paper / this study{metric.unit}", show=_cells(metric)))
        fields |= of_site
    caption = (
        f"Table 8 of the ViT paper / this study ({metric.label}: mean and {words.CONFIDENCE} interval; in brackets: "
        f"number of seeds). Marks against {variants.name(variants.baseline)}: ▲ better, ▼ worse, ■ equivalent, × not "
        "tested, none: undecided. Compare differences between rows, not absolute accuracies."
    )
    note = (
        "Paper: ViT-B/16 on ImageNet, 5-shot linear evaluation, one number for each cell, no intervals. "
        "Relative attention acts in every layer; as in the paper, it is listed under Default/Stem."
    )
    kinds = list(dict.fromkeys(kind for kind, _ in PAPER_TABLE_8))
    return Table("table8", caption, kinds, tuple(columns), fields, (note,))


def _site(site: str, rows: Mapping[str, VariantRow]) -> tuple[Column, dict[Key, Value]]:
    """The column of a site, and its fields in CSV. `rows`: kind -> the variant with this site. A row is a kind."""

    def paper(kind: str) -> float:
        return PAPER_TABLE_8.get((kind, site), math.nan)

    def mean(kind: str) -> Estimate:
        return rows[kind].mean if kind in rows else UNKNOWN

    def mark(kind: str) -> str:
        verdict = rows[kind].comparison.verdict if kind in rows else "baseline"
        return "" if verdict == "baseline" else verdict_mark(verdict)

    fields: dict[Key, Value] = {
        f"{site}_paper": paper,
        f"{site}_ours": lambda kind: mean(kind).value,
        f"{site}_low": lambda kind: mean(kind).low,
        f"{site}_high": lambda kind: mean(kind).high,
        f"{site}_n": lambda kind: mean(kind).n if kind in rows else None,
    }
    links, ours = {kind: row.anchor for kind, row in rows.items()}, fields[f"{site}_ours"]
    return Column("", lambda kind: (paper(kind), mean(kind)), sort=ours, link=links.get, mark=mark), fields


def _cells(metric: Metric) -> words.Format:
    """`61.38 / 72.2 ± 3.4 (5)`; a dash for what there is not, and nothing for a cell of neither."""

    def shown(cells: Sequence[tuple[float, Estimate]]) -> list[str]:
        ours = words.intervals(metric)([mean for _, mean in cells])
        texts = [f"{text} ({mean.n})" if mean.n else text for text, (_, mean) in zip(ours, cells, strict=True)]
        paper = [words.number(100 * published, 2) for published, _ in cells]
        both = [f"{a} / {b}" for a, b in zip(paper, texts, strict=True)]
        return [words.DASH if text == f"{words.DASH} / {words.DASH}" else text for text in both]

    return shown
