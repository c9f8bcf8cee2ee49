"""Which files in the user's folder are images, and of which class. Nothing is decoded."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import UserError

TYPES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")  # as torchvision's ImageFolder
HIDDEN = (".", "__")  # so begin the names that file managers and archives add
HIDDEN_NAMES = f"names that begin with {' or '.join(HIDDEN)}"
NAMED = 3  # paths of each kind that the line about unused files names
Unused = defaultdict[str, list[str]]  # kind -> paths


@dataclass(frozen=True)
class ClassFolders:
    """The images of FOLDER/CLASS, in the order of torchvision's ImageFolder; a class without images is left out.

    `images`: class -> paths. `unused`: kind -> paths of what else is there.
    """

    folder: Path
    images: dict[str, list[str]]
    unused: Unused

    @property
    def unused_line(self) -> str:
        """What is not used, as one line; empty where everything is."""
        kinds = []
        for kind, paths in sorted((kind, paths) for kind, paths in self.unused.items() if paths):
            shown = [os.path.relpath(path, self.folder) for path in sorted(paths)[:NAMED]]
            kinds.append(f"{kind}: {len(paths):,} ({', '.join(shown)}{', ...' * (len(paths) > NAMED)})")
        return f"not used in {str(self.folder)!r}: {'; '.join(kinds)}" if kinds else ""


def list_images(folder: Path) -> ClassFolders:
    """List the images of each class. Links are followed; a file that several paths lead to counts once.

    Raises `UserError` where the folder cannot be read, and where a file has two classes.
    """
    images: dict[str, list[str]] = {}
    unused: Unused = defaultdict(list)
    label_of: dict[str, str] = {}  # real path -> class
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"data.root: {str(folder)!r} is not a folder of class folders with images ({error})") from error
    for entry in entries:
        if entry.name.startswith(HIDDEN) or not entry.is_dir():
            unused[HIDDEN_NAMES if entry.name.startswith(HIDDEN) else "outside the class folders"].append(entry.path)
            continue
        paths = []
        for path, real in _images(entry.path, unused):
            if real not in label_of:
                label_of[real] = entry.name
                paths.append(path)
            elif label_of[real] != entry.name:
                raise UserError(f"data.root: {path!r} is a file of two classes: {label_of[real]} and {entry.name}")
        if paths:
            images[entry.name] = sorted(paths, key=os.path.split)
        else:
            unused["class folders without images"].append(entry.path)
    return ClassFolders(folder, images, unused)


def _images(folder: str, unused: Unused) -> Iterator[tuple[str, str]]:
    """(path, real path) of each image below a folder. A folder that several paths lead to is visited once."""
    visited: set[str] = set()
    failed = unused["folders that cannot be read"]
    for root, folders, names in os.walk(folder, onerror=lambda error: failed.append(error.filename), followlinks=True):
        real_root = os.path.realpath(root)
        if real_root in visited:
            folders.clear()
            continue
        visited.add(real_root)
        unused[HIDDEN_NAMES] += [os.path.join(root, name) for name in (*folders, *names) if name.startswith(HIDDEN)]
        folders[:] = sorted(name for name in folders if not name.startswith(HIDDEN))
        for name in sorted(name for name in names if not name.startswith(HIDDEN)):
            path = os.path.join(root, name)
            if name.lower().endswith(TYPES):
                yield path, os.path.realpath(path) if os.path.islink(path) else os.path.join(real_root, name)
            else:
                unused[f"files of type {os.path.splitext(name)[1] or '(none)'}"].append(path)
