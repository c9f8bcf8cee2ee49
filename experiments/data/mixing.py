"""Mixup (Zhang et al., arXiv 1710.09412) and CutMix (Yun et al., arXiv 1905.04899) of a batch, as torchvision and timm
define them: the partner of an image is the one before it in the batch. The caller supplies the random numbers.
"""

import numpy as np
import torch
from torch import Tensor

from experiments.data.augment import inside


def mixes(seed: int, steps: int, size: int, mixup: float, cutmix: float) -> Tensor:
    """How each step mixes its images of `size` pixels a side: a box that comes from the partner, and the weight of the
    image outside of it: (top, left, height, width, weight) [steps, 5], float64.

    `mixup`, `cutmix`: alpha of the weight's distribution, Beta(alpha, alpha); 0 is off. If both are on, each step takes
    either with equal probability. Mixup has an empty box, CutMix the weight 1.
    """
    random = np.random.RandomState(seed % 2**32)
    cuts = random.uniform(size=steps) < (0.5 if mixup and cutmix else float(cutmix > 0))
    blended, kept = (random.beta(alpha or 1.0, alpha or 1.0, steps) for alpha in (mixup, cutmix))
    centre = random.randint(size, size=(steps, 2))
    half = (0.5 * np.sqrt(1 - kept) * size).astype(int)[:, None]
    first, last = (centre - half).clip(min=0), (centre + half).clip(max=size)
    box = np.where(cuts[:, None], np.hstack([first, last - first]), 0)
    return torch.from_numpy(np.column_stack([box, np.where(cuts, 1.0, blended)]))


def mix(x: Tensor, y: Tensor, numbers: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mixed images of R runs, the labels of their partners [R, B], and the weight of their own labels [R].

    x: [R, B, C, S, S]; y: [R, B]; numbers: [R, 5], of `mixes`; count: [1], the images before the padding, which is not
    mixed.
    """
    place = torch.arange(y.shape[1], device=y.device)
    partner = torch.where(place < count, (place - 1) % count, place)
    pasted, weight = inside(numbers[:, :4], x.shape[-1]), numbers[:, 4, None, None]  # [R, S, S], [R, 1, 1]
    of_image = torch.where(pasted, 0.0, weight)  # [R, S, S]
    own = of_image.to(x.dtype)[:, None, None]
    return own * x + (1 - own) * x[:, partner], y[:, partner], of_image.mean((-2, -1)).to(x.dtype)
