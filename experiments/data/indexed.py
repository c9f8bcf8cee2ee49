"""Images and labels by their index: of any class of torchvision.datasets, and of the user's own functions."""

import contextlib
import hashlib
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from PIL import Image
from torch import Tensor

from experiments.catalogue import DATASETS
from experiments.data.folder import to_rgb
from experiments.data.images import Images, Parts, StreamedPixels, fitted, in_memory
from experiments.errors import UserError
from experiments.sections import DataConfig
from vit import plugins
from vit.registry import nearest

CHOICES = {"split": ("train", "test"), "train": (True, False)}  # arguments of torchvision's classes, by part
HASHED = 100  # images of each part that the hash of a dataset covers, with all labels


@contextlib.contextmanager
def _refusing(where: str) -> Iterator[None]:
    """Raise a `UserError` that begins with `where` for any error of a class or function that is not ours."""
    try:
        yield
    except Exception as error:
        raise UserError(f"{where}: {plugins.reason(error)}") from error


def read_plugin(data: DataConfig) -> Parts:
    """The parts of a plug-in's dataset. Raises `UserError` naming what cannot be used."""
    where, read = f"data.name: {data.name!r}", DATASETS[data.name].read
    if read is None:
        raise UserError(f"{where} needs its plug-in; set {plugins.VARIABLE}")
    with _refusing(call := f"{where}: {read.__name__}({data.root!r})"):
        returned = read(data.root)
    with _refusing(f"{call} does not return (train, test), each of them (images, labels); test may be None"):
        train, test = returned
        parts = {"train": train} | ({} if test is None else {"test": test})
        raw = {name: (images.__getitem__, labels, len(images)) for name, (images, labels) in parts.items()}
    return _parts(data, raw)


def read_class(data: DataConfig) -> Parts:
    """The parts of a class of torchvision.datasets whose items are an image and its label. Raises `UserError`."""
    opened, raw = open_class(data), {}
    with _refusing(f"data.name: {data.name!r} does not yield images and labels"):
        for name, part in opened.items():
            labels = [label for _, label in (part[i] for i in range(len(part)))]
            raw[name] = (lambda i, part=part: part[i][0]), labels, len(part)
    return _parts(data, raw, getattr(opened["train"], "classes", ()))


def open_class(data: DataConfig) -> dict[str, Any]:
    """The parts of a class of torchvision.datasets, `train` and perhaps `test`, read or downloaded.

    One process at a time: torchvision writes to the final name, so others would read half a file. Raises `UserError`.
    """
    from torchvision import datasets

    name = DATASETS[data.name].torchvision
    if not isinstance(cls := getattr(datasets, name, None), type):
        what = f"data.name: {data.name!r} is not a class of torchvision.datasets"
        raise UserError(f"{what}; {nearest(name, datasets.__all__)}")
    usual = {"root": data.root, **({"download": True} if data.download else {})}
    argument = next((name for name in CHOICES if name in inspect.signature(cls).parameters), None)
    choices = [{argument: value} for value in CHOICES[argument]] if argument else [{}]
    with FileLock(Path(data.root) / ".download.lock") if data.download else contextlib.nullcontext():
        try:
            return {part: cls(**usual, **choice) for part, choice in zip(("train", "test"), choices)}
        except Exception as error:  # of many kinds: a truncated file is a `TypeError`
            root = shlex.quote(data.root)
            fetch = f"; `vit-train data --data.name {data.name} --data.root {root} --data.download true` downloads them"
            raise UserError(
                f"data.root: {data.root!r} does not hold the files of {data.name} as torchvision stores them "
                f"({error}){fetch * (not data.download)}"
            ) from error


Raw = Mapping[str, tuple[Callable[[int], Any], Any, int]]  # of each part: an image by its index, labels, number


def _parts(data: DataConfig, raw: Raw, names: Sequence[Any] = ()) -> Parts:
    """The images, decoded if they fit in memory, with labels from 0. `names`: of the labels from 0, where known."""
    where, side = f"data.name: {data.name!r}", data.image_shape[1]
    raw = {
        part: (image, _labels(labels, count, f"{where}: {part}"), count) for part, (image, labels, count) in raw.items()
    }
    every = np.concatenate([labels for _, labels, _ in raw.values()])
    values = np.unique(every[: raw["train"][2]])
    if len(values) < 2:
        raise UserError(f"{where} has {len(values)} class(es); two are needed")
    for other in np.setdiff1d(every, values):
        raise UserError(f"{where}: test has the class {other} ({(every == other).sum()} images), which train lacks")
    if len(names) and values.dtype.kind != "U" and {*values.tolist()} <= {*range(len(names))}:
        values = np.arange(len(names))
    else:
        names = values.tolist()

    def decode(index: int, part: str) -> Tensor:
        try:
            with one_at_a_time:
                image = raw[part][0](index)
            return to_pixels(image, 3, side)
        except Exception as error:
            raise UserError(f"{where}: image {index} of {part} cannot be read: {error}") from error

    parts, one_at_a_time = {}, Lock()  # a class or a function may not work in several threads
    for part, (_, labels, count) in raw.items():
        pixels = in_memory(StreamedPixels(range(count), side, partial(decode, part=part)))
        parts[part] = Images(pixels, torch.from_numpy(np.searchsorted(values, labels.astype(every.dtype))))
    return parts, tuple(map(str, names)), _digest(raw)


def _labels(values: Any, count: int, where: str) -> np.ndarray:
    """The labels as an array of `count` whole numbers from 0, or of names. Raises `UserError` for any others."""
    with _refusing(f"{where}: the labels"):
        labels = np.asarray(values.tolist() if hasattr(values, "tolist") else values)
    expected = "expected a whole number from 0, or a name, for each image"
    if labels.shape != (count,) or labels.dtype.kind not in "iuU":
        raise UserError(f"{where}: {count} images and labels {list(labels.shape)} of type {labels.dtype}; {expected}")
    missing = (labels == "") | (labels == "nan") if labels.dtype.kind == "U" else labels < 0  # "nan": NaN among names
    if missing.any():
        raise UserError(
            f"{where}: {missing.sum()} of the {count} labels are missing (below 0, empty or NaN); {expected}"
        )
    return labels


def _digest(raw: Raw) -> str:
    """A hash of the labels and of some images as they are before resizing: another one means other images."""
    digest = hashlib.sha256()
    for image, labels, count in raw.values():
        digest.update("\n".join(map(str, labels)).encode())
        for index in np.linspace(0, count - 1, min(count, HASHED)).astype(int).tolist():
            digest.update(np.asarray(image(index)).tobytes())
    return digest.hexdigest()[:16]


def to_pixels(image: Any, channels: int, side: int) -> Tensor:
    """The pixels [C, S, S], uint8, of an image of Pillow, or an array [H, W], [H, W, 1] or [H, W, 3], uint8.

    It becomes grey or RGB, is resized by its shorter side and cropped at the centre. Raises `ValueError`.
    """
    if not isinstance(image, Image.Image):
        array = np.asarray(image)
        if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (1,), (3,)):
            what = f"an array of {array.dtype}, {list(array.shape)}"
            raise ValueError(f"{what} is not allowed: expected uint8, [H, W], [H, W, 1] or [H, W, 3]")
        image = Image.fromarray(array.squeeze(2) if array.shape[2:] == (1,) else array)
    from torchvision.transforms.v2.functional import pil_to_tensor  # its import takes 2 s

    rgb = to_rgb(image)
    return fitted(pil_to_tensor(rgb if channels == 3 else rgb.convert("L")), side)
