"""Generated datasets whose class depends on position only.

An image is a grid of cells, one patch each: a few cells hold a mark, the others noise. A mark looks the same in every
cell. Images come in groups of one image per class, made of the same patches in another layout. So on whole groups,
chance is exactly 1 / K for a model that sees a bag of patches. The test set consists of whole groups; its noise is not
that of the training groups. (Validation images are taken out of training groups, so a model that memorises groups and
learns no position falls below chance there.)

    probe-where      one mark; the class is its cell
    probe-direction  marks A and B; the class is the quadrant of B relative to A
    probe-distance   two equal marks; the class is near (up to sqrt 2 cells), middle (up to sqrt 5) or far (from sqrt 8)
    probe-arrow      a base arrow and four other arrows, one on each side of it, one or two cells away; the class is the
                     direction of the arrow that the base arrow points at. The base lies in any of the four central
                     cells and points in any direction, so the place of an arrow alone says nothing. A small version of
                     the arrow task of LieRE (Ostmeier et al. 2025, arXiv 2406.10322).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from math import lcm

import torch
from torch import Generator, Tensor

from experiments.catalogue import DATASETS

Cell = tuple[int, int]  # row, column
Placement = tuple[Cell, ...]  # the cell of each mark

GRID = 4  # cells along a side
IMAGES = {"train": 3840, "test": 960}  # whole groups for 16, 4 and 3 classes
NOISE = 32  # noise is uniform on 0 .. 31: enough to tell patches apart, little enough to find the marks at once
SIDES: dict[str, Cell] = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}


def _arrow(side: Cell, tail: int) -> tuple[tuple[int, ...], ...]:
    """The pixels of an arrow: the edge on its side is white, the other edge has the brightness `tail`."""
    return tuple(
        tuple(255 if side in ((2 * row - 1, 0), (0, 2 * column - 1)) else tail for column in (0, 1)) for row in (0, 1)
    )


MARKS = {  # the pixels of a cell
    "A": ((255, 0), (0, 255)),
    "B": ((0, 255), (255, 0)),
    **{name: _arrow(side, 0) for name, side in SIDES.items()},
    **{f"base {name}": _arrow(side, 128) for name, side in SIDES.items()},
}
CELLS: tuple[Cell, ...] = tuple((row, column) for row in range(GRID) for column in range(GRID))


@dataclass(frozen=True)
class Probe:
    """`marks`: in the order in which placements list their cells. A class samples uniformly from its own placements.

    A dataset may have several, all with the same classes and as many marks and placements; each group samples one.
    """

    marks: tuple[str, ...]
    placements: Mapping[str, tuple[Placement, ...]]


def _where() -> tuple[Probe, ...]:
    return (Probe(("A",), {f"row {row}, column {column}": (((row, column),),) for row, column in CELLS}),)


def _direction() -> tuple[Probe, ...]:
    """Every offset within a quadrant is equally likely; the derived 2/3 depends on that."""
    sides = {(1, 1): "below right", (1, -1): "below left", (-1, 1): "above right", (-1, -1): "above left"}
    offsets: dict[str, dict[Cell, list[Placement]]] = {name: {} for name in sides.values()}
    for a, b in permutations(CELLS, 2):
        rows, columns = b[0] - a[0], b[1] - a[1]
        if rows and columns:
            name = sides[rows // abs(rows), columns // abs(columns)]
            offsets[name].setdefault((rows, columns), []).append((a, b))
    return (Probe(("A", "B"), {name: tuple(_evenly(parts.values())) for name, parts in offsets.items()}),)


def _distance() -> tuple[Probe, ...]:
    bins: dict[str, list[Placement]] = {"near": [], "middle": [], "far": []}
    for a, b in combinations(CELLS, 2):
        squared = (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2
        bins["near" if squared <= 2 else "middle" if squared <= 5 else "far"].append((a, b))
    return (Probe(("A", "A"), {name: tuple(pairs) for name, pairs in bins.items()}),)


def _arrow_probes() -> tuple[Probe, ...]:
    """One for each direction of the base arrow."""
    placements: dict[str, dict[str, list[Placement]]] = {base: {name: [] for name in SIDES} for base in SIDES}
    for centre in product((1, 2), repeat=2):
        for cells in product(*(_ray(centre, step) for step in SIDES.values())):  # a cell on each side
            for arrows in permutations(SIDES):  # the arrow on each side
                place = dict(zip(arrows, cells, strict=True))
                for base, name in zip(SIDES, arrows, strict=True):
                    placements[base][name].append(((centre[0], centre[1]), *(place[arrow] for arrow in SIDES)))
    return tuple(
        Probe((f"base {base}", *SIDES), {name: tuple(places) for name, places in classes.items()})
        for base, classes in placements.items()
    )


def _ray(start: tuple[int, ...], step: Cell) -> list[Cell]:
    """The cells from `start` in the direction of `step`, without `start`."""
    cells = ((start[0] + i * step[0], start[1] + i * step[1]) for i in range(1, GRID))
    return [cell for cell in cells if cell in CELLS]


def _evenly(parts: Collection[list[Placement]]) -> Iterator[Placement]:
    """The parts' placements, repeated so that each part has the same share."""
    share = lcm(*map(len, parts))
    return (placement for part in parts for placement in part * (share // len(part)))


PROBES: dict[str, Callable[[], tuple[Probe, ...]]] = {
    "probe-where": cache(_where),
    "probe-direction": cache(_direction),
    "probe-distance": cache(_distance),
    "probe-arrow": cache(_arrow_probes),
}


def generate(name: str, seed: int) -> tuple[dict[str, tuple[Tensor, Tensor]], tuple[str, ...]]:
    """The `train` and `test` parts of a probe, and its classes' names; the same for the same seed, always.

    A part is images [N, 1, S, S] uint8 and classes [N] int64; K images in a row are a group.
    """
    probes, cell, generator = PROBES[name](), DATASETS[name].cell, torch.Generator().manual_seed(seed)
    assert cell  # every generated dataset has cells
    parts = {part: _part(probes, cell, count, generator) for part, count in IMAGES.items()}
    return parts, tuple(probes[0].placements)


def _part(probes: tuple[Probe, ...], cell: int, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    classes, marks = len(probes[0].placements), len(probes[0].marks)
    groups = count // classes
    patches = torch.randint(NOISE, (groups, len(CELLS), cell, cell), generator=generator, dtype=torch.uint8)
    version = torch.zeros(groups, dtype=torch.int64)  # the probe of each group
    if len(probes) > 1:
        version = torch.randint(len(probes), (groups,), generator=generator)
    patches[:, :marks] = torch.tensor([[MARKS[m] for m in probe.marks] for probe in probes], dtype=torch.uint8)[version]
    turn = torch.rand(groups, classes, len(CELLS), generator=generator)  # a cell's turn to be given a patch
    for k, name in enumerate(probes[0].placements):
        cells = torch.tensor(
            [[[r * GRID + c for r, c in cells] for cells in probe.placements[name]] for probe in probes]
        )
        marked = cells[version, torch.randint(cells.shape[1], (groups,), generator=generator)]  # [groups, marks]
        first = torch.arange(marks) - float(marks)  # below every other's, in the marks' order
        turn[:, k].scatter_(1, marked, first.expand(groups, -1))
    target = turn.argsort(-1)[..., None, None].expand(-1, -1, -1, cell, cell)  # [groups, K, cells, p, p]
    x = torch.empty(target.shape, dtype=torch.uint8).scatter_(2, target, patches[:, None].expand_as(target))
    x = x.reshape(-1, GRID, GRID, cell, cell).transpose(2, 3).reshape(-1, 1, GRID * cell, GRID * cell)
    return x, torch.arange(classes).repeat(groups)
