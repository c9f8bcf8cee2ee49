"""The main table: each variant's mean, its difference from the baseline, the verdict, and its cost."""

from dataclasses import replace

from analysis import formatting, stats
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import (
    FEWEST_LETTERS,
    VERDICT,
    baseline_name,
    difference_column,
    difference_fields,
    mark,
    mark_note,
    mean_column,
    share_text,
    variant_table,
    verdict_fields,
)
from analysis.answers.cost.show import cost_columns, cost_fields
from analysis.answers.published.show import probe_columns
from analysis.answers.study_results import StudyResults
from analysis.figures import means as figures
from analysis.figures.style import Plot
from analysis.results.means import Means
from analysis.results.policy import Comparisons
from analysis.write.document import Section
from analysis.write.table import Column, Table
from analysis.write.text import text

COST = ("params", "flops_per_image", "device_seconds")


def variants_table(results: StudyResults) -> Table:
    """The main table. It shows how many runs diverged where any did."""
    variants, means, comparisons, conduct = results.variants, results.means, results.comparisons, results.conduct
    metric, baseline, extra = variants.metric, baseline_name(variants), probe_columns(results.expected, means)
    letters = variant_letters(means, comparisons)
    letters_note = text("variants", "letters_note", margin=variants.margin) if letters else ""
    lost = any(rate.value > 0 for rate in conduct.divergence.values())
    rows = {
        variant: {
            "n": means.of(variant).n,
            **({"diverged": conduct.divergence[variant]} if lost else {}),
            metric: means.of(variant),
            "_best": mark(variant, means, comparisons),
            **difference_fields(comparisons.versus[variant]),
            **verdict_fields(comparisons.versus[variant]),
            **({"letters": letters.get(variant, "")} if letters else {}),
            **(extra.fields[variant] if extra else {}),
            **cost_fields(results.cost, variant, COST),
        }
        for variant in variants.names
    }
    difference = difference_column(metric, f"difference from {baseline}")
    columns = (
        Column("n", "n", formatting.counts, note=text("variants", "n_note")),
        *([Column("diverged", "diverged", formatting.each(share_text), note=text("variants", "diverged_note"))] * lost),
        replace(mean_column(metric, metric), mark="_best"),
        *([Column("letters", "letters", note=letters_note)] if letters else []),
        replace(difference, link="_runs"),
        VERDICT,
        *(extra.columns if extra else ()),
        *(replace(column, detail=True) for column in cost_columns(COST)),
    )
    slots = {"policy": results.policy, "baseline": variants.baseline, "all_pairs": bool(comparisons.pairs)}
    notes = (
        f"Letters: {letters_note}." if letters else "",
        mark_note(means, comparisons, results.policy),
        text("variants", "verdict_note", **slots) if variants.others else "",
        *(extra.notes if extra else ()),
        text("study", "counts", conduct=conduct),
    )
    caption = text("variants", "caption", metric=metric)
    return variant_table("variants", caption, variants, rows, columns, tuple(filter(None, notes)))


def variant_letters(means: Means, comparisons: Comparisons) -> dict[str, str]:
    """Variant -> the letters of `compact_letters`, the best first; empty for few variants or without all pairs."""
    if len(comparisons.versus) < FEWEST_LETTERS or not comparisons.pairs:
        return {}
    known = [variant for variant in comparisons.versus if means.of(variant).n > 1]
    ordered = sorted(known, key=lambda variant: means.of(variant).value, reverse=not means.metric.lower_is_better)
    return stats.compact_letters(ordered, [pair for pair in comparisons.ranked if set(pair) <= set(known)])


def answer(results: StudyResults, page: Page) -> Answer:
    """The main table and figure."""
    means, diverged = results.means, results.conduct.counts["diverged"].to_dict()

    def sections() -> list[Section]:
        heading = "Results" if results.factors.model is None else "Combinations"
        slots = {"enlarged": bool(figures.enlarged(means)), "some_grey": page.styles.some_grey}
        caption = text("variants", "figure_caption", metric=means.metric, **slots)
        figure = figures.accuracy(results.variants, means, page.styles, diverged)
        return [Section("result", heading, [variants_table(results), Plot("accuracy", figure, caption)])]

    return Answer(sections)
