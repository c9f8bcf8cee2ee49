"""Keep what was read from models and datasets, so that a second report of unchanged runs needs neither torch nor data."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
CODE = Path(__file__).parents[2]
USED = ("vit/**/*.py", "experiments/**/*.py", "analysis/figures/inspect.py")
"""The code that decides what is read from a model or a dataset."""


def kept(file: Path, key: tuple[object, ...], kind: type[T], compute: Callable[[], T]) -> T:
    """Return what `file` keeps for this key and this code; else compute it and keep it there.

    `key`: all that the values depend on but the code, such as the digest of a record. `kind`: a dataclass of arrays,
    texts, tuples of texts, and None. A file that cannot be read is made anew; one that cannot be written is no error.
    """
    digest = hashlib.sha256(repr(key).encode())
    for path in sorted(path for pattern in USED for path in CODE.glob(pattern)):
        digest.update(path.read_bytes())
    try:
        with np.load(file) as arrays:
            if str(arrays["key"]) == digest.hexdigest():
                return kind(**{field.name: _value(arrays, field.name) for field in fields(kind)})  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass
    value = compute()
    known = {name: array for name, array in vars(value).items() if array is not None}
    new = file.with_name(f".{file.name}-{os.getpid()}.npz")
    try:
        file.parent.mkdir(exist_ok=True)
        np.savez(new, key=np.array(digest.hexdigest()), **known)
        os.replace(new, file)
    except OSError:
        new.unlink(missing_ok=True)
    return value


def _value(arrays: Any, name: str) -> Any:
    """A field as it was: None is not in the file, and texts are arrays of texts there."""
    array = arrays.get(name)
    if array is None or array.dtype.kind != "U":
        return array
    return tuple(map(str, array)) if array.ndim else str(array)
