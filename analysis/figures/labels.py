"""What figures call the variants, and the colour, marker and line that each variant has in every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analysis.figures.style import FAINT, INK, MARKERS, PALETTE
from analysis.formatting import plain
from analysis.results.study_results import StudyResults

MOST_COLOURED = len(PALETTE)
LONGEST, LONGEST_APART = 34, 54  # characters of a name that a figure shows; where more are needed to tell names apart


class VariantStyle(NamedTuple):
    """How figures draw a variant."""

    colour: str
    marker: str
    dashes: str = "-"


def numbered_style(index: int) -> VariantStyle:
    """Return the style of the variant with this number; it is grey and small where the palette has no more colours."""
    if index >= len(PALETTE):
        return VariantStyle(FAINT, "o")
    return VariantStyle(PALETTE[index], MARKERS[index], ("-", "--", "-.", ":")[index % 4])


def variant_styles(results: StudyResults) -> dict[str, VariantStyle]:
    """Return the style of every variant; variants without a colour of their own are small and grey."""
    styles = dict.fromkeys(results.variants.names, VariantStyle(FAINT, "o"))
    others = [variant for variant in coloured(results) if variant != results.study.baseline]
    styles.update((variant, numbered_style(index)) for index, variant in enumerate(others))
    return {**styles, results.study.baseline: VariantStyle(INK, "D")}


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


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name that fits into a figure: the middle of a long one is left out. Tables show it in full."""
    name = plain(name)
    return name if len(name) <= longest else f"{name[: longest - 14]}…{name[-13:]}"


def shorts(names: Sequence[str]) -> list[str]:
    """Return the names as `short` does, and longer where two different names would look the same."""
    for longest in (LONGEST, *range(LONGEST_APART, max(map(len, names), default=0), 4)):
        cut = [short(name, longest) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return [plain(name) for name in names]
