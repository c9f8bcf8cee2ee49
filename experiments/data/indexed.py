"""Images and labels by their index: of any class of torchvision.datasets, and of the user's own functions."""

import contextlib
import csv
import hashlib
import inspect
import io
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from experiments.catalogue import DATASETS
from experiments.data.folder import to_rgb
from experiments.data.images import Images, Parts, fitted
from experiments.data.streaming import StreamedPixels, in_memory
from experiments.errors import UserError, say
from experiments.locks import wait_for_lock
from experiments.sections import DataConfig
from vit import plugins
from vit.registry import nearest

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("targets", "labels", "_labels")  # attributes of torchvision's classes
ARGUMENTS = ("root", "train", "split", "download")  # of a class that can be used
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
    train, test = _pair(returned, f"{call} returns")
    parts = {"train": train} | ({} if test is None else {"test": test})
    pairs = {name: _pair(part, f"{call} returns for {name}") for name, part in parts.items()}
    with _refusing(call):
        raw = {name: (images.__getitem__, y, len(images)) for name, (images, y) in pairs.items()}
    return _parts(data, raw)


def _pair(value: Any, where: str) -> Sequence[Any]:
    """What a function has to return, and each part of it. Raises `UserError` for anything but two things."""
    if isinstance(value, tuple | list) and len(value) == 2:
        return value
    size = f" of {len(value)}" if isinstance(value, Sized) else ""
    expected = "expected (train, test), each of them (images, labels); test may be None"
    raise UserError(f"{where} a {type(value).__name__}{size}; {expected}")


def read_class(data: DataConfig) -> Parts:
    """The parts of a class of torchvision.datasets whose items are an image and its label. Raises `UserError`."""
    opened, raw = open_class(data), {}
    with _refusing(f"data.name: {data.name!r} does not yield images and labels"):
        for name, part in opened.items():
            _, label = part[0]
            listed: list[Any] = [getattr(part, name, ()) for name in LABELS]
            same = [labels for labels in listed if np.shape(labels) == (len(part),) and labels[0] == label]
            labels = same[0] if same else [part[i][1] for i in range(len(part))]
            raw[name] = (lambda i, part=part: part[i][0]), labels, len(part)
    names = (getattr(opened["train"], name, None) for name in ("classes", "categories"))
    return _parts(data, raw, next(filter(None, names), ()))


