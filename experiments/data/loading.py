"""Loads a dataset: read it, split it, resize it. The split is stratified and fixed by the run's `split_seed`."""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.catalogue import DATASETS
from experiments.config import RunConfig
from experiments.data.folder import read_folder
from experiments.data.images import CHUNK, Images, Parts, Splits, StreamedPixels, count_copies, fitted
from experiments.data.indexed import open_class, read_class, read_plugin
from experiments.data.probes import generate
from experiments.errors import UserError
from experiments.sections import DataConfig
from vit.registry import nearest


def load(config: RunConfig, other_classes: bool = False) -> Splits:
    """The splits of a run's dataset, or of the `other_classes` that `data.classes` leaves out.

    Raises `UserError` if files are missing or do not fit the configuration.
    """
    data, seed = config.data, config.split_seed
    parts, classes, files = _read(data, seed)
    if data.classes:
        parts, classes = _of_classes(parts, classes, data.classes, other_classes)
    rest, test = parts["train"], parts.get("test")
    if test is None:
        rest, test = _split(rest, config, "test_fraction", data.test_fraction, classes)
    train, val = rest, parts.get("val")
    if val is None:
        train, val = _split(rest, config, "val_fraction", data.val_fraction, classes)
    if data.train_limit is not None and data.train_limit > len(train):
        raise UserError(f"data.train_limit: {data.train_limit} is not allowed: up to {len(train)}, all training images")
    if data.train_limit not in (None, len(train)):
        train, _ = _split(train, config, "train_limit", len(train) - data.train_limit, classes)
    copied = {}
    if DATASETS[data.name].source == "folder":
        parts = {"val": val, "test": test}
        copied = {name: number for name, part in parts.items() if (number := count_copies(train, part))}
    if data.shuffle_patches:
        if isinstance(train.x, StreamedPixels):
            raise UserError("data.shuffle_patches: true is not allowed for images that do not fit into memory")
        patch_size, numbered = config.model.patch_size, enumerate((train, val, test), seed)
        train, val, test = (shuffle_patches(part, patch_size, number) for number, part in numbered)
    return Splits(train, val, test, classes, *_channel_moments(data.normalize, train), files, copied)


def _read(data: DataConfig, seed: int) -> Parts:
    """Read the parts that the dataset comes in, resized to the side that the configuration asks for."""
    if (source := DATASETS[data.name].source) == "generated":
        generated, classes = generate(data.name, seed)
        parts, files = {name: Images(*images) for name, images in generated.items()}, ""
    else:
        users = {"folder": read_folder, "class": read_class, "plugin": read_plugin}
        parts, classes, files = {"sklearn": _read_sklearn, "torchvision": _read_torchvision, **users}[source](data)
    if data.num_classes not in (None, len(classes)):
        raise UserError(f"data.num_classes: {data.num_classes}, but {data.name} in {data.root!r} has {len(classes)}")
    side = data.image_shape[1]
    pixels = {name: x if isinstance(x := part.x, StreamedPixels) else fitted(x, side) for name, part in parts.items()}
    return {name: Images(pixels[name], part.y) for name, part in parts.items()}, classes, files


def _of_classes(
    parts: dict[str, Images], names: Sequence[str], selected: Sequence[str], others: bool
) -> tuple[dict[str, Images], tuple[str, ...]]:
    """The images of the selected classes, or of the others, with labels from 0."""
    for name in selected:
        if name not in names:
            raise UserError(f"data.classes: {name!r} is not a class; {nearest(name, names)}")
    labels = torch.tensor([(name in selected) != others for name in names]).nonzero()[:, 0]
    if len(labels) < 2:
        raise UserError(f"data.classes: {','.join(selected)} leaves {len(labels)} classes; two are needed")
    kept = {name: part.pick(torch.isin(part.y, labels).nonzero()[:, 0]) for name, part in parts.items()}
    renumbered = {name: Images(part.x, torch.searchsorted(labels, part.y)) for name, part in kept.items()}
    return renumbered, tuple(names[label] for label in labels)


def _read_sklearn(data: DataConfig) -> Parts:
    """scikit-learn's digits, from the file in its package: importing scikit-learn takes a second."""
    package = find_spec("sklearn")
    assert package is not None and package.origin is not None  # a dependency
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.int64))  # [N, 65]: intensities 0..16, class
    x = (rows[:, :64] / 16 * 255).round().to(torch.uint8).reshape(-1, 1, 8, 8)
    return {"train": Images(x, rows[:, 64].clone())}, tuple(map(str, range(10))), ""


