"""Table 8 of the ViT paper (arXiv 2010.11929) with this study's results beside it.

Only a study with the paper's own factors and kinds has this table. The figures themselves are in `analysis.claims`.
"""

from __future__ import annotations

import math

from analysis import formatting
from analysis.claims.literature import PAPER_TABLE_8
from analysis.claims.settings import KIND, SITE, site_of, variant_settings
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import anchor, estimate_cell, mark, mark_note
from analysis.results.study_results import StudyResults

SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The table's columns with the paper's own heads."""

NOTE = (
    "Paper: ViT-B/16 on ImageNet, 5-shot linear evaluation, one run for each cell, no intervals. Compare differences "
    "between rows, not absolute accuracies. Relative attention acts in every layer; as in the paper, it is listed under "
    "Default/Stem."
)


def paper_table(results: StudyResults) -> Table | None:
    """Return the paper's table, kinds by sites, with this study's means; None for any other study."""
    places = _places(results)
    if not places:
        return None
    ours = {place: variant for variant, place in places.items()}
    kinds = list(dict.fromkeys(kind for kind, _ in PAPER_TABLE_8))
    metric = results.study.metric
    head = [Column("positional embedding", ("kind",), numeric=False)]
    for site, name in SITES.items():
        fields = tuple(f"{site}_{part}" for part in ("ours", "low", "high", "n"))
        head += [Column(f"{name}: paper, %", (f"{site}_paper",)), Column(f"{name}: this study{metric.unit}", fields)]
    rows = []
    for kind in kinds:
        row = [Cell(kind, (kind,))]
        for site in SITES:
            paper = PAPER_TABLE_8.get((kind, site), math.nan)
            row += [Cell(formatting.number(100 * paper, 2), (paper,), paper), _ours(results, ours.get((kind, site)))]
        rows.append(tuple(row))
    caption = (
        f"Table 8 of the ViT paper and this study ({metric.label}: mean ± half-width of the 95 % interval; in brackets: "
        "number of seeds)."
    )
    return Table("table8", caption, tuple(head), tuple(rows), (NOTE, mark_note(results)))


def _ours(results: StudyResults, variant: str | None) -> Cell:
    if variant is None:
        return Cell(formatting.DASH, sort=math.nan)
    mean = results.mean(variant)
    cell = estimate_cell(mean, results.study.metric, anchor(results, variant), mark(results, variant))
    return Cell(f"{cell.text} ({mean.n})", (*cell.data, mean.n), cell.sort, cell.href, cell.mark)


def _places(results: StudyResults) -> dict[str, tuple[str, str]]:
    """variant -> its (kind, site) in the paper's table; empty unless the study has the paper's factors and kinds.

    That is: the factors are the kind, the site or both, the metric is an accuracy, and no images are shuffled or generated.
    """
    study = results.study
    paths = set(study.varied)
    if KIND not in paths or not paths <= {KIND, SITE} or not study.metric.is_accuracy:
        return {}
    places = {}
    for variant, settings in variant_settings(study.plan, results.values).items():
        kind, site = str(settings.get(KIND)), str(settings.get(SITE))
        places[variant] = (kind, "stem" if (kind, "stem") in PAPER_TABLE_8 and site == site_of(kind) else site)
    known = {kind for kind, _ in PAPER_TABLE_8}
    return places if len(places) > 1 and all(kind in known for kind, _ in places.values()) else {}
