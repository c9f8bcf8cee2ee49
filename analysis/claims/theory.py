"""The accuracies that a kind of positional embedding can reach on the generated probes, derived from symmetry.

A layer lets token i see the content of token j and what the kind encodes about the pair (i, j): nothing, the absolute
position of both cells, their relative-2d offset (rows and columns), this offset in bins (relative-2d-binned: 2 and 3
cells look alike), their relative-1d offset (the raster offset j - i), their distance, or the local offset (of the 8
adjacent cells only). Two layouts that look alike through this are the same to the model, whatever its weights: it can
at best name the more likely of their classes. `expected` counts this over all layouts, twice:

- `alone`: only the marks see each other, as on an infinite grid.
- `border`: every cell sees every other cell, so a mark also sees how many cells lie on each side of it. A model of two
  layers cannot do better than this.

    encodes       where           direction       distance        arrow
    none          1/16            1/4             1/3             1/4
    absolute      1               1               1               1
    relative-2d   1/16 to 1       1               1               1
      binned      1/16 to 1       1               0.825 to 1      1
    relative-1d   1/16 to 1       2/3 to 1        0.851 to 1      1
    distance      1/16 to 3/16    1/4             1               1/4
    local         1/16 to 1       1/3 to 1        2/3 to 1        15/16 to 1

Why: the eight symmetries of the square keep distances and map each quadrant to every other, so the direction is at
chance. They group the 16 cells into three classes (corner, edge, centre), of which one cell each can be named: 3/16. A
raster offset of 5 is (1, 1) and also (2, -3): of the 18 offsets to quadrants below, equally likely, 6 pairs share a
number, and one of each pair is lost: 12/18. A convolution sees the offset of adjacent marks and, through the zero
padding, the border. Two of the four arrows around a base arrow are always adjacent. With probability 1/8 the arrow that
counts is not, and one other neither: half of these are guessed wrong.

The class token has no cell. It sees contents only in the first layer, and what patches have collected in the second. So
with class-token pooling a kind that encodes pairs of patches needs two layers (with mean pooling, one). A kind may
encode more about a patch and a prefix token (`encodes_prefix`): for rotary embeddings an unrotated class token stands
in the first cell, so it sees the absolute position of each patch.

These are limits, not predictions for a given number of steps: below `alone` the model has not learned the task; above
`border`, beyond the sampling error of the test set, the code or the derivation is wrong.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd

from experiments.data.probes import CELLS, GRID, IMAGES, PROBES, Cell, squared_distance
from vit.registry import REGISTRY

METRIC = "test/acc"  # the test set consists of whole groups, for which chance is exact
LEARNED = 0.95  # share of `alone` from which a task counts as learned
STANDARD_ERRORS = 3.0  # of the test set's sampling error, allowed on both sides


RELATIONS: dict[str, Callable[[Cell, Cell], Hashable]] = {  # what a kind may encode about cell b, seen from cell a
    "none": lambda a, b: None,
    "absolute": lambda a, b: (a, b),
    "relative-2d": lambda a, b: (b[0] - a[0], b[1] - a[1]),
    "relative-2d-binned": lambda a, b: tuple(max(-2, min(2, there - here)) for here, there in zip(a, b, strict=True)),
    "relative-1d": lambda a, b: GRID * (b[0] - a[0]) + b[1] - a[1],
    "distance": squared_distance,
    "local": lambda a, b: (b[0] - a[0], b[1] - a[1]) if squared_distance(a, b) <= 2 else None,
}


@dataclass(frozen=True)
class Expected:
    """Exact accuracies: of guessing, of the marks alone, and with the border's help."""

    chance: Fraction
    alone: Fraction
    border: Fraction


