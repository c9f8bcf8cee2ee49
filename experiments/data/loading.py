"""Datasets: read once, split once, kept on the device as uint8. Nothing random but the fixed, stratified split."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from experiments.config import DataConfig, RunConfig
from experiments.data.catalogue import DATASETS, Dataset
from experiments.errors import UserError

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Images:
    """x: [N, C, S, S] uint8, y: [N] int64"""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> Images:
        return Images(self.x.to(device), self.y.to(device))

    def pick(self, index: Tensor) -> Images:
        return Images(self.x[index], self.y[index])


@dataclass(frozen=True)
class Splits:
    """The three parts of a dataset, its class names, and how pixels become numbers: (x / 255 - mean) / std a channel."""

    train: Images
    val: Images
    test: Images
    classes: tuple[str, ...]
    mean: Tensor  # [C]
    std: Tensor  # [C]

    def to(self, device: torch.device) -> Splits:
        parts = (part.to(device) for part in (self.train, self.val, self.test))
        return Splits(*parts, self.classes, self.mean.to(device), self.std.to(device))

    def scaled(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """uint8 [..., C, S, S] -> [0, 1], floating point"""
        return x.to(dtype) / 255

    def normalized(self, x: Tensor) -> Tensor:
        """[0, 1] [..., C, S, S] -> what the model sees"""
        mean, std = (v.to(x.dtype)[:, None, None] for v in (self.mean, self.std))
        return (x - mean) / std


def load(config: RunConfig) -> Splits:
    """The data of a run. Raises `UserError` where files are missing or do not suit the configuration."""
    data, dataset = config.data, DATASETS[config.data.name]
    official, classes = _read(data, dataset)
    if "test" in official:
        rest, test = official["train"], official["test"]
    else:
        rest, test = _split(official["train"], data.test_fraction, data, "test_fraction")
    train, val = _split(rest, data.val_fraction, data, "val_fraction")
    if data.train_limit is not None:
        if data.train_limit > len(train):
            raise UserError(f"data.train_limit: {data.train_limit} is more than the {len(train)} training images")
        if data.train_limit < len(train):
            train, _ = _split(train, len(train) - data.train_limit, data, "train_limit")
    if data.shuffle_patches:
        parts = enumerate((train, val, test))
        train, val, test = (shuffle_patches(part, config.model.patch_size, data.split_seed + i) for i, part in parts)
    return Splits(train, val, test, classes, *_moments(data.normalize, train.x))


def _read(data: DataConfig, dataset: Dataset) -> tuple[dict[str, Images], tuple[str, ...]]:
    """The dataset's own parts, `train` and perhaps `test`, and the names of its classes."""
    readers = {"sklearn": _sklearn, "torchvision": _torchvision, "folder": _folder, "generated": _generated}
    parts, classes = readers[dataset.source](data, dataset)
    side = data.image_shape[1]
    return {name: Images(_resized(part.x, side), part.y) for name, part in parts.items()}, classes


