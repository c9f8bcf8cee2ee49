"""Augments a whole batch on its own device. The caller supplies the random numbers.

Horizontal flips, padded crops and random resized crops are separable: each output row is a weighted sum of input rows,
and each output column a weighted sum of input columns. So two batched matrix products augment a batch:
`rows @ images @ columns.T`. Mixup (Zhang et al., arXiv 1710.09412) and CutMix (Yun et al., arXiv 1905.04899) are those
of torchvision and timm: the partner of an image is the one before it in the batch.
"""

import math

import numpy as np
import torch
from torch import Tensor

TRIES = 10  # candidates for a random resized crop, as in torchvision
DRAWS = 1 + 2 * TRIES + 2  # uniform numbers per image: flip, area and aspect ratio of each candidate, corner
RATIO = (3 / 4, 4 / 3)  # range of the aspect ratio, width / height, of random resized crops: torchvision's default
ERASED_AREA, ERASED_RATIO = (0.02, 0.33), (1 / 3.3, 1 / 0.3)  # of random erasing: torchvision's defaults


def resampling(start: Tensor, length: Tensor, size: int, pad: bool) -> Tensor:
    """Matrices [..., size, size] that resample the window [start, start + length) of an axis to `size` pixels.

    Bilinear with half-pixel centres, as `torchvision.transforms.functional.resized_crop`. With `pad`, pixels outside
    the image are black; without it, the window's border is repeated. start, length: [...], pixels.
    """
    out = torch.arange(size, device=start.device, dtype=start.dtype)
    at = start[..., None] + (out + 0.5) * (length[..., None] / size) - 0.5  # [..., size], source coordinates
    if not pad:
        at = torch.minimum(at.clamp(min=start[..., None]), (start + length - 1)[..., None])
    return (1 - (at[..., None] - out).abs()).clamp(min=0)  # [..., size out, size in]: the bilinear kernel


def crop_boxes(draws: Tensor, size: int, min_scale: float) -> Tensor:
    """Boxes of random resized crops: (top, left, height, width) [..., 4], in whole pixels.

    The area is uniform on [min_scale, 1] of the image and the aspect ratio log-uniform (Szegedy et al., 2015). The box
    is the first of ten candidates that fits, or else the whole image. This is the distribution of
    `torchvision.transforms.RandomResizedCrop` for square images. draws: [..., 2 TRIES + 2], uniform on [0, 1).
    """
    return _first_that_fits(draws, size, (min_scale, 1.0), RATIO, most=size, otherwise=size)


def erased_boxes(draws: Tensor, size: int, probability: float) -> Tensor:
    """Boxes of random erasing (Zhong et al., arXiv 1708.04896): (top, left, height, width) [..., 4], in whole pixels.

    The distribution of `torchvision.transforms.RandomErasing`; an image that keeps all its pixels has an empty box.
    draws: [..., DRAWS], uniform on [0, 1).
    """
    boxes = _first_that_fits(draws[..., 1:], size, ERASED_AREA, ERASED_RATIO, most=size - 1, otherwise=0)
    return boxes * (draws[..., :1] < probability)


def _first_that_fits(
    draws: Tensor, size: int, areas: tuple[float, float], ratios: tuple[float, float], most: int, otherwise: int
) -> Tensor:
    """The first of ten candidates with sides from 1 to `most`, at a uniform place; else a box with sides `otherwise`.

    areas: fractions of the image. draws: [..., 2 TRIES + 2]
    """
    area = size * size * (areas[0] + (areas[1] - areas[0]) * draws[..., :TRIES])  # [..., TRIES]
    low, high = map(math.log, ratios)
    ratio = torch.exp(low + (high - low) * draws[..., TRIES : 2 * TRIES])
    sides = torch.stack([(area / ratio).sqrt().round(), (area * ratio).sqrt().round()], -1)  # [..., TRIES, 2]
    fits = ((sides > 0) & (sides <= most)).all(-1)  # [..., TRIES]
    first = fits.int().argmax(-1)[..., None, None].expand(*fits.shape[:-1], 1, 2)
    sides = sides.gather(-2, first).squeeze(-2)  # [..., 2]
    sides = torch.where(fits.any(-1, keepdim=True), sides, torch.full_like(sides, otherwise))
    corner = (draws[..., 2 * TRIES :] * (size - sides + 1)).floor()  # [..., 2]
    return torch.cat([corner, sides], -1)


def used_draws(hflip: bool, crop_padding: int, rrc_scale: float) -> int:
    """How many of the `DRAWS` numbers of an image are used: without random resized crops, flip and corner at most."""
    return DRAWS if rrc_scale < 1 else 3 if hflip or crop_padding else 0


def boxes(draws: Tensor, size: int, hflip: bool, crop_padding: int, rrc_scale: float) -> Tensor:
    """The crop of each image and whether it is flipped (1 or 0): (top, left, height, width, flip) [..., 5], in pixels.

    draws: [..., `used_draws`], uniform on [0, 1).
    """
    if rrc_scale < 1:
        crop = crop_boxes(draws[..., 1:], size, rrc_scale)
    else:
        corner = (draws[..., 1:3] * (2 * crop_padding + 1)).floor() - crop_padding
        crop = torch.cat([corner, torch.full_like(corner, size)], -1)
    flip = (draws[..., :1] < 0.5).to(draws.dtype) if hflip else torch.zeros_like(draws[..., :1])
    return torch.cat([crop, flip], -1)


def matrices(boxes: Tensor, size: int, pad: bool) -> tuple[Tensor, Tensor]:
    """The row and column matrices, each [..., size, size], of the boxes from `boxes`. `pad`: as in `resampling`."""
    top, left, height, width, flip = boxes.unbind(-1)
    rows, columns = resampling(top, height, size, pad), resampling(left, width, size, pad)
    return rows, torch.where(flip[..., None, None] > 0, columns.flip(-2), columns)


def apply(images: Tensor, matrices: tuple[Tensor, Tensor]) -> Tensor:
    """Augment floating-point images [..., C, S, S] with these `matrices`."""
    rows, columns = (m.to(images.dtype)[..., None, :, :] for m in matrices)  # [..., 1, S, S]
    return rows @ images @ columns.transpose(-2, -1)


def inside(boxes: Tensor, size: int) -> Tensor:
    """Whether each pixel is in a box [..., 4] of whole pixels: [..., size, size], bool."""
    top, left, height, width = boxes[..., None, None].unbind(-3)
    columns = torch.arange(size, device=boxes.device)
    rows = columns[:, None]
    return (rows >= top) & (rows < top + height) & (columns >= left) & (columns < left + width)


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
    share = of_image.to(x.dtype)[:, None, None]
    return share * x + (1 - share) * x[:, partner], y[:, partner], of_image.mean((-2, -1)).to(x.dtype)
