"""Columns for studies on generated probes: the accuracy that theory predicts, and whether it was reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from analysis import formatting
from analysis.claims.theory import LEARNED, STANDARD_ERRORS, Expected, verdict
from analysis.report import formats
from analysis.report.sections.variants import ExtraColumns
from analysis.report.table import Column
from analysis.report.text import paragraphs
from analysis.results.means import Means
from experiments.data.probes import IMAGES

COLUMNS = (
    Column("expected, %", formats.text("_derived"), sort="derived_alone", note="derived from symmetry"),
    Column("measured", formats.text("_as_derived"), numeric=False, note="compared with the expected accuracy"),
)
WORDS = {"as derived": "as expected", "less": "lower", "more": "higher", "": formatting.DASH}


def probe_columns(expected: Mapping[str, Expected], means: Means) -> ExtraColumns | None:
    """The columns that the main table has in addition where runs used a probe. `expected`: variant -> its accuracies."""
    if not expected:
        return None
    chances = [_percent(chance) for chance in sorted({accuracies.chance for accuracies in expected.values()})]
    limits = {"learned": LEARNED, "errors": STANDARD_ERRORS, "images": IMAGES["test"]}
    fields = {
        variant: _fields(expected.get(variant), mean.value) for variant, mean in means.by_metric[means.metric].items()
    }
    return ExtraColumns(fields, COLUMNS, tuple(paragraphs("probes", "notes", chances=chances, **limits)))


def _fields(known: Expected | None, measured: float) -> dict[str, object]:
    parts = ("chance", "alone", "border")
    outcome = "" if known is None else verdict(known, measured)
    return {
        **{f"derived_{part}": math.nan if known is None else float(getattr(known, part)) for part in parts},
        "as_derived": outcome,
        "_derived": formatting.DASH if known is None else _range(known),
        "_as_derived": WORDS[outcome],
    }


def _range(known: Expected) -> str:
    return " to ".join(dict.fromkeys((_percent(known.alone), _percent(known.border))))


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.4g}"
