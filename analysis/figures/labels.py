"""What figures call the variants, and the colour, marker and line that each variant has in every figure."""

from __future__ import annotations

from typing import NamedTuple

from analysis.figures.style import FAINT, INK, MARKERS, PALETTE, narrow, shorts
from analysis.formatting import factor_name, level_name
from analysis.results import Results
from analysis.sources.runs_table import factor_levels

MOST_COLOURED = len(PALETTE)
LEGEND_WIDTH, NARROW_LEGEND_WIDTH = 88, 44  # characters that fit on one line of a legend, with 8 for each mark


class VariantStyle(NamedTuple):
    """How figures draw a variant."""

    colour: str
    marker: str
    dashes: str


def variant_styles(results: Results) -> dict[str, VariantStyle]:
    """Return the style of every variant; variants without a colour of their own are small and grey."""
    chosen = coloured(results)
    found = dict.fromkeys(results.variants, VariantStyle(FAINT, "o", "-"))
    others = [variant for variant in chosen if variant != results.study.baseline]
    for index, variant in enumerate(others):
        found[variant] = VariantStyle(PALETTE[index], MARKERS[index], ("-", "--", "-.", ":")[index % 4])
    return {**found, results.study.baseline: VariantStyle(INK, "D", "-")}


def coloured(results: Results) -> list[str]:
    """Return the variants that get a colour: all if there are enough colours, else the baseline, the best and the worst."""
    if len(results.variants) <= MOST_COLOURED:
        return results.variants
    known = sorted((v for v in results.others if results.mean(v).n), key=lambda v: results.mean(v).value)
    half = (MOST_COLOURED - 1) // 2
    chosen = {results.study.baseline, *known[:half], *known[len(known) - (MOST_COLOURED - 1 - half) :]}
    return [variant for variant in results.variants if variant in chosen]


def brief_names(results: Results) -> dict[str, str]:
    """Return a short name for every variant: its levels, numbers with the name of the factor (`none, depth = 2`).

    It is the variant's own name where the levels do not identify every variant.
    """
    names = [factor_name(factor, results.study.names) for factor in results.study.factors]
    if not names:
        return {variant: variant for variant in results.variants}
    if len(names) == 1:
        return {variant: level_name(names[0], variant) for variant in results.variants}
    runs = results.study.runs.drop_duplicates("variant").set_index("variant").loc[results.variants]
    levels = zip(*(factor_levels(runs, factor) for factor in results.study.factors), strict=True)
    brief = [", ".join(level_name(name, str(level)) for name, level in zip(names, row)) for row in levels]
    return dict(zip(results.variants, brief if len(set(brief)) == len(brief) else results.variants))


def labels(results: Results, variants: list[str]) -> list[str]:
    """Return the short names of variants, cut to what a figure has room for."""
    brief = brief_names(results)
    shown = dict(zip(brief, shorts(list(brief.values())), strict=True))
    return [shown[variant] for variant in variants]


def legend_columns(names: list[str]) -> int:
    """Return how many names fit side by side in a legend."""
    width = NARROW_LEGEND_WIDTH if narrow() else LEGEND_WIDTH
    return max(1, min(4, width // (max(map(len, names)) + 8)))
