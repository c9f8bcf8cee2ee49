"""How tables name variants and show comparisons: the fields of their frames, and the columns that show them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from analysis import formatting
from analysis.results.means import Means
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.stats import UNKNOWN, Comparison, Estimate
from analysis.stats.comparisons import NEAR_CHANCE
from analysis.write.table import Column, Table
from analysis.write.text import text
from experiments.metric import Metric

NAME = Column("variant", "variant", key=True)
"""The column of variants in a report on several studies, which has no table of runs."""
VERDICT = Column("verdict", "verdict", mark="_verdict_mark")
"""The column of verdicts, as `verdict_fields` makes them."""
FEWEST_LETTERS = 8  # variants from which letters show what differs, instead of a table of all pairs
LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"


def variant_fields(variants: Variants, variant: str) -> dict[str, object]:
    """The variant and its levels in a grid; `_name`, `_place` and `_runs`: its brief name, its order, its runs."""
    levels = {} if variants.levels is None else variants.levels.loc[variant].to_dict()
    place = {"_place": variants.names.index(variant), "_runs": variants.anchor(variant)}
    return {"variant": variant, **levels, "_name": variants.brief[variant], **place}


def variant_columns(variants: Variants) -> tuple[Column, ...]:
    """The columns that identify a variant: one for each factor of a grid, else one with its name."""
    columns = {"_name": "variant"} if variants.levels is None else variants.factors
    shown = [Column(label, field, key=True, sort="_place") for field, label in columns.items()]
    return (replace(shown[0], link="_runs"), *shown[1:])


def variant_table(
    name: str,
    caption: str,
    variants: Variants,
    rows: Mapping[str, Mapping[str, object]],
    columns: Iterable[Column],
    notes: tuple[str, ...] = (),
) -> Table:
    """A table with a row for each variant; `rows`: variant -> its data."""
    frame = pd.DataFrame([{**variant_fields(variants, variant), **row} for variant, row in rows.items()], dtype=object)
    return Table(name, caption, frame, (*variant_columns(variants), *columns), notes)


def baseline_name(variants: Variants) -> str:
    """What the head of a column calls the baseline: its name, unless that is long or has commas."""
    name = variants.brief[variants.baseline]
    return name if len(name) <= LONG_NAME and "," not in name else "the baseline"


def mean_column(metric: Metric, field: str, prefix: str = "", detail: bool = False) -> Column:
    """The column of a metric's mean."""
    label = f"{prefix}{metric.label}{metric.unit}"
    return Column(label, field, formatting.intervals(metric), link="_runs", detail=detail)


def signed_column(metric: Metric, label: str, field: str) -> Column:
    """The column of a difference with its interval."""
    return Column(f"{label}{metric.difference_unit}", field, formatting.intervals(metric, signed=True))


def verdict_fields(compared: Comparison) -> dict[str, object]:
    """The verdict, with whether it depends on diverged runs; and its colour."""
    shown = compared.verdict + (f" (shown at {compared.shown_at} seeds)" if compared.shown_at else "")
    shown += " (no common seed)" * (compared.n == 0)
    shown += f" (finished runs alone: {compared.verdict_of_finished})" if compared.depends_on_diverged else ""
    return {"verdict": shown, "_verdict_mark": compared.verdict.replace(" ", "-")}


def difference_fields(compared: Comparison) -> dict[str, object]:
    """The difference with the interval of the pair alone, and the adjusted one, which tables show."""
    shown = UNKNOWN if compared.verdict == "baseline" else compared.adjusted
    return {
        "diff": compared.diff,
        "adjusted_low": compared.adjusted.low,
        "adjusted_high": compared.adjusted.high,
        "_diff": shown,
    }


def difference_column(metric: Metric, label: str = "difference") -> Column:
    """The column of differences with the interval of which the verdict is read."""
    shown = signed_column(metric, f"{label} [interval]", "_diff")
    return replace(shown, sort="diff", note=text("variants", "difference_note"))


def share_text(share: Estimate) -> str:
    """`20 % (0.5 to 72)`: a share with its interval."""
    if not math.isfinite(share.value):
        return formatting.DASH
    low, high = (formatting.number(100 * bound, 1) for bound in (share.low, share.high))
    return f"{formatting.number(100 * share.value, 0)} % ({low} to {high})"


class ExtraColumns(NamedTuple):
    """Columns that the main table of some studies has in addition: variant -> their fields, and notes."""

    fields: dict[str, dict[str, object]]
    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def mark(variant: str, means: Means, comparisons: Comparisons) -> str:
    """ "equal" for a variant shown to be equivalent to the best, "best" for one that a test does not show to be worse.

    Without a test it is "", and so it is for all if nothing is worse than the best.
    """
    best = means.best
    if best is None or not means.of(variant).n or not _some_worse(means, comparisons):
        return ""
    if means.of(variant).value == means.of(best).value:
        return "best"
    if variant in comparisons.with_verdict(best, "equivalent"):
        return "equal"
    pair = comparisons.with_variant(best).get(variant)
    return "best" if pair and pair.verdict in ("not shown", NEAR_CHANCE) else ""


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
