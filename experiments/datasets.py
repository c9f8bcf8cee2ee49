"""The catalogue of datasets: what each is called, the shape of its images, where it comes from. Nothing is loaded here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Dataset:
    """`img_size` pixels a side, `in_chans` channels; None where the user's own files or settings decide."""

    source: Literal["sklearn", "torchvision", "folder"]
    img_size: int | None
    in_chans: int
    num_classes: int | None
    about: str
    torchvision: str = ""  # its class in torchvision.datasets


DATASETS: dict[str, Dataset] = {
    "digits": Dataset("sklearn", 8, 1, 10, "scikit-learn's 1,797 handwritten digits; comes with the installation"),
    "mnist": Dataset("torchvision", 28, 1, 10, "70,000 handwritten digits", "MNIST"),
    "fashion-mnist": Dataset("torchvision", 28, 1, 10, "70,000 pictures of clothes", "FashionMNIST"),
    "cifar10": Dataset("torchvision", 32, 3, 10, "60,000 photographs", "CIFAR10"),
    "cifar100": Dataset("torchvision", 32, 3, 100, "60,000 photographs", "CIFAR100"),
    "imagefolder": Dataset("folder", None, 3, None, "your own: one folder a class under data.root"),
}