def _read_torchvision(data: DataConfig) -> Parts:
    parts = {}
    for name, raw in open_class(data).items():
        x = torch.as_tensor(raw.data)  # [N, S, S] or [N, S, S, C]
        x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
        parts[name] = Images(x.contiguous(), torch.as_tensor(raw.targets).long())
    return parts, tuple(map(str, raw.classes)), ""


def _split(
    images: Images, config: RunConfig, field: str, second: float, classes: Sequence[str]
) -> tuple[Images, Images]:
    """Split in two, stratified by class. The second part gets a fraction (float) or a number (int) of the images."""
    labels = images.y.cpu().numpy()
    try:
        parts = stratified_split(labels, second, config.split_seed)
    except ValueError as error:
        rare = [name for name, count in zip(classes, np.bincount(labels, minlength=len(classes))) if count < 2]
        why = f"class {rare[0]!r} has fewer than 2 images" if rare else error
        raise UserError(f"data.{field}: {getattr(config.data, field)} is not allowed: {why}") from error
    first, rest = (images.pick(torch.from_numpy(part)) for part in parts)
    return first, rest


def stratified_split(labels: np.ndarray, second: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices of two parts, sorted, the same as scikit-learn's `train_test_split`, whose import takes a second.

    `second`: a fraction (float) or a number (int) of images. labels: [N], classes from 0. Raises `ValueError` where a
    class has one image, or a part fewer images than classes.
    """
    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n = len(labels)
    n_second = math.ceil(second * n) if isinstance(second, float) else second
    if counts.min() < 2 or not len(counts) <= n_second <= n - len(counts):
        raise ValueError(
            f"{n} images of {len(counts)} classes cannot be split into {n - n_second} and {n_second}: each part needs "
            "one of each"
        )
    random = np.random.RandomState(seed)
    first_counts = _proportional(counts, n - n_second, random)
    second_counts = _proportional(counts - first_counts, n_second, random)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for label, count in enumerate(counts):
        members = np.flatnonzero(labels == label)[random.permutation(count)]
        first_count, second_count = first_counts[label], second_counts[label]
        parts[0].append(members[:first_count])
        parts[1].append(members[first_count : first_count + second_count])
    return np.sort(np.concatenate(parts[0])), np.sort(np.concatenate(parts[1]))


def _proportional(counts: np.ndarray, total: int, random: np.random.RandomState) -> np.ndarray:
    """`total` in proportion to `counts`, rounded down; the largest remainders get one more, equal ones at random."""
    exact = counts / counts.sum() * total
    rounded = np.floor(exact)
    remainders, missing = exact - rounded, int(total - rounded.sum())
    for value in np.unique(remainders)[::-1]:
        if missing <= 0:
            break
        equal = np.flatnonzero(remainders == value)
        raised = random.choice(equal, size=min(len(equal), missing), replace=False)
        rounded[raised] += 1
        missing -= len(raised)
    return rounded.astype(int)


def shuffle_patches(images: Images, patch_size: int, seed: int) -> Images:
    """Shuffle the patches of each image, each image in its own order, the same in every epoch. x: [N, C, S, S]"""
    n, c, s, _ = images.x.shape
    g, p = s // patch_size, patch_size
    order = torch.rand(n, g * g, generator=torch.Generator().manual_seed(seed)).argsort(1)  # [N, G G]
    x = images.x[:].reshape(n, c, g, p, g, p).permute(0, 2, 4, 1, 3, 5).reshape(n, g * g, c, p, p)
    x = x.gather(1, order[:, :, None, None, None].expand_as(x))
    return Images(x.reshape(n, g, g, c, p, p).permute(0, 3, 1, 4, 2, 5).reshape(n, c, s, s), images.y)


def _channel_moments(normalize: str, images: Images) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, for pixels in [0, 1]; `dataset` computes them from the images."""
    channels, fixed = images.x.shape[1], {"unit": (0.0, 1.0), "half": (0.5, 0.5)}
    if normalize in fixed:
        mean, std = (torch.full((channels,), value) for value in fixed[normalize])
        return mean, std
    counts = torch.zeros(channels, 256, dtype=torch.float64)  # of each value
    for x, _ in images.batches(CHUNK):
        counts += torch.stack([torch.bincount(x[:, c].flatten().int(), minlength=256) for c in range(channels)])
    value, total = torch.arange(256).double() / 255, counts.sum(1)
    mean = counts @ value / total
    std = (counts @ value**2 / total - mean**2).clamp(min=1e-12).sqrt()
    return mean.float(), std.float()
