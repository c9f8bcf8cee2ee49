"""The catalogue of datasets: name, image shape, classes, source. Nothing is loaded here."""

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
    torchvision: str = ""  # class in torchvision.datasets
    cell: int | None = None

    @property
    def has_test_set(self) -> bool:
        """Whether it comes with a test set; False for an image folder, which may have one."""
        return self.source in ("torchvision", "generated")


DATASETS: dict[str, Dataset] = {
    "digits": Dataset("sklearn", 8, 1, 10),
    "mnist": Dataset("torchvision", 28, 1, 10, "MNIST"),
    "fashion-mnist": Dataset("torchvision", 28, 1, 10, "FashionMNIST"),
    "cifar10": Dataset("torchvision", 32, 3, 10, "CIFAR10"),
    "cifar100": Dataset("torchvision", 32, 3, 100, "CIFAR100"),
    "imagefolder": Dataset("folder", None, 3, None),
    "probe-where": Dataset("generated", 8, 1, 16, cell=2),
    "probe-direction": Dataset("generated", 8, 1, 4, cell=2),
    "probe-distance": Dataset("generated", 8, 1, 3, cell=2),
    "probe-arrow": Dataset("generated", 8, 1, 4, cell=2),
}
