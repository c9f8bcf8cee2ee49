"""RandAugment (Cubuk et al., arXiv 1909.13719) as torchvision's default defines it, for a batch at once.

Two operations in a row, each one of 14 with equal probability, at magnitude 9 of 30. An operation that has a direction
takes either one with equal probability. torchvision's transform takes the same operations for all images of a batch.
Here each image has its own: images with the same operation are transformed together.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

DRAWS = 2  # uniform numbers per image: one for each operation


def _level(most: float) -> float:
    """Magnitude 9 on torchvision's scale of 0 to 30, in its precision."""
    return torch.linspace(0, most, 31)[9].item()


@cache
def _operations(side: int) -> tuple[Callable[[Tensor], Tensor], ...]:
    """The operations on images [N, C, S, S], uint8: 14 pairs with both directions, equal where there is none."""
    from torchvision.transforms.v2 import functional as tv  # its import takes 2 s, and few runs use it

    def moved(shear: tuple[float, float] = (0, 0), shift: tuple[int, int] = (0, 0)) -> Callable[[Tensor], Tensor]:
        center = [0.0, 0.0] if any(shear) else None
        degrees = [math.degrees(math.atan(tangent)) for tangent in shear]
        return lambda x: tv.affine(x, angle=0, translate=list(shift), scale=1, shear=degrees, center=center)

    tangent, pixels, angle, factor = _level(0.3), int(_level(150 / 331 * side)), _level(30), _level(0.9)
    directed: list[Callable[[float], Callable[[Tensor], Tensor]]] = [
        lambda sign: moved(shear=(sign * tangent, 0)),
        lambda sign: moved(shear=(0, sign * tangent)),
        lambda sign: moved(shift=(int(sign) * pixels, 0)),
        lambda sign: moved(shift=(0, int(sign) * pixels)),
        lambda sign: lambda x: tv.rotate(x, sign * angle),
        lambda sign: lambda x: tv.adjust_brightness(x, 1 + sign * factor),
        lambda sign: lambda x: tv.adjust_saturation(x, 1 + sign * factor),
        lambda sign: lambda x: tv.adjust_contrast(x, 1 + sign * factor),
        lambda sign: lambda x: tv.adjust_sharpness(x, 1 + sign * factor),
    ]
    others: list[Callable[[Tensor], Tensor]] = [
        lambda x: x,
        lambda x: tv.posterize(x, bits=8 - round(_level(4))),
        lambda x: tv.solarize(x, threshold=255 * (1 - _level(1))),
        tv.autocontrast,
        tv.equalize,
    ]
    return (*(other for other in others for _ in range(2)), *(make(sign) for make in directed for sign in (1, -1)))


def rand_augment(images: Tensor, draws: Tensor) -> Tensor:
    """Images [..., C, S, S], uint8, after their operations.

    draws: [..., DRAWS], uniform on [0, 1), on the CPU, so that a GPU is not waited for; 0 changes nothing.
    """
    flat = images.flatten(0, -4).clone()  # [N, C, S, S]
    operations = _operations(images.shape[-1])
    for chosen in (draws.flatten(0, -2) * len(operations)).long().unbind(1):  # [N]
        for number in chosen.unique().tolist():
            index = (chosen == number).nonzero()[:, 0].to(flat.device, non_blocking=True)
            flat[index] = operations[number](flat[index])
    return flat.view_as(images)
