"""Columns for studies on generated probes: the accuracy that theory predicts, and whether it was reached."""

from __future__ import annotations

import math
from fractions import Fraction

from analysis import formatting
from analysis.claims.theory import LEARNED, STANDARD_ERRORS, Expected, derived, verdict
from analysis.report.render import Cell, Column, ExtraColumns
from analysis.results.study_results import StudyResults
from experiments.data.probes import IMAGES

COLUMNS = (
    Column("expected, %", ("derived_chance", "derived_alone", "derived_border"), help="derived from symmetry"),
    Column("measured", ("as_derived",), numeric=False, help="compared with the expected accuracy"),
)
WORDS = {"as derived": "as expected", "less": "lower", "more": "higher"}


def probe_columns(results: StudyResults) -> ExtraColumns:
    """Return the columns that the main table has in addition if the runs used a probe; else none."""
    known = derived(results.study)
    if not known:
        return ExtraColumns()
    notes = _notes(sorted({each.chance for each in known.values()}))
    return ExtraColumns(COLUMNS, lambda variant: _cells(known.get(variant), results.mean(variant).value), notes)


def _cells(known: Expected | None, measured: float) -> tuple[Cell, ...]:
    if known is None:
        return Cell(formatting.DASH, (math.nan,) * 3, math.nan), Cell(formatting.DASH, ("",))
    outcome = verdict(known, measured)
    data = tuple(map(float, (known.chance, known.alone, known.border)))
    return Cell(_range(known), data, data[1]), Cell(WORDS.get(outcome, formatting.DASH), (outcome,))


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
