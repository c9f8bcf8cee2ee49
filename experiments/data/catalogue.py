"""The catalogue of datasets: name, image shape, classes, source. Nothing is loaded here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Dataset:
    """A dataset by its shape: `img_size` pixels a side, `in_chans` channels; None if the user's files decide.

    `cell`: side in pixels of the cells that a generated image consists of; the patch size must equal it.
    """

    source: Literal["sklearn", "torchvision", "folder", "generated"]
    img_size: int | None
    in_chans: int
    num_classes: int | None
    about: str
    torchvision: str = ""  # class in torchvision.datasets
    cell: int | None = None

    @property
    def has_test_set(self) -> bool:
        """Whether it comes with a test set; False for an image folder, which may have one."""
        return self.source in ("torchvision", "generated")


DATASETS: dict[str, Dataset] = {
    "digits": Dataset("sklearn", 8, 1, 10, "1,797 handwritten digits; installed with scikit-learn"),
    "mnist": Dataset("torchvision", 28, 1, 10, "70,000 handwritten digits", "MNIST"),
    "fashion-mnist": Dataset("torchvision", 28, 1, 10, "70,000 images of clothes", "FashionMNIST"),
    "cifar10": Dataset("torchvision", 32, 3, 10, "60,000 photographs", "CIFAR10"),
    "cifar100": Dataset("torchvision", 32, 3, 100, "60,000 photographs", "CIFAR100"),
    "imagefolder": Dataset("folder", None, 3, None, "your own images: one folder for each class under data.root"),
    "probe-where": Dataset("generated", 8, 1, 16, "a control: which cell holds the mark?", cell=2),
    "probe-direction": Dataset(
        "generated", 8, 1, 4, "a control: in which quadrant is mark B, relative to mark A?", cell=2
    ),
    "probe-distance": Dataset("generated", 8, 1, 3, "a control: how far apart are the two marks?", cell=2),
    "probe-arrow": Dataset(
        "generated", 8, 1, 4, "a control: where does the arrow point that the base arrow points at?", cell=2
    ),
}
