"""The section of the learning curves."""

from __future__ import annotations

from analysis.figures import curves as figures
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.report.document import Section
from analysis.report.text import text
from analysis.results.curves import Curves


def curves_section(curves: Curves, styles: Styles) -> Section:
    """Return the figure of the learning curves; the section is empty where no run has two epochs."""
    if not curves:
        return Section("curves", "Learning curves")
    metrics, shown = [metric.label for metric in curves], styles.coloured
    counts = {"shown": len(shown), "total": len(styles.by_variant)}
    caption = text("curves", "figure_caption", metrics=metrics, **counts)
    alt = text("curves", "figure_alt", metrics=metrics, variants=shown)
    return Section("curves", "Learning curves", [Plot("curves", figures.curves(curves, styles), caption, alt)])
