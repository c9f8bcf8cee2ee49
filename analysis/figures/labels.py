"""What figures call the variants, and the colour, marker and line that each variant has in every figure."""

from __future__ import annotations

from typing import NamedTuple

from analysis.figures.style import FAINT, INK, MARKERS, PALETTE, narrow, shorts
from analysis.results.study_results import StudyResults

MOST_COLOURED = len(PALETTE)
LEGEND_WIDTH, NARROW_LEGEND_WIDTH = 88, 44  # characters that fit on one line of a legend, with 8 for each mark


class VariantStyle(NamedTuple):
    """How figures draw a variant."""

    colour: str
    marker: str
    dashes: str


def variant_styles(results: StudyResults) -> dict[str, VariantStyle]:
    """Return the style of every variant; variants without a colour of their own are small and grey."""
    chosen = coloured(results)
    found = dict.fromkeys(results.variants.names, VariantStyle(FAINT, "o", "-"))
    others = [variant for variant in chosen if variant != results.study.baseline]
    for index, variant in enumerate(others):
        found[variant] = VariantStyle(PALETTE[index], MARKERS[index], ("-", "--", "-.", ":")[index % 4])
    return {**found, results.study.baseline: VariantStyle(INK, "D", "-")}


def coloured(results: StudyResults) -> list[str]:
    """Return the variants that get a colour: all if there are enough colours, else the baseline, the best and the worst."""
    if len(results.variants.names) <= MOST_COLOURED:
        return results.variants.names
    known = sorted((v for v in results.others if results.mean(v).n), key=lambda v: results.mean(v).value)
    half = (MOST_COLOURED - 1) // 2
    chosen = {results.study.baseline, *known[:half], *known[len(known) - (MOST_COLOURED - 1 - half) :]}
    return [variant for variant in results.variants.names if variant in chosen]


def brief_names(results: StudyResults) -> dict[str, str]:
    """Return a short name for every variant."""
    return results.variants.brief


def labels(results: StudyResults, variants: list[str]) -> list[str]:
    """Return the short names of variants, cut to what a figure has room for."""
    brief = brief_names(results)
    shown = dict(zip(brief, shorts(list(brief.values())), strict=True))
    return [shown[variant] for variant in variants]


def legend_columns(names: list[str]) -> int:
    """Return how many names fit side by side in a legend."""
    width = NARROW_LEGEND_WIDTH if narrow() else LEGEND_WIDTH
    return max(1, min(4, width // (max(map(len, names)) + 8)))
