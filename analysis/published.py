"""The paper's table of positional embeddings (arXiv 2010.11929, Table 8) beside ours. The figures themselves are
`claims`'.
"""

from __future__ import annotations

import math

from analysis import numbers
from analysis.cells import anchor, baseline_name, mark
from analysis.claims import KIND, PAPER_TABLE_8, SITE, paper_accuracy, site_of, variant_settings
from analysis.findings import Findings
from analysis.render import Beside, Cell, Column, Table

SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The table's columns as the paper heads them; relative attention, which acts in every layer, stands under the first.
"""
NOTE = (
    "The paper's figures are of ViT-B/16 on ImageNet, 5-shot linear, one run a cell, with no intervals: compare their "
    "differences with ours, not their height. Relative attention acts in every layer, and stands in the column where the "
    "paper has it."
)


def beside(findings: Findings) -> Beside:
    """What a table of variants adds where the position is under study and the paper has a figure for it; else nothing."""
    known = _known(findings)
    if not known:
        return Beside()
    baseline = findings.study.baseline
    head = f"paper: difference to {baseline_name(findings)}, points"
    columns = Column("paper, %", ("paper",), help="arXiv 2010.11929, Table 8"), Column(head, ("paper_diff",))

    def cells(variant: str) -> tuple[Cell, ...]:
        paper = known.get(variant, math.nan)
        less = paper - known.get(baseline, math.nan) if variant != baseline else math.nan
        return (
            Cell(numbers.number(100 * paper, 2), (paper,), paper),
            Cell(numbers.number(100 * less, 2, signed=True), (less,), less),
        )

    return Beside(columns, cells, (NOTE,))


def table8(findings: Findings) -> Table | None:
    """The paper's layout, kinds by sites, with ours beside it; None for a study of anything else besides these two."""
    study = findings.study
    if not _known(findings) or not _paths(findings) <= {KIND, SITE}:
        return None
    ours = {place: variant for variant, place in _places(findings).items()}
    kinds = list(dict.fromkeys([*(kind for kind, _ in PAPER_TABLE_8), *(kind for kind, _ in ours)]))
    sites = [site for site in SITES if any((kind, site) in ours or (kind, site) in PAPER_TABLE_8 for kind in kinds)]
    head = [Column("position", ("kind",), numeric=False)]
    for site in sites:
        head += [
            Column(f"{SITES[site]}: paper, %", (f"{site}_paper",)),
            Column(
                f"{SITES[site]}: ours{numbers.unit(study.metric)}",
                tuple(f"{site}_{part}" for part in ("ours", "low", "high", "n")),
            ),
        ]
    rows = []
    for kind in kinds:
        row = [Cell(kind, (kind,))]
        for site in sites:
            paper = PAPER_TABLE_8.get((kind, site), math.nan)
            row += [Cell(numbers.number(100 * paper, 2), (paper,), paper), _ours(findings, ours.get((kind, site)))]
        rows.append(tuple(row))
    caption = (
        f"The paper's Table 8 beside ours ({numbers.label(study.metric)}: mean ± half of its 95 % interval, runs in "
        "brackets)."
    )
    bold = ("Bold: our best mean." + (" †: shown to be equivalent to it." if findings.equal_to_best else ""),)
    return Table("table8", caption, tuple(head), tuple(rows), (*bold, NOTE))


def _ours(findings: Findings, variant: str | None) -> Cell:
    if variant is None:
        return Cell(numbers.DASH, sort=math.nan)
    mean, metric = findings.mean(variant), findings.study.metric
    text = f"{numbers.with_interval(mean, numbers.scale(metric))} ({mean.n})"
    return Cell(
        text, (mean.value, mean.low, mean.high, mean.n), mean.value, anchor(findings, variant), mark(findings, variant)
    )


def _known(findings: Findings) -> dict[str, float]:
    """variant -> the paper's accuracy; empty unless the position is a factor, the metric an accuracy and two cells or
    more are known, controls aside.
    """
    if KIND not in _paths(findings) or not numbers.is_share(findings.study.metric):
        return {}
    found = {variant: paper_accuracy(*place) for variant, place in _places(findings).items()}
    known = {variant: value for variant, value in found.items() if value is not None}
    return known if len(known) > 1 else {}


def _places(findings: Findings) -> dict[str, tuple[str, str]]:
    """variant -> (kind, site), with relative attention where the paper puts it; without controls."""
    places = {}
    for variant, settings in variant_settings(findings.study.plan, findings.values).items():
        if KIND in settings:
            kind, at = str(settings[KIND]), settings[SITE]
            places[variant] = (kind, "stem" if (kind, "stem") in PAPER_TABLE_8 and at == site_of(kind) else at)
    return places


def _paths(findings: Findings) -> set[str]:
    return {path for factor in findings.study.factors for path in factor.split("+")}
