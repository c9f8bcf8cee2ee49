"""Reads the user's own images, one folder for each class: into memory once if they fit, else when used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import warnings
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from experiments.data.images import THREADS, Images, Parts, StreamedPixels, fitted, in_memory
from experiments.errors import UserError
from experiments.files import RecordError, write_text
from experiments.sections import DataConfig

PARTS = ("train", "val", "test")
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")  # that are read: Pillow starts a program for some others
KEPT = Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache"), "vit-ablation")  # by `files_digest`
RULES = "3"  # version of the rules by which files become a digest

warnings.filterwarnings("ignore", module="PIL")  # Pillow's, which do not name the file


def read_folder(data: DataConfig) -> Parts:
    """Read ROOT/CLASS/IMAGE, or ROOT/PART/CLASS/IMAGE where the parts are train, test and perhaps val.

    Raises `UserError` naming the folder or file that cannot be used.
    """
    from torchvision.transforms.v2.functional import pil_to_tensor  # its import takes 2 s

    side = data.image_shape[1]
    parts: dict[str, Images] = {}
    classes: list[str] = []
    for name, listed in _list_images(data.root).items():
        if classes and listed.classes != classes:  # each part numbers its own
            raise UserError(
                f"data.root: {listed.root!r} has the classes {', '.join(listed.classes)}, "
                f"but {next(iter(parts))} has {', '.join(classes)}"
            )
        classes = listed.classes
        pixels = StreamedPixels(
            [path for path, _ in listed.samples], side, lambda path: fitted(pil_to_tensor(_open(path)), side)
        )
        parts[name] = Images(in_memory(pixels), torch.tensor(listed.targets))
    texts = tuple(name.encode(errors="replace").decode() for name in classes)  # a folder's name may be no UTF-8
    return parts, texts, files_digest(data.root)


def files_digest(folder: str) -> str:
    """A hash of the paths and pixels of the image files: another one means that the images were changed.

    Every file is decoded, so a broken one is found before training. The result is kept in `KEPT` for other processes
    and later commands, until a file changes. Raises `UserError` for a folder or an image that cannot be read.
    """
    paths = sorted(path for listed in _list_images(folder).values() for path, _ in listed.samples)
    stats = [os.stat(path) for path in paths]
    # exchanged files may have one size and one time of writing, but not one inode
    states = (f"{s.st_size}:{s.st_mtime_ns}:{s.st_ctime_ns}:{s.st_dev}:{s.st_ino}" for s in stats)
    kept = KEPT / _hash_lines([RULES, folder, *paths, *states])
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if re.fullmatch("[0-9a-f]{16}", digest := kept.read_text()):
            return digest
    names = [Path(path).relative_to(folder).as_posix() for path in paths]
    digest = _hash_lines([*names, *_pixel_hashes(paths)])[:16]
    with contextlib.suppress(OSError, RecordError):  # where it cannot be kept, the next call decodes again
        KEPT.mkdir(parents=True, exist_ok=True)
        write_text(kept, digest)
    return digest


def _hash_lines(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _pixel_hashes(paths: list[str]) -> list[str]:
    """A hash of each image as it is before resizing, because image sizes may vary."""

    def hash_of(path: str) -> str:
        image = _open(path)
        return hashlib.sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()

    with ThreadPool(THREADS) as pool:
        return pool.map(hash_of, paths, chunksize=16)


def _list_images(data_root: str) -> dict[str, Any]:
    """An `ImageFolder` of torchvision for each part: of ROOT/PART, or of the root itself. Nothing is decoded.

    Raises `UserError` where there is a folder PART/CLASS but not both of train and test, and for less than two classes.
    """
    from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder

    def is_image(path: str) -> bool:
        name = os.path.basename(path).lower()
        return name.endswith(IMG_EXTENSIONS) and not name.startswith(".") and os.path.isfile(path)

    root = Path(data_root)
    parts = {part: root / part for part in PARTS if any(path.is_dir() for path in (root / part).glob("*"))}
    if missing := {"train", "test"} - parts.keys() if parts else None:
        raise UserError(
            f"data.root: {data_root!r} has {next(iter(parts))}/CLASS but no {missing.pop()}/CLASS; train and test are "
            "needed, or the folders of the classes"
        )
    listed: dict[str, Any] = {}
    for part, folder in (parts or {"train": root}).items():
        try:
            listed[part] = ImageFolder(str(folder), is_valid_file=is_image)
        except OSError as error:
            raise UserError(f"data.root: {error}; expected {folder}/CLASS/IMAGE") from error
        if len(listed[part].classes) < 2:
            raise UserError(f"data.root: {str(folder)!r} has 1 class folder with images; two are needed")
    return listed


def _open(path: str) -> Image.Image:
    """The image of a file, as `to_rgb`. Raises `UserError` naming the file."""
    try:
        return to_rgb(Image.open(path, formats=FORMATS))
    except (Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise UserError(f"data.root: {path!r} cannot be read as an image ({error})") from error


def to_rgb(opened: Image.Image) -> Image.Image:
    """An image of Pillow in RGB, turned upright as its EXIF data say, with the upper 8 bits of each channel.

    Raises `ValueError` if the range of its pixels is unknown.
    """
    if opened.mode == "F" or (opened.mode == "I" and opened.format not in ("PNG", "PPM")):
        raise ValueError(f"pixel mode {opened.mode} has no fixed range; allowed: 8 or 16 bits per channel")
    image = opened
    with contextlib.suppress(Exception):  # damaged EXIF data, which Pillow reports in many ways
        image = ImageOps.exif_transpose(opened)
    if image.mode.startswith("I"):  # Pillow would clip every value above 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")
