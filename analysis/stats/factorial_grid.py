"""The grid of a study of several factors: which levels, combinations and seeds its effects are computed from.

Which runs are used:

- A cell counts if at least half of the seeds have a finite value in it.
- If some cells do not count, the levels with the largest share of such cells are left out until the grid is complete.
  If no complete grid is left, the main effects are fitted to the cells that count, as if effects added up.
- A seed counts if it has a finite value in every cell used.
"""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from experiments.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

Cell = tuple
Level = object


@dataclass(frozen=True)
class Gaps:
    """How the data fall short of a complete grid."""

    not_finite: int
    """runs without a finite value"""
    cells: int
    """cells of the whole grid"""
    missing: int
    """cells without a finite value on half of the seeds"""
    left_out: tuple[tuple[str, Level], ...]
    """(factor, level) left out of the grid"""
    additive: bool
    """whether no complete grid is left, so that only main effects are fitted"""
    seeds_left_out: tuple
    """seeds without a finite value in every cell used"""


@dataclass(frozen=True)
class Grid:
    """The levels, cells and seeds used, and what they leave out."""

    levels: dict[str, tuple]
    cells: list[Cell]
    seeds: tuple
    gaps: Gaps


def grid_used(runs: "pd.DataFrame", values: dict[Cell, dict], factors: list[str], not_finite: int) -> Grid:
    """Choose them as the module says. Raises `UserError` where a factor does not vary or no seed is complete."""
    whole = {factor: tuple(runs[factor].unique().tolist()) for factor in factors}
    for factor, found in whole.items():
        if len(found) < 2:
            raise UserError(f"factors: {factor} takes only {list(found)} in these runs; two levels or more are needed")
    seeds = tuple(runs["seed"].unique().tolist())
    present = {cell for cell, by_seed in values.items() if 2 * len(by_seed) >= len(seeds)}
    complete = _complete_grid(present, whole)
    levels = complete or {
        factor: tuple(level for level in found if any(cell[i] == level for cell in present))
        for i, (factor, found) in enumerate(whole.items())
    }
    cells = [cell for cell in product(*levels.values()) if cell in present]
    used = tuple(seed for seed in seeds if all(seed in values[cell] for cell in cells))
    if not used or not cells:
        raise UserError(f"factors: no seed has a finished run of every combination of {' and '.join(factors)}")
    for factor, found in levels.items():
        if len(found) < 2:
            left = f"only {found[0]!r}" if found else "no level"
            raise UserError(
                f"factors: {factor} has {left} with a combination that half of the seeds finished; two are needed"
            )
    size = math.prod(map(len, whole.values()))
    gaps = Gaps(
        not_finite=not_finite,
        cells=size,
        missing=size - len(present),
        left_out=tuple((f, value) for f in factors for value in whole[f] if value not in levels[f]),
        additive=not complete,
        seeds_left_out=tuple(seed for seed in seeds if seed not in used),
    )
    return Grid(levels, cells, used, gaps)


def finite_runs(frame: "pd.DataFrame", metric: str, factors: list[str]) -> "pd.DataFrame":
    """The runs with a finite value. Raises `UserError` naming a column that is missing."""
    for column in (metric, "seed", *factors):
        if column not in frame.columns:
            raise UserError(
                f"factors: no column {column!r} among the runs; there are {', '.join(map(str, frame.columns))}"
            )
    if not factors:
        raise UserError("factors: none given; one or more are needed")
    runs = frame.loc[np.isfinite(frame[metric].to_numpy(dtype=float)), [metric, "seed", *factors]]
    return runs.astype(dict.fromkeys(factors, object)).fillna(dict.fromkeys(factors, "not set"))


def cell_values(runs: "pd.DataFrame", metric: str, factors: list[str]) -> dict[Cell, dict]:
    """cell -> seed -> value."""
    found: dict[Cell, dict] = {}
    for row in runs[[*factors, "seed", metric]].itertuples(index=False, name=None):
        found.setdefault(row[:-2], {}).setdefault(row[-2], []).append(float(row[-1]))
    return {cell: {seed: float(np.mean(group)) for seed, group in by_seed.items()} for cell, by_seed in found.items()}


def _complete_grid(present: set[Cell], levels: dict[str, tuple]) -> dict[str, tuple] | None:
    """The levels left when those with the largest share of missing cells are left out until none is missing.

    None where a factor has fewer than two levels left.
    """
    cells, left = set(present), [list(found) for found in levels.values()]
    full = Counter(place for cell in cells for place in enumerate(cell))  # (factor, level) -> its present cells
    while len(cells) < (size := math.prod(map(len, left))):
        missing = {
            (i, value): (size // len(found) - full[i, value]) * len(found) / size
            for i, found in enumerate(left)
            for value in found
        }
        i, value = max(missing, key=missing.__getitem__)
        left[i].remove(value)
        if len(left[i]) < 2:
            return None
        lost = {cell for cell in cells if cell[i] == value}
        full.subtract(place for cell in lost for place in enumerate(cell))
        cells -= lost
    return dict(zip(levels, map(tuple, left), strict=True))
