"""Augmentation policies of torchvision for a batch at once: RandAugment, and AutoAugment's policy for CIFAR-10.

RandAugment (Cubuk et al., arXiv 1909.13719) is torchvision's default: two operations in a row, each one of 14 with
equal probability, at magnitude 9 of 30. AutoAugment (Cubuk et al., arXiv 1805.09501) takes one of 25 pairs with equal
probability; each operation of a pair has a probability and a magnitude of its own. An operation that has a direction
takes either one with equal probability.

torchvision's transforms take the same operations for all images of a batch. Here each image has its own: images with
the same operation are transformed together.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from experiments.sections import DataConfig

DRAWS = {"randaugment": 2, "autoaugment": 3}
"""Setting of the data -> its uniform numbers for each image: AutoAugment's pair, then one for each operation"""
DIRECTED = {"shear-x": 0.3, "shear-y": 0.3, "translate-x": 150 / 331, "translate-y": 150 / 331, "rotate": 30.0}
DIRECTED |= dict.fromkeys(("brightness", "color", "contrast", "sharpness"), 0.9)
"""Operation with a direction -> its largest magnitude; of translations as a fraction of the side"""
CIFAR10 = """
    invert .1 0, contrast .2 6; rotate .7 2, translate-x .3 9; sharpness .8 1, sharpness .9 3;
    shear-y .5 8, translate-y .7 9; autocontrast .5 0, equalize .9 0; shear-y .2 7, posterize .3 7;
    color .4 3, brightness .6 7; sharpness .3 9, brightness .7 9; equalize .6 0, equalize .5 0;
    contrast .6 7, sharpness .6 5; color .7 7, translate-x .5 8; equalize .3 0, autocontrast .4 0;
    translate-y .4 3, sharpness .2 6; brightness .9 6, color .2 8; solarize .5 2, invert 0 0;
    equalize .2 0, autocontrast .6 0; equalize .2 0, equalize .6 0; color .9 9, equalize .6 0;
    autocontrast .8 0, solarize .2 8; brightness .1 3, color .7 0; solarize .4 5, autocontrast .9 0;
    translate-y .9 9, translate-y .7 9; autocontrast .9 0, solarize .8 3; equalize .8 0, invert .1 0;
    translate-y .7 9, autocontrast .9 0
"""  # AutoAugment's pairs of operations: name, probability, magnitude from 0 to 9
Operation = tuple[str, int, int, int]  # name, magnitude, largest magnitude, direction (1 or -1)
IDENTITY: Operation = ("identity", 0, 1, 1)


def policy_of(data: DataConfig) -> str | None:
    """The policy that the data are augmented with; None: no policy."""
    return next((name for name in DRAWS if getattr(data, name)), None)


def augmented(policy: str, images: Tensor, draws: Tensor) -> Tensor:
    """Images [..., C, S, S], uint8, after their operations.

    draws: [..., DRAWS[policy]], uniform on [0, 1), on the CPU, so that a GPU is not waited for; 0 changes nothing.
    """
    flat = images.flatten(0, -4).clone()  # [N, C, S, S]
    operations, choose = {"randaugment": _randaugment, "autoaugment": _autoaugment}[policy]()
    for operation_numbers in choose(draws.flatten(0, -2)).unbind(1):  # [N]
        for number in operation_numbers.unique().tolist():
            index = (operation_numbers == number).nonzero()[:, 0].to(flat.device, non_blocking=True)
            flat[index] = _transform(operations[number], images.shape[-1])(flat[index])
    return flat.view_as(images)


Choices = tuple[list[Operation], Callable[[Tensor], Tensor]]
"""The operations of a policy, and the function of the numbers of N images to the numbers of their operations [N, 2]"""


@cache
def _randaugment() -> Choices:
    undirected = "identity", "posterize", "solarize", "autocontrast", "equalize"  # each as often as one with directions
    operations = [
        *((name, 9, 30, 1) for name in undirected for _ in range(2)),
        *((name, 9, 30, sign) for name in DIRECTED for sign in (1, -1)),
    ]
    return operations, lambda draws: (draws * len(operations)).long()


@cache
def _autoaugment() -> Choices:
    parts = [[part.split() for part in pair.split(",")] for pair in CIFAR10.split(";")]
    signed = [
        [[(name, int(level), 9, sign if name in DIRECTED else 1) for sign in (1, -1)] for name, _, level in pair]
        for pair in parts
    ]
    operations = list(dict.fromkeys([IDENTITY, *(name for pair in signed for both in pair for name in both)]))
    numbers = torch.tensor([[[0, *map(operations.index, both)] for both in pair] for pair in signed])  # [25, 2, 3]
    probability = torch.tensor([[float(part[1]) for part in pair] for pair in parts])  # [25, 2]

    def choose(draws: Tensor) -> Tensor:
        pair, uniform = (draws[:, 0] * len(parts)).long(), draws[:, 1:]
        rest = 1 - probability[pair]  # below it an operation is not applied; above it, half takes each direction
        kind = (uniform >= rest).long() + (uniform >= rest + probability[pair] / 2)
        return numbers[pair].gather(2, kind[..., None])[..., 0]

    return operations, choose


@cache
def _transform(operation: Operation, side: int) -> Callable[[Tensor], Tensor]:
    """An operation on images [N, C, S, S], uint8, as torchvision's policies apply it."""
    from torchvision.transforms.v2 import functional as tv  # its import takes 2 s, and few runs use it

    name, magnitude, largest, sign = operation

    def level(start: float, end: float) -> float:
        """The magnitude on a scale, in torchvision's precision."""
        return torch.linspace(start, end, largest + 1)[magnitude].item()

    def moved(shear: tuple[float, float] = (0, 0), shift: tuple[int, int] = (0, 0)) -> Callable[[Tensor], Tensor]:
        center = [0.0, 0.0] if any(shear) else None
        degrees = [math.degrees(math.atan(tangent)) for tangent in shear]
        return lambda x: tv.affine(x, angle=0, translate=list(shift), scale=1, shear=degrees, center=center)

    size = sign * level(0, DIRECTED.get(name, 0) * (side if name.startswith("translate") else 1))
    transforms: dict[str, Callable[[Tensor], Tensor]] = {
        "identity": lambda x: x,
        "posterize": lambda x: tv.posterize(x, bits=8 - round(level(0, 4))),
        "solarize": lambda x: tv.solarize(x, threshold=255 * level(1, 0)),
        "autocontrast": tv.autocontrast,
        "equalize": tv.equalize,
        "invert": tv.invert,
        "shear-x": moved(shear=(size, 0)),
        "shear-y": moved(shear=(0, size)),
        "translate-x": moved(shift=(int(size), 0)),
        "translate-y": moved(shift=(0, int(size))),
        "rotate": lambda x: tv.rotate(x, size),
        "brightness": lambda x: tv.adjust_brightness(x, 1 + size),
        "color": lambda x: tv.adjust_saturation(x, 1 + size),
        "contrast": lambda x: tv.adjust_contrast(x, 1 + size),
        "sharpness": lambda x: tv.adjust_sharpness(x, 1 + size),
    }
    return transforms[name]
