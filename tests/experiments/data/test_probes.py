"""Probes: labels are true, a bag of patches is at chance, and accuracy limits of some positional embeddings hold."""

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from experiments.catalogue import DATASETS
from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.probes import GRID, PROBES, generate

A, B = [255, 0, 0, 255], [0, 255, 255, 0]  # the pixels of each mark, row by row
CHANCE = {"probe-where": 16, "probe-direction": 4, "probe-distance": 3, "probe-arrow": 4}


def cells(x: Tensor) -> Tensor:
    """[N, 1, 8, 8] -> [N, 16, 4]: each cell's pixels, cut out one by one."""
    corners = [(2 * row, 2 * column) for row in range(4) for column in range(4)]
    return torch.stack([x[:, 0, r : r + 2, c : c + 2].flatten(1) for r, c in corners], 1)


def find(image: Tensor, mark: list[int]) -> list[tuple[int, int]]:
    return [divmod(i, 4) for i, cell in enumerate(image.tolist()) if cell == mark]


@pytest.mark.parametrize("name", PROBES)
def test_shapes_and_classes_match_the_catalogue(name):
    parts, classes = generate(name, 0)
    assert len(classes) == len(set(classes)) == DATASETS[name].num_classes == CHANCE[name]
    assert DATASETS[name].img_size == GRID * DATASETS[name].cell
    for x, y in parts.values():
        assert x.shape == (len(y), 1, 8, 8)
        assert x.dtype == torch.uint8
        assert torch.bincount(y).tolist() == [len(y) // CHANCE[name]] * CHANCE[name]


def test_class_of_probe_where_is_the_cell_of_its_mark():
    parts, classes = generate("probe-where", 3)
    for x, y in parts.values():
        for image, label in zip(cells(x), y.tolist(), strict=True):
            ((row, column),) = find(image, A)
            assert classes[label] == f"row {row}, column {column}"


def test_class_of_probe_direction_is_the_quadrant_of_b_relative_to_a():
    parts, classes = generate("probe-direction", 3)
    for x, y in parts.values():
        for image, label in zip(cells(x), y.tolist(), strict=True):
            (a,), (b,) = find(image, A), find(image, B)
            assert a[0] != b[0]
            assert a[1] != b[1]
            vertical, horizontal = ("above" if b[0] < a[0] else "below"), ("left" if b[1] < a[1] else "right")
            assert classes[label] == f"{vertical} {horizontal}"


def test_class_of_probe_distance_is_the_bin_of_the_euclidean_distance():
    parts, classes = generate("probe-distance", 3)
    for x, y in parts.values():
        for image, label in zip(cells(x), y.tolist(), strict=True):
            first, second = find(image, A)
            far = math.dist(first, second)
            assert classes[label] == ("near" if far < 1.5 else "middle" if far < 2.3 else "far")


ARROWS = {"up": [255, 255, 0, 0], "right": [0, 255, 0, 255], "down": [0, 0, 255, 255], "left": [255, 0, 255, 0]}
STEPS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}


def test_class_of_probe_arrow_is_the_arrow_that_the_base_points_at():
    """The first arrow from the base in its direction; each side of the base has one of the four arrows."""
    parts, classes = generate("probe-arrow", 3)
    assert classes == tuple(ARROWS)
    for x, y in parts.values():
        for image, label in zip(cells(x), y.tolist(), strict=True):
            ((base, start),) = (
                (name, cell) for name, mark in ARROWS.items() for cell in find(image, [pixel or 128 for pixel in mark])
            )
            arrows = {cell: name for name, mark in ARROWS.items() for cell in find(image, mark)}
            assert len(arrows) == 4
            found = {}
            for side, (down, right) in STEPS.items():
                ray = [(start[0] + i * down, start[1] + i * right) for i in (1, 2)]
                (found[side],) = (arrows[cell] for cell in ray if cell in arrows)
            assert sorted(found.values()) == sorted(ARROWS)
            assert found[base] == classes[label]


def test_every_placement_occurs_and_offsets_are_uniform():
    x, y = generate("probe-direction", 0)[0]["train"]
    marks = [(find(image, A)[0], find(image, B)[0]) for image in cells(x)]
    assert len(set(marks)) == 4 * 36  # a quadrant's offset (r, c) fits (4 - r)(4 - c) times, 36 in all
    offsets = Counter((b[0] - a[0], b[1] - a[1]) for a, b in marks)
    assert len(offsets) == 36
    share = len(y) / 36
    chi2 = sum((n - share) ** 2 / share for n in offsets.values())
    assert chi2 < 66.6  # 99.9 % point of chi-squared with 35 degrees of freedom


@pytest.mark.parametrize("name", PROBES)
def test_bag_of_patches_is_the_same_for_every_class(name):
    """The sorted patches of an image equal those of the other images in its group."""
    for x, y in generate(name, 0)[0].values():
        bags = torch.tensor([sorted(image) for image in cells(x).tolist()]).unflatten(0, (-1, CHANCE[name]))
        assert (bags == bags[:, :1]).all()
        assert (y.unflatten(0, (-1, CHANCE[name])) == torch.arange(CHANCE[name])).all()


@pytest.mark.parametrize("name", PROBES)
def test_training_and_test_groups_have_different_noise(name):
    parts, _ = generate(name, 0)
    train, test = (
        {tuple(map(tuple, sorted(image))) for image in cells(parts[part][0]).tolist()} for part in ("train", "test")
    )
    assert (len(train), len(test)) == (3840 // CHANCE[name], 960 // CHANCE[name])
    assert not train & test
    seen, new = ({cell for bag in bags for cell in bag} for bags in (train, test))
    assert len(new & seen) < 0.1 * len(new)  # of 32^4 possible patches a few repeat


def test_loading_stratifies_validation_and_keeps_the_test_set():
    splits = loading.load(override(RunConfig(), {"data.name": "probe-where"}))
    assert splits.classes[6] == "row 1, column 2"
    assert torch.bincount(splits.val.y).tolist() == [24] * 16
    assert torch.equal(splits.test.x, generate("probe-where", 0)[0]["test"][0])
