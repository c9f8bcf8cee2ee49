"""The main table: each variant's mean, its difference from the baseline, the verdict, and its cost."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from analysis import formatting
from analysis.figures import means as figures
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.report.sections.cost import cost_columns, cost_fields
from analysis.report.table import Column, Table
from analysis.report.text import text
from analysis.report.variant_columns import (
    baseline_name,
    mean_column,
    share_text,
    shown_difference,
    signed_column,
    variant_columns,
    variant_fields,
    verdict_column,
    verdict_fields,
)
from analysis.results.conduct import Conduct
from analysis.results.means import Means
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.stats.comparisons import NEAR_CHANCE

COST = ("params", "flops_per_image", "device_seconds")


class ExtraColumns(NamedTuple):
    """Columns that the main table of some studies has in addition: variant -> their fields, and notes."""

    fields: dict[str, dict[str, object]]
    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def variants_table(
    variants: Variants,
    means: Means,
    comparisons: Comparisons,
    cost: pd.DataFrame,
    conduct: Conduct,
    policy: Policy,
    extra: ExtraColumns | None = None,
) -> Table:
    """The main table. It shows how many runs diverged where any did."""
    metric, baseline = variants.metric, baseline_name(variants)
    lost = any(rate.value > 0 for rate in conduct.divergence.values())
    rows = [
        {
            **variant_fields(variants, variant),
            "n": means.of(variant).n,
            **({"diverged": conduct.divergence[variant]} if lost else {}),
            metric: means.of(variant),
            "_best": mark(variant, means, comparisons),
            "diff": comparisons.versus[variant].diff,
            "_diff": shown_difference(comparisons.versus[variant]),
            **verdict_fields(comparisons.versus[variant]),
            **(extra.fields[variant] if extra else {}),
            **cost_fields(cost, variant, COST),
        }
        for variant in variants.names
    ]
    difference = signed_column(metric, f"difference from {baseline}", "_diff")
    columns = (
        *variant_columns(variants),
        Column("n", "n", formatting.counts, note=text("variants", "n_note")),
        *([Column("diverged", "diverged", formatting.each(share_text), note=text("variants", "diverged_note"))] * lost),
        replace(mean_column(metric, metric), mark="_best"),
        replace(difference, sort="diff", link="_runs", note=text("variants", "difference_note")),
        verdict_column(),
        *(extra.columns if extra else ()),
        *(replace(column, detail=True) for column in cost_columns(COST)),
    )
    slots = {"policy": policy, "baseline": variants.baseline, "all_pairs": bool(comparisons.pairs)}
    notes = (
        mark_note(means, comparisons, policy),
        text("variants", "verdict_note", **slots) if variants.others else "",
        *(extra.notes if extra else ()),
        text("study", "counts", conduct=conduct),
    )
    caption = text("variants", "caption", metric=metric)
    return Table("variants", caption, pd.DataFrame(rows, dtype=object), columns, tuple(filter(None, notes)))


def mark(variant: str, means: Means, comparisons: Comparisons) -> str:
    """ "equal" for a variant shown to be equivalent to the best, "best" for one that a test does not show to be worse.

    Without a test it is "", and so it is for all if nothing is worse than the best. A verdict that depends on diverged runs shows nothing.
    """
    best = means.best
    if best is None or not means.of(variant).n or not _some_worse(means, comparisons):
        return ""
    if means.of(variant).value == means.of(best).value:
        return "best"
    if variant in comparisons.with_verdict(best, "equivalent"):
        return "equal"
    pair = comparisons.with_variant(best).get(variant)
    return "best" if pair and (pair.verdict in ("not enough evidence", NEAR_CHANCE) or pair.depends_on_diverged) else ""


def mark_note(means: Means, comparisons: Comparisons, policy: Policy) -> str:
    """What the marks of `mark` mean."""
    tested, equal = comparisons.with_variant(means.best), comparisons.with_verdict(means.best, "equivalent")
    known = {"best_tested": bool(tested), "has_best": means.best is not None, "equal": bool(equal)}
    return text("variants", "marks", policy=policy, **known) if _some_worse(means, comparisons) else ""


def _some_worse(means: Means, comparisons: Comparisons) -> bool:
    """Whether a variant is worse than the best: shown by a test or, where the best was not tested, by its mean."""
    if comparisons.with_variant(means.best):
        return bool(comparisons.with_verdict(means.best, "better", "worse"))
    return len({mean.value for mean in means.by_metric[means.metric].values() if mean.n}) > 1


def accuracy_plot(variants: Variants, means: Means, conduct: Conduct, styles: Styles) -> Plot:
    """Return the main figure: every run and the mean of each variant."""
    metric, diverged = means.metric, conduct.counts["diverged"].to_dict()
    enlarged = bool(figures.enlarged(means))
    caption = text("variants", "figure_caption", metric=metric, enlarged=enlarged, some_grey=styles.some_grey)
    return Plot("accuracy", figures.accuracy(variants, means, styles, diverged), caption)
