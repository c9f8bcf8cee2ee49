"""Reads the user's own images, one folder for each class: into memory once if they fit, else when used."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import warnings
from collections.abc import Iterator
from itertools import chain
from multiprocessing.pool import ThreadPool
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps
from PIL.Image import DecompressionBombError
from torch import Tensor

from experiments.data.class_folders import HIDDEN, MOST_PIXELS, NAMED, list_images
from experiments.data.images import Images, Parts, fitted
from experiments.data.streaming import THREADS, StreamedPixels, in_memory
from experiments.errors import UserError, say
from experiments.files import RecordError, write_text
from experiments.sections import DataConfig

WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")  # of a folder's name, such as seg_train, TestImages or FOLD2
# a word that names a part
PART = re.compile("(train|test)(ing|s|set)?|trainval|val(id|idation)?|eval|dev|holdout|folds?|splits?")
KEPT = Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache"), "vit-ablation")  # by `files_digest`
_said: set[str] = set()  # the lines that this process has printed
_saying = Lock()  # several threads decode
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")  # that are read: Pillow starts a program for some others
RULES = "3"  # version of the rules by which files become a digest
LARGER = f"; {MOST_PIXELS}=N in the environment allows up to N pixels"

warnings.filterwarnings("ignore", module="PIL")  # Pillow's, which do not name the file
if limit := os.environ.get(MOST_PIXELS):
    if not limit.isdecimal():
        raise UserError(f"{MOST_PIXELS}: {limit!r} is not allowed: expected a number of pixels")
    Image.MAX_IMAGE_PIXELS = int(limit)  # Pillow refuses twice as many before we can


class BrokenImage(UserError):
    """A file that cannot be read as an image. The message names it."""


def read_folder(data: DataConfig) -> Parts:
    """Read ROOT/CLASS/IMAGE, or ROOT/train/CLASS/IMAGE and ROOT/test/CLASS/IMAGE.

    Prints what is not used. Raises `UserError` naming the folder or file that cannot be used.
    """
    parts: dict[str, Images] = {}
    classes: tuple[str, ...] = ()
    folders = _part_folders(data.root)
    used = [path.name for path in folders.values()]
    if "test" in folders and (others := sorted({path.name for path in Path(data.root).glob("*/")} - {*used})):
        _say_once(f"not used, only {' and '.join(used)} are: {', '.join(others)} in {data.root!r}")
    for name, folder in folders.items():
        try:
            parts[name], found = _read_classes(folder, data.image_shape[1])
        except BrokenImage:
            files_digest(data.root)  # names all that are broken
            raise
        if classes and found != classes:
            raise UserError(
                f"data.root: {str(folder)!r} has the classes {', '.join(found)}, but {used[0]} has {', '.join(classes)}"
            )
        classes = found
    return parts, classes, files_digest(data.root)


def files_digest(folder: str) -> str:
    """A hash of the paths and pixels of the image files: another one means that the images were changed.

    Every file is decoded, so broken ones are found before training. The result is kept in `KEPT` for other processes
    and later commands, until a file changes. A user may keep other files beside the images, even the folder of the
    runs. Raises `UserError` where the folder cannot be read, and with all images that cannot.
    """
    try:
        listed = [list_images(part)[0] for part in _part_folders(folder).values()]
        paths = sorted(path for images in listed for of_class in images.values() for path in of_class)
        stats = [os.stat(path) for path in paths]
    except OSError as error:
        raise UserError(f"data.root: {folder!r} cannot be read: {error}") from error
    # exchanged files may have one size and one time of writing, but not one inode
    states = (f"{s.st_size}:{s.st_mtime_ns}:{s.st_ctime_ns}:{s.st_dev}:{s.st_ino}" for s in stats)
    kept = KEPT / _hash_lines([RULES, folder, *paths, *states])
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if re.fullmatch("[0-9a-f]{16}", known := kept.read_text()):
            return known
    names = [Path(path).relative_to(folder).as_posix() for path in paths]
    digest = _hash_lines([*names, *_pixel_hashes(paths)])[:16]
    with contextlib.suppress(OSError, RecordError):  # where it cannot be kept, the next call decodes again
        KEPT.mkdir(parents=True, exist_ok=True)
        write_text(kept, digest)
    return digest


def _hash_lines(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _pixel_hashes(paths: list[str]) -> list[str]:
    """A hash of each image as it is before resizing, because image sizes may vary. A terminal shows a progress bar."""
    from rich.console import Console
    from rich.progress import track

    broken = list[str]()

    def decode(path: str) -> str:
        try:
            with _naming(path):
                image = to_rgb(Image.open(path, formats=FORMATS))
        except UserError as error:
            broken.append(str(error))
            return ""
        return hashlib.sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()

    console = Console(stderr=True)
    with ThreadPool(THREADS) as pool:
        hashes = pool.imap(decode, paths, chunksize=16)
        shown = track(hashes, "checking images", len(paths), console=console) if console.is_terminal else hashes
        every = list(shown)
    if broken:
        first, *others = sorted(broken)
        more = "".join(f"; {line.removeprefix('data.root: ')}" for line in others)
        raise UserError(first + more + f" ({len(broken)} files)" * bool(others))
    return every


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise a `UserError` that names the file for Pillow's errors on a broken one."""
    try:
        yield
    except (DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        hint = LARGER * isinstance(error, DecompressionBombError)
        raise BrokenImage(f"data.root: {path!r} cannot be read as an image ({error}{hint})") from error


def _part_folders(data_root: str) -> dict[str, Path]:
    """The folder of each part: the root itself if it holds the class folders. Raises `UserError`.

    Several folders whose names hold a part as a word, such as Train and seg_test, are parts.
    """
    root = Path(data_root)
    try:
        folders = sorted(path for path in root.glob("*/") if path.is_dir() and not path.name.startswith(HIDDEN))
    except OSError as error:
        raise UserError(f"data.root: {data_root!r} cannot be read: {error.strerror}") from error
    by_name = {path.name: path for path in folders}
    if {"train", "test"} <= by_name.keys():
        return {"train": by_name["train"], "test": by_name["test"]}
    words = [(word.lower(), path) for path in folders for word in WORD.findall(path.name)]
    parts = {path: word for word, path in words if PART.fullmatch(word)}
    used = {part: [path for path, word in parts.items() if word.startswith(part)] for part in ("train", "test")}
    if all(len(paths) == 1 for paths in used.values()):
        return {part: path for part, (path,) in used.items()}
    if any(path.is_dir() for path in (root / "train").glob("*")):
        raise UserError(f"data.root: {data_root!r} has train/CLASS but no test folder; name the other part test")
    if [*by_name] == ["test"]:
        raise UserError(f"data.root: {data_root!r} has a test folder but no train folder; train/CLASS is missing")
    if len(parts) > 1:
        raise UserError(
            f"data.root: {data_root!r} has the parts {', '.join(path.name for path in parts)}, which are no classes; "
            "name one train and one test, or give a folder of classes"
        )
    return {"train": root}


def _read_classes(folder: Path, side: int) -> tuple[Images, tuple[str, ...]]:
    """Read FOLDER/CLASS/IMAGE: resize the shorter side to `side` pixels, then crop the centre."""

    from torchvision.transforms.v2.functional import pil_to_tensor  # its import takes 2 s

    def decode(path: str) -> Tensor:
        with _naming(path):
            return fitted(pil_to_tensor(to_rgb(Image.open(path, formats=FORMATS))), side)

    files, unused = list_images(folder)
    if unused:
        _say_once(unused)
    if len(files) < 2:
        way = "; give each class a folder: FOLDER/CLASS/IMAGE" + "; or a plug-in reads other labels" * bool(unused)
        raise UserError(f"data.root: {str(folder)!r} has {len(files)} class folder(s) with images; two are needed{way}")
    inside = {frozenset(Path(path).relative_to(folder).parts[1:-1][:1] for path in paths) for paths in files.values()}
    if len(inside) == 1 and () not in (same := next(iter(inside))):
        names = f"{', '.join(sorted(*zip(*same))[:NAMED])}{', ...' * (len(same) > NAMED)}"
        _say_once(
            f"warning: each folder in {str(folder)!r} holds the folders {names}; they are read as CLASS/FOLDER: "
            f"{len(files)} classes. If they are PART/CLASS, name the parts train and test"
        )
    paths = list(chain.from_iterable(files.values()))
    classes = tuple(name.encode(errors="replace").decode() for name in files)  # a name may be no UTF-8
    y = torch.tensor([label for label, paths in enumerate(files.values()) for _ in paths])
    return Images(in_memory(StreamedPixels(paths, side, decode)), y), classes


def to_rgb(opened: Any) -> Image.Image:
    """An image of Pillow with 8 bits per channel, turned upright as its EXIF data say.

    Raises `ValueError` if the range of its pixels is unknown, or it has more pixels than Pillow's limit, or none.
    """
    pixels, most = opened.width * opened.height, Image.MAX_IMAGE_PIXELS or math.inf
    if not 0 < pixels <= most:
        hint = LARGER * (pixels > 0)
        raise ValueError(f"{opened.width:,} x {opened.height:,} pixels; allowed: 1 to {most:,} in all{hint}")
    tile = getattr(opened, "tile", None)  # of an image that is not decoded yet
    codec, *_, described = tile[0] if tile else ("", (0, 0))
    is_deep = ";16" in str(described) or (codec.startswith("ppm") and described[1] > 255)
    image: Image.Image = opened
    if image.mode == "F" or (image.mode == "I" and not is_deep):
        raise ValueError(f"pixel mode {image.mode} has no fixed range; allowed: 8 or 16 bits per channel")
    image.load()
    with contextlib.suppress(Exception):  # damaged EXIF data, which Pillow reports in many ways
        if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:  # else it would be copied
            image = ImageOps.exif_transpose(image)
    if is_deep:
        _say_once(
            "images have 16 bits per channel; only the upper 8 are used, so of a 12-bit value only 4 bits are left"
        )
    if image.mode.startswith("I"):  # Pillow would clip every value above 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data and np.asarray(image.convert("RGBA"))[..., 3].min() < 255:
        _say_once("images have transparent pixels; transparency is ignored, and the colour under it is used")
    return image if image.mode == "RGB" else image.convert("RGB")


def _say_once(text: str) -> None:
    with _saying:
        if text not in _said:
            say(f"data: {text}")
            _said.add(text)
