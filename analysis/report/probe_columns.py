"""The columns that a table of variants gets where runs saw a probe: derived accuracy and whether it was reached."""

from __future__ import annotations

import math
from fractions import Fraction

from analysis import formatting
from analysis.claims.theory import LEARNED, STANDARD_ERRORS, Expected, derived, verdict
from analysis.report.render import Cell, Column, ExtraColumns
from analysis.results import Results
from experiments.data.probes import IMAGES

COLUMNS = (
    Column("derived, %", ("derived_chance", "derived_alone", "derived_border"), help="what symmetry lets it know"),
    Column("measured is", ("as_derived",), numeric=False),
)


def beside(results: Results) -> ExtraColumns:
    """What a table of variants adds where runs saw a probe; else nothing."""
    known = derived(results.study)
    if not known:
        return ExtraColumns()
    note = _note(sorted({each.chance for each in known.values()}))
    return ExtraColumns(COLUMNS, lambda variant: _cells(known.get(variant), results.mean(variant).value), (note,))


def _cells(known: Expected | None, measured: float) -> tuple[Cell, ...]:
    if known is None:
        return Cell(formatting.DASH, (math.nan,) * 3, math.nan), Cell(formatting.DASH, ("",))
    outcome = verdict(known, measured)
    data = tuple(map(float, (known.chance, known.alone, known.border)))
    return Cell(_range(known), data, data[1]), Cell(outcome or formatting.DASH, (outcome,))


def _note(chances: list[Fraction]) -> str:
    chance = formatting.listing([f"{_percent(chance)} %" for chance in chances])
    return (
        f"Derived (experiments/probes.py): chance is {chance}{', by the probe' * (len(chances) > 1)}. The first figure is what a kind tells of two "
        "patches by itself; the second, where there is one, adds what the grid's border gives away, and no model can "
        f'do better. "less" is below {100 * LEARNED:g} % of the first: not learnt in these epochs. "more" is above the '
        "second: a fault of the code or of the derivation. Both allow for "
        f"{STANDARD_ERRORS:g} standard errors of a test set of {IMAGES['test']} images."
    )


def _range(known: Expected) -> str:
    return " to ".join(dict.fromkeys((_percent(known.alone), _percent(known.border))))


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.4g}"
