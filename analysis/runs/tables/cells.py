"""Cells and names of columns of a user's table: as text, as numbers, and seeds."""

from typing import Any

import pandas as pd

from experiments.direction import words_of


def cell_text(cell: Any) -> str:
    """The text of a cell; "" where it is missing."""
    shown = "" if pd.api.types.is_scalar(cell) and pd.isna(cell) else str(cell).strip()
    return shown.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be written


def cell_number(shown: str) -> int | float | None:
    """The number that a text is; None where it is none."""
    try:
        value = float(shown.replace("_", "?"))  # Python reads 1_5 as 15
        return int(shown) if shown.lstrip("-").isdecimal() and abs(value) < float("inf") else value
    except ValueError:
        return None


def is_seed(name: str) -> bool:
    """Whether a column is called a seed, in any case: `Seed`, `params_seed`, scikit-learn's `random_state`."""
    return bool({"seed", "seeds"} & words_of(name)) or {"random", "state"} <= words_of(name)
