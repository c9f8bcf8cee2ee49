"""The paper's table of positional embeddings (arXiv 2010.11929, Table 8) beside ours. The figures themselves are
`claims`'.
"""

from __future__ import annotations

import math

from analysis import formatting
from analysis.claims.literature import PAPER_TABLE_8, paper_accuracy
from analysis.claims.settings import KIND, SITE, site_of, variant_settings
from analysis.report.cells import anchor, baseline_name, mark
from analysis.report.render import Cell, Column, ExtraColumns, Table
from analysis.results import Results

SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The table's columns as the paper heads them; relative attention, which acts in every layer, stands under the first.
"""
NOTE = (
    "The paper's figures are of ViT-B/16 on ImageNet, 5-shot linear, one run a cell, with no intervals: compare their "
    "differences with ours, not their height. Relative attention acts in every layer, and stands in the column where the "
    "paper has it."
)


def beside(results: Results) -> ExtraColumns:
    """What a table of variants adds where the position is under study and the paper has a figure for it; else nothing."""
    known = _known(results)
    if not known:
        return ExtraColumns()
    baseline = results.study.baseline
    head = f"paper: difference to {baseline_name(results)}, points"
    columns = Column("paper, %", ("paper",), help="arXiv 2010.11929, Table 8"), Column(head, ("paper_diff",))

    def cells(variant: str) -> tuple[Cell, ...]:
        paper = known.get(variant, math.nan)
        less = paper - known.get(baseline, math.nan) if variant != baseline else math.nan
        return (
            Cell(formatting.number(100 * paper, 2), (paper,), paper),
            Cell(formatting.number(100 * less, 2, signed=True), (less,), less),
        )

    return ExtraColumns(columns, cells, (NOTE,))


def table8(results: Results) -> Table | None:
    """The paper's layout, kinds by sites, with ours beside it; None for a study of anything else besides these two."""
    study = results.study
    if not _known(results) or not _paths(results) <= {KIND, SITE}:
        return None
    ours = {place: variant for variant, place in _places(results).items()}
    kinds = list(dict.fromkeys([*(kind for kind, _ in PAPER_TABLE_8), *(kind for kind, _ in ours)]))
    sites = [site for site in SITES if any((kind, site) in ours or (kind, site) in PAPER_TABLE_8 for kind in kinds)]
    head = [Column("position", ("kind",), numeric=False)]
    for site in sites:
        head += [
            Column(f"{SITES[site]}: paper, %", (f"{site}_paper",)),
            Column(
                f"{SITES[site]}: ours{study.metric.unit}",
                tuple(f"{site}_{part}" for part in ("ours", "low", "high", "n")),
            ),
        ]
    rows = []
    for kind in kinds:
        row = [Cell(kind, (kind,))]
        for site in sites:
            paper = PAPER_TABLE_8.get((kind, site), math.nan)
            row += [Cell(formatting.number(100 * paper, 2), (paper,), paper), _ours(results, ours.get((kind, site)))]
        rows.append(tuple(row))
    caption = (
        f"The paper's Table 8 beside ours ({study.metric.label}: mean ± half of its 95 % interval, runs in brackets)."
    )
    bold = ("Bold: our best mean." + (" †: shown to be equivalent to it." if results.equal_to_best else ""),)
    return Table("table8", caption, tuple(head), tuple(rows), (*bold, NOTE))


def _ours(results: Results, variant: str | None) -> Cell:
    if variant is None:
        return Cell(formatting.DASH, sort=math.nan)
    mean, metric = results.mean(variant), results.study.metric
    text = f"{formatting.with_interval(mean, metric.scale)} ({mean.n})"
    return Cell(
        text, (mean.value, mean.low, mean.high, mean.n), mean.value, anchor(results, variant), mark(results, variant)
    )


def _known(results: Results) -> dict[str, float]:
    """variant -> the paper's accuracy; empty unless the position is a factor, the metric an accuracy and two cells or
    more are known, controls aside.
    """
    if KIND not in _paths(results) or not results.study.metric.is_share:
        return {}
    found = {variant: paper_accuracy(*place) for variant, place in _places(results).items()}
    known = {variant: value for variant, value in found.items() if value is not None}
    return known if len(known) > 1 else {}


def _places(results: Results) -> dict[str, tuple[str, str]]:
    """variant -> (kind, site), with relative attention where the paper puts it; without controls."""
    places = {}
    for variant, settings in variant_settings(results.study.plan, results.values).items():
        if KIND in settings:
            kind, at = str(settings[KIND]), settings[SITE]
            places[variant] = (kind, "stem" if (kind, "stem") in PAPER_TABLE_8 and at == site_of(kind) else at)
    return places


def _paths(results: Results) -> set[str]:
    return {path for factor in results.study.factors for path in factor.split("+")}
