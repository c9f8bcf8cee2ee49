"""The catalogue of datasets: what each is called, the shape of its images, where it comes from. Nothing is loaded here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Dataset:
    """`img_size` pixels a side, `in_chans` channels; None where the user's own files or settings decide.

    `cell`: side in pixels of the squares that a generated image is made of; a patch must be one of them.
    """

    source: Literal["sklearn", "torchvision", "folder", "generated"]
    img_size: int | None
    in_chans: int
    num_classes: int | None
    about: str
    torchvision: str = ""  # its class in torchvision.datasets
    cell: int | None = None


DATASETS: dict[str, Dataset] = {
    "digits": Dataset("sklearn", 8, 1, 10, "scikit-learn's 1,797 handwritten digits; comes with the installation"),
    "mnist": Dataset("torchvision", 28, 1, 10, "70,000 handwritten digits", "MNIST"),
    "fashion-mnist": Dataset("torchvision", 28, 1, 10, "70,000 pictures of clothes", "FashionMNIST"),
    "cifar10": Dataset("torchvision", 32, 3, 10, "60,000 photographs", "CIFAR10"),
    "cifar100": Dataset("torchvision", 32, 3, 100, "60,000 photographs", "CIFAR100"),
    "imagefolder": Dataset("folder", None, 3, None, "your own: one folder a class under data.root"),
    "probe-where": Dataset("generated", 8, 1, 16, "a control: which cell holds the mark?", cell=2),
    "probe-direction": Dataset(
        "generated", 8, 1, 4, "a control: in which quadrant does mark B lie, seen from mark A?", cell=2
    ),
    "probe-distance": Dataset("generated", 8, 1, 3, "a control: how far apart are two marks?", cell=2),
}
