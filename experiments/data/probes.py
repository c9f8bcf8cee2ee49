"""Generated datasets whose class depends on position only.

An image is a grid of cells, one patch each: a few cells hold a mark, the others noise. A mark looks the same in every
cell. Images come in groups of one image per class, made of the same patches in another layout. So on whole groups,
chance is exactly 1 / K for a model that sees a bag of patches. The test set consists of whole groups; its noise is not
that of the training groups. (Validation images are taken out of training groups, so a model that memorises groups and
learns no position falls below chance there.)

    probe-where      one mark; the class is its cell
    probe-direction  marks A and B; the class is the quadrant of B relative to A
    probe-distance   two equal marks; the class is near (up to sqrt 2 cells), middle (up to sqrt 5) or far (sqrt 8 and more)

`analysis.claims.theory` derives which accuracy each kind of positional embedding can reach on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from math import lcm
from typing import TYPE_CHECKING

from experiments.data.catalogue import DATASETS

if TYPE_CHECKING:
    from torch import Generator, Tensor

Cell = tuple[int, int]  # row, column
Placement = tuple[Cell, ...]  # the cell of each mark

GRID = 4  # cells along a side
IMAGES = {"train": 3840, "test": 960}  # whole groups for 16, 4 and 3 classes
NOISE = 32  # noise is uniform on 0 .. 31: enough to tell patches apart, little enough to find the marks at once
MARKS = {"A": ((255, 0), (0, 255)), "B": ((0, 255), (255, 0))}  # the pixels of a cell
CELLS: tuple[Cell, ...] = tuple((row, column) for row in range(GRID) for column in range(GRID))


@dataclass(frozen=True)
class Probe:
    """`marks`: in the order in which placements list their cells. A class samples uniformly from its own placements."""

    marks: tuple[str, ...]
    placements: Mapping[str, tuple[Placement, ...]]


def _where() -> Probe:
    return Probe(("A",), {f"row {row}, column {column}": (((row, column),),) for row, column in CELLS})


def _direction() -> Probe:
    """Every offset within a quadrant is equally likely; the derived 2/3 depends on that."""
    sides = {(1, 1): "below right", (1, -1): "below left", (-1, 1): "above right", (-1, -1): "above left"}
    offsets: dict[str, dict[Cell, list[Placement]]] = {name: {} for name in sides.values()}
    for a, b in permutations(CELLS, 2):
        rows, columns = b[0] - a[0], b[1] - a[1]
        if rows and columns:
            name = sides[rows // abs(rows), columns // abs(columns)]
            offsets[name].setdefault((rows, columns), []).append((a, b))
    return Probe(("A", "B"), {name: tuple(_evenly(parts.values())) for name, parts in offsets.items()})


def _distance() -> Probe:
    bins: dict[str, list[Placement]] = {"near": [], "middle": [], "far": []}
    for a, b in combinations(CELLS, 2):
        squared = squared_distance(a, b)
        bins["near" if squared <= 2 else "middle" if squared <= 5 else "far"].append((a, b))
    return Probe(("A", "A"), {name: tuple(pairs) for name, pairs in bins.items()})


def _evenly(parts: Collection[list[Placement]]) -> Iterator[Placement]:
    """The parts' placements, repeated so that each part has the same share."""
    share = lcm(*map(len, parts))
    return (placement for part in parts for placement in part * (share // len(part)))


def squared_distance(a: Cell, b: Cell) -> int:
    """Squared Euclidean distance of two cells, in cells."""
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2


PROBES: dict[str, Callable[[], Probe]] = {
    "probe-where": cache(_where),
    "probe-direction": cache(_direction),
    "probe-distance": cache(_distance),
}


def generate(name: str, seed: int) -> tuple[dict[str, tuple[Tensor, Tensor]], tuple[str, ...]]:
    """The `train` and `test` parts of a probe, and its classes' names; the same for the same seed, always.

    A part is images [N, 1, S, S] uint8 and classes [N] int64; K images in a row are a group.
    """
    import torch

    probe, cell, generator = PROBES[name](), DATASETS[name].cell, torch.Generator().manual_seed(seed)
    assert cell  # every generated dataset has cells
    parts = {part: _part(probe, cell, count, generator) for part, count in IMAGES.items()}
    return parts, tuple(probe.placements)


def _part(probe: Probe, cell: int, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    import torch

    classes, marks = len(probe.placements), len(probe.marks)
    groups = count // classes
    patches = torch.randint(NOISE, (groups, len(CELLS), cell, cell), generator=generator, dtype=torch.uint8)
    patches[:, :marks] = torch.tensor([MARKS[mark] for mark in probe.marks], dtype=torch.uint8)
    turn = torch.rand(groups, classes, len(CELLS), generator=generator)  # a cell's turn to be given a patch
    for k, placements in enumerate(probe.placements.values()):
        cells = torch.tensor([[row * GRID + column for row, column in placement] for placement in placements])
        chosen = cells[torch.randint(len(cells), (groups,), generator=generator)]  # [groups, marks]
        first = torch.arange(marks) - float(marks)  # below every other's, in the marks' order
        turn[:, k].scatter_(1, chosen, first.expand(groups, -1))
    target = turn.argsort(-1)[..., None, None].expand(-1, -1, -1, cell, cell)  # [groups, K, cells, p, p]
    x = torch.empty(target.shape, dtype=torch.uint8).scatter_(2, target, patches[:, None].expand_as(target))
    x = x.reshape(-1, GRID, GRID, cell, cell).transpose(2, 3).reshape(-1, 1, GRID * cell, GRID * cell)
    return x, torch.arange(classes).repeat(groups)
