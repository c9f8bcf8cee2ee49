"""Columns for studies on generated probes: the accuracy that theory predicts, and whether it was reached."""

from __future__ import annotations

import math
from fractions import Fraction

from analysis import formatting
from analysis.claims.theory import LEARNED, STANDARD_ERRORS, Expected, derived, verdict
from analysis.report import formats
from analysis.report.sections.variants import ExtraColumns
from analysis.report.table import Column
from analysis.results.study_results import StudyResults
from experiments.data.probes import IMAGES

COLUMNS = (
    Column("expected, %", formats.text("_derived"), sort="derived_alone", note="derived from symmetry"),
    Column("measured", formats.text("_as_derived"), numeric=False, note="compared with the expected accuracy"),
)
WORDS = {"as derived": "as expected", "less": "lower", "more": "higher"}


def probe_columns(results: StudyResults) -> ExtraColumns | None:
    """Return the columns that the main table has in addition if the runs used a probe; else None."""
    known = derived(results.study)
    if not known:
        return None
    notes = _notes(sorted({each.chance for each in known.values()}))
    fields = {v: _fields(known.get(v), results.mean(v).value) for v in results.variants.names}
    return ExtraColumns(fields, COLUMNS, notes)


def _fields(known: Expected | None, measured: float) -> dict[str, object]:
    if known is None:
        numbers = dict.fromkeys(("derived_chance", "derived_alone", "derived_border"), math.nan)
        return {**numbers, "as_derived": "", "_derived": formatting.DASH, "_as_derived": formatting.DASH}
    outcome = verdict(known, measured)
    return {
        "derived_chance": float(known.chance),
        "derived_alone": float(known.alone),
        "derived_border": float(known.border),
        "as_derived": outcome,
        "_derived": _range(known),
        "_as_derived": WORDS.get(outcome, formatting.DASH),
    }


def _notes(chances: list[Fraction]) -> tuple[str, ...]:
    chance = formatting.listing([f"{_percent(chance)} %" for chance in chances])
    return (
        f"Expected: the accuracy that a model can reach with what its positional embedding encodes "
        f"(derived in analysis/claims/theory.py). Chance is {chance}{', depending on the probe' * (len(chances) > 1)}. "
        "Where there are two figures, the first assumes that the model uses only the marks; the second is the upper "
        "limit for a model that also uses the border of the grid.",
        f"Lower: below {100 * LEARNED:g} % of the first figure, so the task was not learned in these epochs. Higher: above "
        "the upper limit, which points to an error in the code or the derivation. Both allow for "
        f"{STANDARD_ERRORS:g} standard errors of a test set of {IMAGES['test']} images.",
    )


def _range(known: Expected) -> str:
    return " to ".join(dict.fromkeys((_percent(known.alone), _percent(known.border))))


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.4g}"
