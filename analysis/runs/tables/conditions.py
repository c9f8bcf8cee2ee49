"""Conditions on the rows of a table: `COLUMN=VALUE`, or `COLUMN!=VALUE`."""

from collections.abc import Iterable

import pandas as pd

from analysis.runs.tables.cells import cell_text
from experiments.errors import UserError
from vit.registry import nearest


def _parsed(condition: str) -> tuple[str, bool, str]:
    """The column, whether it is to be another value, and the value."""
    column, _, value = condition.partition("=")
    return column.removesuffix("!"), column.endswith("!"), value


def named_columns(conditions: Iterable[str]) -> list[str]:
    """The columns that conditions are about, each once."""
    return list(dict.fromkeys(_parsed(condition)[0] for condition in conditions))


def meets(frame: pd.DataFrame, source: str, field: str, condition: str) -> pd.Series:
    """Which rows meet a condition. `field`: that of the condition.

    Raises `UserError` where no row has the value, but for runs that failed: that none did is no error.
    """
    column, is_other, value = _parsed(condition)
    texts = frame[column].map(cell_text) if list(frame).count(column) == 1 else pd.Series(dtype=object)
    if not (has := texts == value).any() and (field != "failed" or is_other or texts.empty):
        known = list(frame) if texts.empty else sorted({*texts})
        expected = nearest(column if texts.empty else value, known, "expected COLUMN=VALUE, of")
        raise UserError(f"{field}: {condition!r}: no row of {source} has it: {expected}")
    return ~has if is_other else has
