"""Batched augmentation equals torchvision's, image by image, and samples its boxes from the same distribution."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor
from torchvision.transforms.v2 import CutMix, RandomErasing, RandomResizedCrop
from torchvision.transforms.v2 import functional as tv

from experiments.data import augment

OFF = {"hflip": False, "crop_padding": 0, "rrc_scale": 1.0}


def images(n: int, side: int, channels: int = 3) -> Tensor:
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(side), dtype=torch.float64)


def draws(n: int, seed: int = 0) -> Tensor:
    return torch.rand(n, augment.DRAWS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def windows(draws: Tensor, size: int, hflip: bool, crop_padding: int, rrc_scale: float) -> tuple[Tensor, Tensor]:
    """The matrices of a batch from its random numbers, draws: [..., DRAWS]."""
    boxes = augment.boxes(draws, size, hflip, crop_padding, rrc_scale)
    return augment.matrices(boxes, size, pad=bool(crop_padding))


@pytest.mark.parametrize("side", [8, 13, 28, 32])
@pytest.mark.parametrize("hflip", [False, True])
def test_random_resized_crop_matches_torchvision(side, hflip):
    x, u = images(64, side), draws(64)
    ours = augment.apply(x, windows(u, side, hflip=hflip, crop_padding=0, rrc_scale=0.1))
    boxes = augment.crop_boxes(u[:, 1:], side, 0.1).int().tolist()
    for image, result, box, flip in zip(x, ours, boxes, u[:, 0] < 0.5, strict=True):
        expected = tv.resized_crop(image, *box, [side, side], antialias=True)
        expected = tv.horizontal_flip(expected) if hflip and flip else expected
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("box", [(0, 0, 8, 8), (0, 0, 1, 1), (7, 7, 1, 1), (0, 3, 8, 2), (5, 0, 3, 8), (2, 3, 5, 4)])
def test_resampling_of_edge_and_corner_windows(box):
    x = images(1, 8)[0]
    top, left, height, width = torch.tensor(box, dtype=torch.float64)
    rows, columns = (augment.resampling(*axis, 8, pad=False) for axis in ((top, height), (left, width)))
    torch.testing.assert_close(
        augment.apply(x, (rows, columns)), tv.resized_crop(x, *box, [8, 8], antialias=True), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(("side", "padding"), [(8, 1), (8, 2), (32, 4), (8, 9)])
@pytest.mark.parametrize("hflip", [False, True])
def test_padded_crop_matches_torchvision(side, padding, hflip):
    x, u = images(64, side), draws(64)
    ours = augment.apply(x, windows(u, side, hflip=hflip, crop_padding=padding, rrc_scale=1.0))
    corners = (u[:, 1:3] * (2 * padding + 1)).floor().int().tolist()
    for image, result, corner, flip in zip(x, ours, corners, u[:, 0] < 0.5, strict=True):
        expected = tv.crop(tv.pad(image, [padding]), *corner, side, side)
        assert torch.equal(result, tv.horizontal_flip(expected) if hflip and flip else expected)


def test_without_augmentation_images_are_unchanged():
    x = images(3, 8)
    assert not augment.used_draws(**OFF)
    assert torch.equal(augment.apply(x, windows(draws(3), 8, **OFF)), x)


@pytest.mark.parametrize(("side", "scale"), [(32, 0.08), (32, 0.8), (8, 0.3)])
def test_boxes_have_torchvisions_distribution(side, scale):
    n = 3000
    ours = augment.crop_boxes(draws(n, seed=5)[:, 1:], side, scale).numpy()
    torch.manual_seed(11)
    theirs = RandomResizedCrop(side, scale=(scale, 1.0))
    blank = torch.empty(1, side, side)
    drawn = [theirs.make_params([blank]) for _ in range(n)]
    expected = np.array([[d["top"], d["left"], d["height"], d["width"]] for d in drawn])
    statistics = {
        **{name: lambda b, i=i: b[:, i] for i, name in enumerate(("top", "left", "height", "width"))},
        "area": lambda b: b[:, 2] * b[:, 3],
        "aspect": lambda b: b[:, 3] / b[:, 2],
    }
    p = {name: ks_2samp(statistic(ours), statistic(expected)).pvalue for name, statistic in statistics.items()}
    assert min(p.values()) > 1e-3, p


def test_erased_boxes_have_torchvisions_distribution():
    n, side = 3000, 32
    ours = augment.erased_boxes(draws(n, seed=5), side, 0.25).numpy()
    erased = ours[ours[:, 2] > 0]
    assert abs(len(erased) - n / 4) < 4 * (n * 0.25 * 0.75) ** 0.5
    torch.manual_seed(11)
    drawn = [RandomErasing(1.0).make_params([torch.empty(1, side, side)]) for _ in range(n)]
    expected = np.array([[d["i"], d["j"], d["h"], d["w"]] for d in drawn])
    statistics = [*(lambda b, i=i: b[:, i] for i in range(4)), lambda b: b[:, 2] * b[:, 3], lambda b: b[:, 2] / b[:, 3]]
    assert min(ks_2samp(statistic(erased), statistic(expected)).pvalue for statistic in statistics) > 1e-3


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_mixes_have_torchvisions_distribution(alpha):
    n, side = 3000, 32
    torch.manual_seed(11)
    weights = augment.mixes(1, n, side, mixup=alpha, cutmix=0.0)[:, 4].numpy()
    assert ks_2samp(weights, np.random.default_rng(0).beta(alpha, alpha, n)).pvalue > 1e-3
    boxes, transform = augment.mixes(2, n, side, mixup=0.0, cutmix=alpha), CutMix(alpha=alpha, num_classes=10)
    assert (boxes[:, 4] == 1).all()
    pair = [torch.empty(2, 1, side, side)]
    drawn = [transform.make_params(pair)["box"] for _ in range(n)]
    theirs = np.array([(top, left, bottom - top, right - left) for left, top, right, bottom in drawn])
    kept = [box[:, 2] > 0 for box in (boxes.numpy(), theirs)]  # the place of an empty box has no meaning
    for column in range(4):
        pair = [box[is_kept, column] for box, is_kept in zip((boxes.numpy(), theirs), kept)]
        assert ks_2samp(*pair).pvalue > 1e-3


def test_mixup_and_cutmix_take_turns_at_random():
    numbers = augment.mixes(3, 4000, 32, mixup=1.0, cutmix=1.0)
    assert abs(int((numbers[:, 4] < 1).sum()) - 2000) < 4 * 1000**0.5


def test_padding_is_not_mixed_with_images():
    x, y = images(5, 8)[None], torch.tensor([[3, 1, 4, -100, -100]])
    mixed, others, share = augment.mix(x, y, torch.tensor([[0, 0, 0, 0, 0.25]]), torch.tensor([3]))
    torch.testing.assert_close(mixed[0, :3], 0.25 * x[0, :3] + 0.75 * x[0, [2, 0, 1]], rtol=0, atol=1e-12)
    assert torch.equal(mixed[0, 3:], x[0, 3:]) and others.tolist() == [[4, 3, 1, -100, -100]] and share.item() == 0.25


def test_boxes_are_inside_the_image():
    extremes = torch.stack([torch.zeros(augment.DRAWS), torch.full((augment.DRAWS,), 1 - 2**-24)])
    u = torch.cat([extremes, draws(5000).float()])
    top, left, height, width = augment.crop_boxes(u[:, 1:], 28, 0.01).unbind(-1)
    for start, length in ((top, height), (left, width)):
        assert bool((start >= 0).all() & (length >= 1).all() & (start + length <= 28).all())
