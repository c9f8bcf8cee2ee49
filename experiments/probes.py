"""Generated images in which position is all, and what each way of telling it can make of them. No models here.

An image is a grid of cells, one patch each: a few hold a mark, the others noise. A mark looks the same in every cell.
Images come in groups, one of each class, made of *the same patches*, only laid out otherwise; so on a test set of whole
groups, chance is exactly 1 / K for whatever sees a bag of patches. Training and test groups hold other noise. (The
validation images are taken out of training groups: what learns no position, but groups by heart, falls below chance.)

    probe-where      one mark; the class is its cell
    probe-direction  marks A and B; the class is the quadrant that B lies in, seen from A
    probe-distance   two equal marks; the class is near (up to sqrt 2 cells), middle (up to sqrt 5) or far (sqrt 8 on)

What can be known follows from symmetry. A layer lets token i see the content of token j and what the kind tells of the
pair (i, j), its `tells`: nothing, place (both cells), offset (rows and columns between them), raster offset (the one
number j - i), distance, or neighbourhood (the offset, but only of the 8 cells around). Two layouts that look alike
through this are one to the model, whatever its weights, and it can but name the likelier of their classes. `expected`
counts this over all layouts, twice:

- `alone`: only the marks see each other. What the kind tells by itself, as on a grid without end.
- `border`: every cell sees every other, so a mark also sees how many cells lie on each side of it: on a finite grid an
  offset without a cell at its end is told apart from one with. No model of two layers can do better than this.

    tells           where           direction       distance
    nothing         1/16            1/4             1/3
    place           1               1               1
    offset          1/16 to 1       1               1
    raster offset   1/16 to 1       2/3 to 1        0.851 to 1
    distance        1/16 to 3/16    1/4             1
    neighbourhood   1/16 to 1       1/3 to 1        2/3 to 1

Why: a distance is the same after turning or mirroring the square. These eight moves carry each quadrant to each other,
so the direction is at chance, border or none; and they join the 16 cells to three kinds - corner, edge, middle - of
which one cell each can be named: 3/16. A raster offset of 5 is (1, 1) and also (2, -3): of the 18 offsets to quadrants
below, each as likely as the others, 6 pairs share a number and one of each pair is lost: 12/18. A convolution sees the
offset of marks that touch and, by the zeros beyond it, the border.

The class token has no cell: it sees only contents in the first layer, in the second what the patches have gathered:
a kind that tells of pairs of patches needs two layers under class token pooling (under `gap`, one). A kind may tell
more of a patch and a prefix token (`tells_prefix`): an unturned class token among turned patches stands, for rotary
embeddings, in the first cell, so that it sees each patch's place.

The numbers say what can be known, not what a given number of steps will learn: below `alone` is a failure to learn,
above `border`, beyond the test set's sampling error, a fault of the code. So an untrained table of deviation 0.02 is
hardly heard beside contents of order 1, as the digits preset starts them; with `model.init=bert-0.02`, which starts
them as small, it is (`analysis/reference`, frozen-random-heard). A fixed penalty wants contents that start large: with
that initialisation `alibi-2d` stayed at chance on the distance with two seeds of five.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations
from math import lcm
from typing import TYPE_CHECKING

from experiments.datasets import DATASETS

if TYPE_CHECKING:
    from torch import Tensor

Cell = tuple[int, int]  # row, column
Placement = tuple[Cell, ...]  # the cell of each mark

GRID = 4  # cells along a side
IMAGES = {"train": 3840, "test": 960}  # whole groups for 16, 4 and 3 classes
NOISE = 32  # noise is uniform on 0 .. 31: enough to tell patches apart, little enough to find the marks at once
MARKS = {"A": ((255, 0), (0, 255)), "B": ((0, 255), (255, 0))}  # the pixels of a cell
CELLS: tuple[Cell, ...] = tuple((row, column) for row in range(GRID) for column in range(GRID))


@dataclass(frozen=True)
class Probe:
    """`marks` in the order in which placements give their cells; a class draws its placement uniformly from its own."""

    marks: tuple[str, ...]
    placements: Mapping[str, tuple[Placement, ...]]


def _where() -> Probe:
    return Probe(("A",), {f"row {row}, column {column}": (((row, column),),) for row, column in CELLS})


def _direction() -> Probe:
    """Each offset of a quadrant is as likely as the others, wherever it fits: `expected` needs that for the 2/3."""
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
        squared = _squared_distance(a, b)
        bins["near" if squared <= 2 else "middle" if squared <= 5 else "far"].append((a, b))
    return Probe(("A", "A"), {name: tuple(pairs) for name, pairs in bins.items()})


def _evenly(parts: Iterator[list[Placement]]) -> Iterator[Placement]:
    """The parts' placements, repeated so that each part has the same share."""
    parts = list(parts)
    share = lcm(*map(len, parts))
    return (placement for part in parts for placement in part * (share // len(part)))


def _squared_distance(a: Cell, b: Cell) -> int:
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

    probe, generator = PROBES[name](), torch.Generator().manual_seed(seed)
    parts = {part: _part(probe, DATASETS[name].cell, count, generator) for part, count in IMAGES.items()}
    return parts, tuple(probe.placements)


def _part(probe: Probe, cell: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
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


RELATIONS: dict[str, Callable[[Cell, Cell], Hashable]] = {  # what a kind may tell cell a of cell b
    "nothing": lambda a, b: None,
    "place": lambda a, b: (a, b),
    "offset": lambda a, b: (b[0] - a[0], b[1] - a[1]),
    "raster offset": lambda a, b: GRID * (b[0] - a[0]) + b[1] - a[1],
    "distance": _squared_distance,
    "neighbourhood": lambda a, b: (b[0] - a[0], b[1] - a[1]) if _squared_distance(a, b) <= 2 else None,
}


@dataclass(frozen=True)
class Expected:
    """Accuracies, exact: of guessing, of what a kind tells by itself, and of that with the border's help."""

    chance: Fraction
    alone: Fraction
    border: Fraction


@cache
def expected(name: str, tells: str, tells_prefix: str = "nothing") -> Expected:
    """What can be known on a probe by a kind that tells this of two patches, and that of a patch and a prefix token."""
    probe = PROBES[name]()
    alone, border = ({k: Counter() for k in probe.placements} for _ in range(2))
    for k, placements in probe.placements.items():
        for placement, times in Counter(placements).items():
            marks = dict(zip(placement, probe.marks, strict=True))
            alone[k][_view(marks, tells, tells_prefix)] += times
            border[k][_view({cell: marks.get(cell) for cell in CELLS}, tells, tells_prefix)] += times
    return Expected(Fraction(1, len(probe.placements)), _best(alone), _best(border))


def _view(content: Mapping[Cell, str | None], tells: str, tells_prefix: str) -> Hashable:
    """What a layout looks like: each cell with all it sees, as a bag; cells that are not in `content` are not there."""
    relation, to_prefix = RELATIONS[tells], RELATIONS[tells_prefix]
    return _bag(
        (mark, to_prefix(cell, cell), _bag((other, relation(cell, there)) for there, other in content.items()))
        for cell, mark in content.items()
    )


def _bag(items: Iterator[Hashable]) -> Hashable:
    return frozenset(Counter(items).items())


def _best(views: Mapping[str, Counter[Hashable]]) -> Fraction:
    """The accuracy of naming, for each view, its likeliest class; classes are equally likely."""
    shares = {k: {view: Fraction(n, counts.total()) for view, n in counts.items()} for k, counts in views.items()}
    seen = {view for counts in shares.values() for view in counts}
    return sum((max(s.get(view, Fraction()) for s in shares.values()) for view in seen), Fraction()) / len(views)