def _sklearn(data: DataConfig, dataset: Dataset) -> tuple[dict[str, Images], tuple[str, ...]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.from_numpy(digits.images / 16 * 255).round().to(torch.uint8)  # intensities 0..16
    return {"train": Images(x[:, None], torch.from_numpy(digits.target).long())}, tuple(map(str, range(10)))


def _torchvision(data: DataConfig, dataset: Dataset) -> tuple[dict[str, Images], tuple[str, ...]]:
    from torchvision import datasets

    kind, parts = getattr(datasets, dataset.torchvision), {}
    for name, train in (("train", True), ("test", False)):
        try:
            with _one_download_at_a_time(data):
                raw = kind(root=data.root, train=train, download=data.download)
        except (RuntimeError, OSError, ValueError, AssertionError, TypeError) as error:  # the last: files cut short
            raise UserError(
                f"data.root: {data.root!r} does not hold the files of {data.name} as torchvision lays them out ({error}); "
                "point --data.root at them, or add --data.download true to fetch them"
            ) from error
        x = torch.as_tensor(raw.data)  # [N, S, S] or [N, S, S, C]
        x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
        parts[name] = Images(x.contiguous(), torch.as_tensor(raw.targets).long())
    return parts, tuple(map(str, raw.classes))


@contextlib.contextmanager
def _one_download_at_a_time(data: DataConfig) -> Iterator[None]:
    """torchvision writes to the final name, and other workers of a sweep would take half a file for the whole."""
    if not data.download:
        yield
        return
    from filelock import FileLock

    Path(data.root).mkdir(parents=True, exist_ok=True)
    with FileLock(Path(data.root) / ".download.lock"):
        yield


def _folder(data: DataConfig, dataset: Dataset) -> tuple[dict[str, Images], tuple[str, ...]]:
    """ROOT/CLASS/IMAGE, or ROOT/train/CLASS/IMAGE and ROOT/test/CLASS/IMAGE."""
    root = Path(data.root)
    try:
        has_test = (root / "train").is_dir() and (root / "test").is_dir()
    except OSError as error:
        raise UserError(f"data.root: {data.root!r} cannot be read: {error.strerror}") from error
    if not has_test and any(path.is_dir() for path in (root / "train").glob("*")):
        raise UserError(f"data.root: {data.root!r} has train/CLASS but no test beside it; name the other part test")
    folders = {"train": root / "train", "test": root / "test"} if has_test else {"train": root}
    parts, classes = {}, None
    for name, folder in folders.items():
        parts[name], found = _class_folders(folder, data.image_shape[1])
        if classes is not None and found != classes:
            raise UserError(f"data.root: {str(folder)!r} has the classes {', '.join(found)}, not {', '.join(classes)}")
        classes = found
    if data.num_classes is not None and data.num_classes != len(classes):
        raise UserError(f"data.num_classes: {data.num_classes}, but {data.root!r} has {len(classes)} class folders")
    return parts, classes


def _class_folders(folder: Path, side: int) -> tuple[Images, tuple[str, ...]]:
    from PIL import Image
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transform = v2.Compose([v2.PILToTensor(), v2.Resize(side, antialias=True), v2.CenterCrop(side)])
    try:
        files = ImageFolder(str(folder), transform=transform, loader=_rgb)
    except (FileNotFoundError, OSError) as error:
        raise UserError(
            f"data.root: {str(folder)!r} is no folder of class folders with images in them ({error})"
        ) from error
    if len(files.classes) < 2:
        raise UserError(f"data.root: {str(folder)!r} has one class folder; at least two are needed")
    _check_room(len(files), side)
    x = torch.empty(len(files), 3, side, side, dtype=torch.uint8)
    for i, (path, _) in enumerate(files.samples):
        try:
            x[i] = files[i][0]
        except (Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:  # Pillow's, for a broken file
            raise UserError(f"data.root: {path!r} cannot be read as an image ({error})") from error
    return Images(x, torch.tensor(files.targets)), tuple(files.classes)


def _check_room(count: int, side: int) -> None:
    """Images are kept decoded. Raises `UserError` where this machine's memory is too small for them."""
    if not hasattr(os, "sysconf"):  # Windows does not say
        return
    need, have = count * 3 * side**2, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if need > have:
        room = f"{count:,} decoded images need {need / 2**30:.1f} GiB, and this machine has {have / 2**30:.1f}"
        raise UserError(
            f"data.img_size: {side}: {room}; allowed: up to {math.isqrt(have // (3 * count))}, or fewer images"
        )


def _rgb(path: str) -> Image.Image:
    """An image file with 8 bits a channel. Raises `ValueError` where the range of its pixels is anyone's guess."""
    import numpy as np
    from PIL import Image

    image = Image.open(path)
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixels are of mode {image.mode}, whose range no file states; allowed: 8 or 16 bits")
    if image.mode.startswith("I;16"):  # Pillow would cut off whatever is above 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def _generated(data: DataConfig, dataset: Dataset) -> tuple[dict[str, Images], tuple[str, ...]]:
    from experiments.data.probes import generate

    parts, classes = generate(data.name, data.split_seed)
    return {name: Images(*part) for name, part in parts.items()}, classes


def _resized(x: Tensor, side: int) -> Tensor:
    if x.shape[-1] == x.shape[-2] == side:
        return x
    from torchvision.transforms.v2.functional import resize

    return resize(x, [side, side], antialias=True)


def _split(images: Images, second: float, data: DataConfig, field: str) -> tuple[Images, Images]:
    """Stratified: that share of the images, or where it is an int that number, goes to the second part.

    The same for the same `split_seed`, whatever the run's seed.
    """
    from sklearn.model_selection import train_test_split

    try:
        parts = train_test_split(
            range(len(images)), test_size=second, stratify=images.y.tolist(), random_state=data.split_seed
        )
    except ValueError as error:
        value = getattr(data, field)
        raise UserError(
            f"data.{field}: {value:g} of {len(images)} images cannot be split by class ({error})"
        ) from error
    return tuple(images.pick(torch.tensor(sorted(part))) for part in parts)


def shuffle_patches(images: Images, patch_size: int, seed: int) -> Images:
    """Put each image's patches in an order of its own, the same at every epoch. x: [N, C, S, S]"""
    n, c, s, _ = images.x.shape
    g, p = s // patch_size, patch_size
    order = torch.rand(n, g * g, generator=torch.Generator().manual_seed(seed)).argsort(1)  # [N, G G]
    x = images.x.reshape(n, c, g, p, g, p).permute(0, 2, 4, 1, 3, 5).reshape(n, g * g, c, p, p)
    x = x.gather(1, order[:, :, None, None, None].expand_as(x))
    return Images(x.reshape(n, g, g, c, p, p).permute(0, 3, 1, 4, 2, 5).reshape(n, c, s, s), images.y)


def _moments(normalize: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel, pixels in [0, 1]; `dataset` takes the training set's own."""
    channels = x.shape[1]
    if normalize == "unit":
        return torch.zeros(channels), torch.ones(channels)
    if normalize == "half":
        return torch.full((channels,), 0.5), torch.full((channels,), 0.5)
    counts = torch.stack([torch.bincount(x[:, c].flatten().int(), minlength=256) for c in range(channels)]).double()
    value, total = torch.arange(256).double() / 255, counts.sum(1)
    mean = counts @ value / total
    std = (counts @ value**2 / total - mean**2).clamp(min=1e-12).sqrt()
    return mean.float(), std.float()
