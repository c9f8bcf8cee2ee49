"""Augmentation policies of a batch: torchvision's transforms, with operations of its own for each image."""

from collections import Counter

import pytest
import torch
from scipy.stats import chi2_contingency, chisquare
from torchvision.transforms.v2 import AutoAugment, AutoAugmentPolicy, RandAugment

from experiments.data.policies import DRAWS, augmented


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
        draws = torch.rand(n, 2)
    draws[:, 1] = 0
    ours = hashes(augmented("randaugment", image.expand(n, -1, -1, -1), draws))
    assert {*ours} == {*theirs}
    share = {result: round(28 * count / n) for result, count in theirs.items()}  # of 28: 14 operations, two directions
    assert sum(share.values()) == 28
    assert chisquare(*zip(*((ours[result], share[result] * n / 28) for result in share))).pvalue > 0.001


def test_autoaugment_has_the_results_and_the_frequencies_of_torchvisions():
    image, n, often = picture(16, 3), 6000, 12
    with torch.random.fork_rng():
        torch.manual_seed(1)
        theirs = hashes(torch.stack([AutoAugment(AutoAugmentPolicy.CIFAR10)(image) for _ in range(n)]))
        ours = hashes(augmented("autoaugment", image.expand(n, -1, -1, -1), torch.rand(n, DRAWS["autoaugment"])))
    common = {result for result, count in (theirs + ours).items() if count >= 2 * often}
    assert {result for count in (theirs, ours) for result in count if count[result] >= often} <= {*theirs} & {*ours}
    assert len(common) > 50
    table = [[counts[result] for result in common] for counts in (theirs, ours)]
    assert chi2_contingency([[*row, n - sum(row)] for row in table]).pvalue > 0.001


@pytest.mark.parametrize("policy", DRAWS)
def test_operations_follow_each_other_and_each_image_has_its_own(policy):
    images, draws = (
        torch.stack([picture(8, 3)] * 6),
        torch.rand(6, DRAWS[policy], generator=torch.Generator().manual_seed(0)),
    )
    none, last = torch.zeros(6, 1), draws[:, -1:]
    before = draws[:, :-2]  # the number of AutoAugment's pair
    first = augmented(policy, images, torch.cat([draws[:, :-1], none], 1))
    both = augmented(policy, first, torch.cat([before, none, last] if policy == "autoaugment" else [last, none], 1))
    stacked = augmented(policy, images.unflatten(0, (2, 3)), draws.unflatten(0, (2, 3)))  # of two runs
    assert torch.equal(stacked.flatten(0, 1), both) and len({*hashes(both)}) > 3
    assert torch.equal(augmented(policy, images, torch.zeros(6, DRAWS[policy])), images)
