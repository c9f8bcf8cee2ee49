"""Which variants a figure shows in colour, and what it calls them."""

from __future__ import annotations

from analysis.figures.style import PALETTE, short
from analysis.results import Results
from analysis.sources.study import factor_levels

MOST_COLOURED = len(PALETTE)
LEGEND_WIDTH = 88  # characters that fit on one line of a legend, with 8 for each mark


def coloured(results: Results) -> list[str]:
    """Return the variants that get a colour: all if there are enough colours, else the baseline, the best and the worst."""
    if len(results.variants) <= MOST_COLOURED:
        return results.variants
    known = sorted((v for v in results.others if results.mean(v).n), key=lambda v: results.mean(v).value)
    half = (MOST_COLOURED - 1) // 2
    chosen = {results.study.baseline, *known[:half], *known[len(known) - (MOST_COLOURED - 1 - half) :]}
    return [variant for variant in results.variants if variant in chosen]


def labels(results: Results, variants: list[str]) -> list[str]:
    """Return the variants' names; for several factors their levels alone, if these identify every variant."""
    if len(results.study.factors) > 1:
        runs = results.study.runs.drop_duplicates("variant").set_index("variant").loc[results.variants]
        levels = zip(*(factor_levels(runs, factor) for factor in results.study.factors))
        brief = dict(zip(results.variants, (", ".join(map(str, row)) for row in levels)))
        if len(set(brief.values())) == len(brief):
            return [short(brief[variant]) for variant in variants]
    return [short(variant) for variant in variants]


def legend_columns(names: list[str]) -> int:
    """Return how many names fit side by side in a legend."""
    return max(1, min(4, LEGEND_WIDTH // (max(map(len, names)) + 8)))
