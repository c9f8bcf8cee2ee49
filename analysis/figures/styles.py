"""How figures name and draw the variants: the same name, colour, marker and line in every figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis.figures.style import FAINT, MARKERS, ink, palette, style
from analysis.words import plain

LONGEST, LONGEST_APART = 34, 54  # characters of a name that a figure shows; where more are needed to tell names apart
MOST_DRAWN = 200  # variants up to which each has a place in a figure
ONLY_COLOURED = "Drawn: the baseline and the variants with the highest and lowest means. The tables have all."


class VariantStyle(NamedTuple):
    """How figures draw a variant."""

    colour: str
    marker: str
    dashes: str = "-"


@dataclass(frozen=True)
class Styles:
    """The variants in the figures of a study.

    `by_variant`: every variant, in order; those without a colour of their own are grey. `names`: their short names, cut
    to what a figure has room for. `coloured`: the variants with a colour, in order.
    """

    by_variant: dict[str, VariantStyle]
    names: dict[str, str]
    coloured: list[str]

    def id(self, variant: str) -> str:
        """What the ids of the variant's artists start with: `v3`."""
        return f"v{list(self.by_variant).index(variant)}"

    @property
    def drawn(self) -> list[str]:
        """The variants that have a place of their own in a figure: all, or of very many those with a colour."""
        return list(self.by_variant) if len(self.by_variant) <= MOST_DRAWN else self.coloured

    @property
    def note(self) -> str:
        """What a caption says where there are more variants than colours, with a leading space."""
        if len(self.drawn) < len(self.by_variant):
            return f" {ONLY_COLOURED}"
        return " Grey: variants without a colour of their own." if len(self.coloured) < len(self.drawn) else ""


@style()
def styles_of(names: Mapping[str, str], baseline: str, means: Mapping[str, float]) -> Styles:
    """Give each variant a colour if there are enough; else only the baseline, the best and the worst have one.

    `names`: variant -> its brief name, in order. `means`: those that are known.
    """
    colours, coloured = palette(), list(names)
    if len(names) > len(colours):
        by_mean = sorted((v for v in names if v in means and v != baseline), key=means.__getitem__)
        half = len(colours) // 2
        extremes = {baseline, *by_mean[: half - 1], *by_mean[-half:]}
        coloured = [variant for variant in names if variant in extremes]
    styles = dict.fromkeys(names, VariantStyle(FAINT, "o"))
    others = [variant for variant in coloured if variant != baseline]
    looks = zip(colours, MARKERS, ("-", "--", "-.", ":") * 2, strict=True)
    styles.update((variant, VariantStyle(*look)) for variant, look in zip(others, looks))
    styles[baseline] = VariantStyle(ink(), "D")
    return Styles(styles, dict(zip(names, shorts(list(names.values())), strict=True)), coloured)


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name that fits into a figure: the middle of a long one is left out. Tables show it in full."""
    name, end = plain(name), 2 * longest // 5
    return name if len(name) <= longest else f"{name[: longest - end - 1]}…{name[-end:]}"


def shorts(names: Sequence[str]) -> list[str]:
    """Return the names as `short` does, and longer where two different names would look the same."""
    for longest in (LONGEST, *range(LONGEST_APART, max(map(len, names), default=0), 4)):
        cut = [short(name, longest) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return [plain(name) for name in names]
