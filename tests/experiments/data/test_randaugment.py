"""RandAugment of a batch: torchvision's transform, with operations of its own for each image."""

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare
from torchvision.transforms.v2 import RandAugment

from experiments.data.randaugment import DRAWS, rand_augment


def picture(side: int, channels: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(side)
    return torch.randint(20, 230, (channels, side, side), dtype=torch.uint8, generator=generator)


def hashes(images: torch.Tensor) -> Counter[bytes]:
    return Counter(image.numpy().tobytes() for image in images)


@pytest.mark.parametrize(("side", "channels"), [(32, 3), (28, 1)])
def test_one_operation_has_the_results_and_the_frequencies_of_torchvisions(side, channels):
    """The second number 0 changes nothing, so that one operation is left."""
    image, n = picture(side, channels), 5600
    with torch.random.fork_rng():
        torch.manual_seed(1)
        theirs = hashes(torch.stack([RandAugment(num_ops=1)(image) for _ in range(n)]))
        draws = torch.rand(n, DRAWS)
    draws[:, 1] = 0
    ours = hashes(rand_augment(image.expand(n, -1, -1, -1), draws))
    assert {*ours} == {*theirs}
    share = {result: round(28 * count / n) for result, count in theirs.items()}  # of 28: 14 operations, two directions
    assert sum(share.values()) == 28
    assert chisquare(*zip(*((ours[result], share[result] * n / 28) for result in share))).pvalue > 0.001


def test_two_operations_follow_each_other_and_each_image_has_its_own():
    images, draws = torch.stack([picture(8, 3)] * 6), torch.rand(6, DRAWS, generator=torch.Generator().manual_seed(0))
    none = torch.zeros(6, 1)
    first = rand_augment(images, torch.cat([draws[:, :1], none], 1))
    both = rand_augment(first, torch.cat([draws[:, 1:], none], 1))
    stacked = rand_augment(images.unflatten(0, (2, 3)), draws.unflatten(0, (2, 3)))  # of two runs
    assert torch.equal(stacked.flatten(0, 1), both) and len({*hashes(both)}) > 3
    assert torch.equal(rand_augment(images, torch.zeros(6, DRAWS)), images)