@cache
def expected(name: str, encodes: str, encodes_prefix: str = "none") -> Expected:
    """Derived accuracies on a probe, for what a kind encodes about two patches and about a patch and a prefix token."""
    probes = PROBES[name]()
    layouts = [
        (k, dict(zip(placement, probe.marks, strict=True)), times)
        for probe in probes
        for k, placements in probe.placements.items()
        for placement, times in Counter(placements).items()
    ]
    cells = len(CELLS)
    contents = [None] * cells + [content.get(cell) for _, content, _ in layouts for cell in CELLS]
    marks = _numbers(contents).reshape(-1, cells)[1:]  # [L, C], 0 for none
    pairs = _numbers([RELATIONS[encodes](cell, other) for cell in CELLS for other in CELLS]).reshape(cells, cells)
    prefix = _numbers([RELATIONS[encodes_prefix](cell, cell) for cell in CELLS])
    counts = pd.DataFrame({"class": [k for k, _, _ in layouts], "times": [times for _, _, times in layouts]})
    alone, border = (
        _best(counts.assign(view=_views(marks, pairs, prefix, there)))
        for there in (marks > 0, np.ones_like(marks, dtype=bool))
    )
    return Expected(Fraction(1, len(probes[0].placements)), alone, border)


def _numbers(values: Sequence[Hashable]) -> np.ndarray:
    """Equal values have equal numbers, from 0 in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values])


def _views(marks: np.ndarray, pairs: np.ndarray, prefix: np.ndarray, there: np.ndarray) -> np.ndarray:
    """What each layout looks like, as a number: each cell with all it sees, in any order. [L]

    `marks`: of each cell of each layout, and `there`: which cells take part. [L, C]. `pairs`: what is encoded about two
    cells. [C, C]. `prefix`: about a cell and a prefix token. [C]
    """
    seen = np.where(there[:, None], marks[:, None] * (pairs.max() + 1) + pairs, -1)  # [L, C, C]
    bags = _rows(np.sort(seen))  # [L, C]
    cells = _rows(np.stack(np.broadcast_arrays(marks, prefix, bags), -1))  # [L, C]
    return _rows(np.sort(np.where(there, cells, -1)))


def _rows(values: np.ndarray) -> np.ndarray:
    """Equal rows have equal numbers. [..., N] -> [...]"""
    rows = values.reshape(-1, values.shape[-1])
    return _numbers([row.tobytes() for row in rows]).reshape(values.shape[:-1])


def _best(layouts: pd.DataFrame) -> Fraction:
    """The accuracy of naming, for each view, its likeliest class; classes are equally likely."""
    counts = layouts.pivot_table("times", "view", "class", "sum", fill_value=0)
    totals = counts.sum()
    common = math.lcm(*totals)
    return Fraction(int((counts * (common // totals)).max(axis=1).sum()), common * len(totals))


def verdict(known: Expected, measured: float) -> str:
    """Whether a measured accuracy (a fraction) is "as derived", "less" or "more"; empty where nothing was measured."""
    if not math.isfinite(measured):
        return ""
    border = float(known.border)
    if measured > border + sampling_error(border):
        return "more"
    alone = float(known.alone)
    return "less" if measured < LEARNED * alone - sampling_error(alone) else "as derived"


def sampling_error(share: float) -> float:
    """The allowed distance from a true accuracy: `STANDARD_ERRORS` binomial standard errors of the test set."""
    return STANDARD_ERRORS * math.sqrt(share * (1 - share) / IMAGES["test"])


def derived(metric: str, settings: pd.DataFrame) -> dict[str, Expected]:
    """variant -> its derived accuracies, where the derivation applies. `settings`: a row for each variant.

    It applies to kinds that state what they encode, to models with enough layers whose tokens each see one patch, and
    to images that are not shuffled.
    """
    if metric != METRIC or not set(settings.get("data.name", ())) & set(PROBES):
        return {}
    accuracies = {}
    for variant, run in settings.iterrows():
        name, kind = run["data.name"], REGISTRY.get(run["model.pos_embed"])
        deep = run["model.depth"] >= (1 if run["model.pool"] == "gap" else 2)
        apart = run.get("model.stem", "patchify") == "patchify" and not run["data.shuffle_patches"]
        if name in PROBES and kind is not None and kind.encodes and deep and apart:
            prefix = kind.encodes_prefix if run["model.class_token"] or run["model.reg_tokens"] else "none"
            accuracies[str(variant)] = expected(name, kind.encodes, prefix or "none")
    return accuracies
