"""Cells and names of columns of a user's table: as text, as numbers, and the closest known name."""

import difflib
import re
from collections.abc import Collection
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


def closest(name: str, known: Collection[str]) -> str:
    """The known name that is closest, as the start of a way out; "" where none is close.

    The same letters come first, then the same last part, as in `metrics.acc`, then what `difflib` takes as close.
    """

    def plain(one: str) -> str:
        return re.sub(r"[\W_]", "", one).lower()

    same = [one for one in known if plain(one) == plain(name)]
    end = [one for one in known if plain(re.split(r"[./: ]", one)[-1]) == plain(name)]
    lower = {one.lower(): one for one in known}
    close = same or end or [lower[one] for one in difflib.get_close_matches(name.lower(), lower, n=1)]
    return f"did you mean {close[0]!r}? " if close and close[0] != name else ""
