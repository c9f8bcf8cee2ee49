"""Table 8 of the ViT paper (arXiv 2010.11929) with this study's results beside it.

Only a study with the paper's own factors and kinds has this table. The figures themselves are in `analysis.claims`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from analysis import formatting
from analysis.claims.literature import PAPER_TABLE_8
from analysis.report import formats
from analysis.report.sections.variants import mark, mark_note
from analysis.report.table import Column, Format, Table
from analysis.report.text import text
from analysis.results.comparisons import Comparisons
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import Estimate

SITES = {"stem": "Default/Stem", "every-layer": "Every Layer", "every-layer-shared": "Every Layer-Shared"}
"""The table's columns with the paper's own heads."""
NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


def paper_table(
    places: Mapping[tuple[str, str], str], means: Means, variants: Variants, comparisons: Comparisons, policy: Policy
) -> Table | None:
    """The paper's table, kinds by sites, with this study's means. `places`: (kind, site) -> variant, see `paper_places`."""
    if not places:
        return None
    metric, kinds = means.metric, list(dict.fromkeys(kind for kind, _ in PAPER_TABLE_8))
    frame = pd.DataFrame({"kind": kinds})
    columns = [Column("positional embedding", formats.text("kind"), numeric=False)]
    for site, head in SITES.items():
        here = [places.get((kind, site)) for kind in kinds]
        ours = [means.of(variant) if variant else NOTHING for variant in here]
        frame[f"{site}_paper"] = [PAPER_TABLE_8.get((kind, site), math.nan) for kind in kinds]
        frame[f"{site}_ours"] = [mean.value for mean in ours]
        frame[f"{site}_low"] = [mean.low for mean in ours]
        frame[f"{site}_high"] = [mean.high for mean in ours]
        frame[f"{site}_n"] = pd.Series([mean.n if variant else None for mean, variant in zip(ours, here)], dtype=object)
        frame[f"_{site}_link"] = [variants.anchor(variant) if variant else "" for variant in here]
        frame[f"_{site}_mark"] = [mark(variant, means, comparisons) if variant else "" for variant in here]
        interval = formats.interval(f"{site}_ours", metric, low=f"{site}_low", high=f"{site}_high")
        columns += [
            Column(f"{head}: paper, %", formats.number(f"{site}_paper", 2, 100), sort=f"{site}_paper"),
            Column(
                f"{head}: this study{metric.unit}",
                _with_seeds(interval, f"{site}_n"),
                sort=f"{site}_ours",
                link=f"_{site}_link",
                mark=f"_{site}_mark",
            ),
        ]
    caption = text("claims", "paper_caption", metric=metric)
    notes = text("claims", "paper_note"), mark_note(means, comparisons, policy)
    return Table("table8", caption, frame, tuple(columns), notes)


def _with_seeds(interval: Format, count: str) -> Format:
    """`97.12 ± 0.43 (5)`"""
    return lambda frame: [
        shown if shown == formatting.DASH else f"{shown} ({n})" for shown, n in zip(interval(frame), frame[count])
    ]
