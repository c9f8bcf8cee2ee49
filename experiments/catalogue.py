"""The catalogue of datasets: name, image shape, classes, source. Nothing is loaded here.

`torchvision:CLASS` is a class of `torchvision.datasets`. Plug-ins are functions in a module that VIT_PLUGINS names.
"""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from vit import plugins
from vit.registry import NAME, REGISTRY

Read = Callable[[str], tuple[Any, Any]]


@dataclass(frozen=True)
class Dataset:
    """A dataset by its shape: `img_size` pixels a side, `in_chans` channels; None if the user's files decide.

    `cell`: side in pixels of the cells that a generated image consists of; the patch size must equal it. `read`: the
    function of a plug-in; `plugin`: its source, None where it has no file.
    """

    source: Literal["sklearn", "torchvision", "class", "folder", "generated", "plugin"]
    img_size: int | None
    in_chans: int
    num_classes: int | None
    torchvision: str = ""  # class in torchvision.datasets
    cell: int | None = None
    read: Read | None = None
    plugin: plugins.Source | None = None

    @property
    def has_test_set(self) -> bool:
        """Whether it comes with a test set; False for a class of torchvision and the user's own, which may have one."""
        return self.source in ("torchvision", "generated")


UNREAD = Dataset("plugin", None, 3, None)  # of a plug-in that is not here: enough to use a trained model


class Catalogue(UserDict[Any, Dataset]):
    """Name -> `Dataset`. Plug-ins are imported when an unknown name is asked for."""

    def __missing__(self, name: Any) -> Dataset:
        REGISTRY.import_plugins()
        if name not in self.data and (match := re.fullmatch(r"torchvision:(\w+)", str(name))):
            return Dataset("class", None, 3, None, match[1])
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        try:
            return self[name] is not None
        except KeyError:
            return False


DATASETS = Catalogue(
    {
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
)


def register_dataset(name: str) -> Callable[[Read], Read]:
    """Decorator of a function `load(root) -> (train, test)`: adds a dataset to the catalogue. `root` is data.root.

    Each part is (images, labels), and `test` may be None. Images: a sequence of Pillow's images or uint8 arrays [H, W]
    or [H, W, 3], of any sizes, such as one array; labels: whole numbers or names. Raises `ValueError` where the name
    is not allowed or taken.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name) or DATASETS.data.get(name, UNREAD) != UNREAD:
        raise ValueError(f"register_dataset({name!r}): the name is taken or not allowed; allowed: {NAME.pattern}")

    def add(read: Read) -> Read:
        DATASETS[name] = Dataset("plugin", None, 3, None, read=read, plugin=plugins.read_source(read.__module__))
        return read

    return add