def open_class(data: DataConfig) -> dict[str, Any]:
    """The parts of a class of torchvision.datasets, `train` and perhaps `test`, read or downloaded.

    One process at a time: torchvision writes to the final name, so others would read half a file. Raises `UserError`.
    """
    from torchvision import datasets

    name, where, opened = DATASETS[data.name].torchvision, f"data.name: {data.name!r}", dict[str, Any]()
    if not isinstance(cls := getattr(datasets, name, None), type):
        raise UserError(f"{where} is not a class of torchvision.datasets; {nearest(name, datasets.__all__)}")
    known: dict[str, inspect.Parameter] = {}
    for parent in cls.__mro__:  # QMNIST passes `download` on
        known = {**(own := inspect.signature(parent).parameters), **known}
        if all(argument.kind is not argument.VAR_KEYWORD for argument in own.values()):
            break
    required = {p.name for p in known.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    if more := sorted(required - {*ARGUMENTS}):
        raise UserError(f"{where} needs {', '.join(more)}; allowed: classes that need only {', '.join(ARGUMENTS)}")
    usual = {key: value for key, value in (("root", data.root), ("download", data.download)) if key in known}
    values = {"split": ("train", "test"), "train": (True, False)}
    chosen = next((argument for argument in values if argument in known), None)
    choices = [{chosen: value} for value in values[chosen]] if chosen else [{}]
    lock = wait_for_lock(Path(data.root) / ".download.lock", 3600.0) if data.download else contextlib.nullcontext()
    with lock:
        for part, choice in zip(("train", "test"), choices):
            try:
                opened[part] = cls(**usual, **choice)
            except (RuntimeError, OSError, ValueError, AssertionError, TypeError, ImportError) as error:
                if "argument split" in str(error) and part == "test":  # it has no such part
                    break
                if "argument split" in str(error):
                    raise UserError(f"{where} has no split named train: {error}") from error
                remedy = "set --data.root to their folder, or add --data.download true"
                if data.download or "download" not in known:
                    remedy = f"torchvision {'could' if 'download' in known else 'does'} not download them"
                raise UserError(  # a truncated file is a `TypeError`
                    f"data.root: {data.root!r} does not hold the files of {data.name} as torchvision stores them "
                    f"({error}); {remedy}"
                ) from error
    return opened


Raw = Mapping[str, tuple[Callable[[int], Any], Any, int]]  # of each part: an image by its index, labels, number


def _parts(data: DataConfig, raw: Raw, names: Sequence[Any] = ()) -> Parts:
    """The images, decoded if they fit in memory, with labels from 0. `names`: of the labels from 0, where known."""
    where, side = f"data.name: {data.name!r}", data.image_shape[1]
    raw = _labelled(raw, where)
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


def _labelled(raw: Raw, where: str) -> Raw:
    """The parts with their labels as arrays, without a test part that has none. Raises `UserError`."""
    import pandas as pd  # most datasets do without it

    labelled = {}
    for part, (image, given, count) in raw.items():
        with _refusing(f"{where}: the labels of {part}"):
            given = list([None] * count if given is None else given.tolist() if hasattr(given, "tolist") else given)
            labels = np.asarray(given)
        if labels.shape == (count,):
            listed = pd.Series(labels if labels.dtype.kind in "iuf" else given, dtype=object)
            missing = (_are_missing(listed) | (pd.to_numeric(listed, errors="coerce") < 0)).sum()
            if part == "test" and 0 < missing == count:
                say(f"{where}: the {count:,} test images have no labels; part of train is the test set")
                continue
            if missing:
                what = "none, NaN, an empty name, a word such as NA, or below 0; leave them out, or rename the class"
                raise UserError(f"{where}: {missing} of the {count} labels of {part} are missing: {what}")
        if labels.shape != (count,) or labels.dtype.kind not in "iuU":
            shape = f"{count} images and labels {list(labels.shape)} of type {labels.dtype}"
            raise UserError(f"{where} has {shape} in {part}; expected a whole number or a name for each image")
        labelled[part] = image, labels, count
    return labelled


def _are_missing(labels: "pd.Series[Any]") -> "pd.Series[bool]":
    """Which labels are none: what `pandas.isna` or its reader takes as missing, or its word for a missing time.

    In any case of letters, and with white space around it. The reader itself is asked: it knows each of its words in
    lower case, in upper case or as a title.
    """
    import pandas as pd

    names = [label for label in labels.unique() if isinstance(label, str)]
    forms = [form for name in map(str.strip, names) for form in (name.lower(), name.upper(), name.title())]
    body = pd.Series(forms, dtype=object).to_csv(index=False, header=False, quoting=csv.QUOTE_ALL)
    read = (
        pd.read_csv(io.StringIO(body), header=None, dtype=str, engine="python", skip_blank_lines=False)
        if forms
        else pd.DataFrame()
    )
    known = read.isna().to_numpy().reshape(-1, 3).any(axis=1)
    none = {name for name, is_none in zip(names, known) if is_none or name.strip().upper() == str(pd.NaT).upper()}
    return labels.isna() | labels.isin(none)


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
            given = f"an array of {array.dtype}, {list(array.shape)}"
            raise ValueError(f"{given} is not allowed: expected uint8, [H, W], [H, W, 1] or [H, W, 3]")
        image = Image.fromarray(array.squeeze(2) if array.shape[2:] == (1,) else array)
    from torchvision.transforms.v2.functional import pil_to_tensor  # its import takes 2 s

    rgb = to_rgb(image)
    return fitted(pil_to_tensor(rgb if channels == 3 else rgb.convert("L")), side)
