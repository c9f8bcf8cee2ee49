"""Which files in the user's folder are images, and of which class. Nothing is decoded."""

import os
from collections import defaultdict
from pathlib import Path
from typing import NoReturn

from experiments.errors import UserError

TYPES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")  # as torchvision's ImageFolder
MOST_PIXELS = "VIT_MAX_PIXELS"  # an environment variable: the most pixels of one image; workers inherit it
HIDDEN = (".", "__")  # so begin the names that file managers and archives add
NAMED = 3  # unused files of each kind that are named


def list_images(folder: Path) -> tuple[dict[str, list[str]], str]:
    """The images of FOLDER/CLASS, class -> paths, in the order of torchvision's ImageFolder; what is not used.

    Links are followed; a file that several paths lead to counts once, and a class without images is left out. Raises
    `UserError` where a folder cannot be read, and where a file has two classes.
    """
    images: dict[str, dict[str, str]] = {}  # class -> real path -> path
    unused: defaultdict[str, list[str]] = defaultdict(list)
    label_of: dict[str, str] = {}  # real path of a file -> its class
    visited: set[tuple[str, str]] = set()  # class, real path of a folder
    for root, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        label, real_root = os.path.relpath(root, folder).split(os.sep)[0], os.path.realpath(root)
        if (label, real_root) in visited:
            folders.clear()
            continue
        visited.add((label, real_root))
        hidden = {name for name in (*folders, *names) if name.startswith(HIDDEN)}
        unused[f"names that begin with {' or '.join(HIDDEN)}"] += [os.path.join(root, name) for name in hidden]
        folders[:] = sorted({*folders} - hidden)
        for name in sorted({*names} - hidden):
            path = os.path.join(root, name)
            real = os.path.realpath(path) if os.path.islink(path) else os.path.join(real_root, name)
            if label == os.curdir:
                unused["outside the class folders"].append(path)
            elif not name.lower().endswith(TYPES):
                unused[f"files of type {Path(name).suffix or '(none)'}"].append(path)
            elif not os.path.isfile(real):
                raise UserError(f"data.root: {path!r} is not a file")  # a pipe would be waited for without end
            elif label_of.setdefault(real, label) != label:
                raise UserError(f"data.root: {path!r} is a file of two classes: {label_of[real]} and {label}")
            else:
                images[label].setdefault(real, path)
        if label == os.curdir:
            images = {name: {} for name in folders}
    unused["class folders without images"] = [os.path.join(folder, label) for label in images if not images[label]]
    listed = {label: sorted(paths.values(), key=os.path.split) for label, paths in images.items() if paths}
    return listed, _described(unused, folder)


def _refuse(error: OSError) -> NoReturn:
    raise UserError(f"data.root: {error.filename!r} is not a folder that can be read: {error.strerror}") from error


def _described(unused: dict[str, list[str]], folder: Path) -> str:
    """One line on files, kind -> paths; empty where there are none."""
    kinds = []
    for kind, paths in sorted((kind, sorted(paths)) for kind, paths in unused.items() if paths):
        shown = [os.path.relpath(path, folder) for path in paths[:NAMED]] + ["..."] * (len(paths) > NAMED)
        kinds.append(f"{kind}: {len(paths):,} ({', '.join(shown)})")
    return f"not used in {str(folder)!r}: {'; '.join(kinds)}" if kinds else ""
