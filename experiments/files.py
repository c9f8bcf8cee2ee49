"""Files written atomically, and JSON."""

import contextlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.errors import UserError

PART = ".part-"  # prefix of a file that is being written


class RecordError(UserError):
    """A record that is missing, unreadable or changed. The message names the file and the reason."""


class FolderDeletedError(RecordError):
    """A folder that was deleted while its run is in training. The message names the file that cannot be written."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Where a file is no file or folder, or the system refuses to read it, raise a `RecordError` that names it."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise RecordError(f"{path}: is not a file")  # a pipe would be waited for without end
        yield
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error


def check_replaceable(folder: Path, objection: Callable[[Path], str]) -> None:
    """Raise `UserError` where writing to the folder would lose a file. `objection`: why a file must stay, or ""."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder}: is not a folder; move it, or give another folder")
    with reading(folder):
        for path in sorted(folder.rglob("*")) if folder.exists() else []:
            if (path.is_symlink() or not path.is_dir()) and (why := objection(path)):
                raise UserError(f"{path}: {why}; move it, or give another folder")


def write_bytes(path: Path, body: bytes, durable: bool = True) -> None:
    """Write a file atomically: a reader sees the complete old file or the complete new one. Raises `RecordError`.

    `durable` waits for the disk, so that a power cut does not change this.
    """
    temporary = Path(path).parent / f"{PART}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            file.write(body)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if not Path(path).parent.exists():
            raise FolderDeletedError(f"{path}: cannot be written: its folder was deleted") from error
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # what cannot be written cannot be deleted either
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """`write_text` for a JSON value; a number that is not finite becomes null, because JSON has no NaN."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `RecordError`."""
    with reading(path):
        body = path.read_bytes()
    try:
        value = json.loads(body.decode())
    except ValueError as error:
        raise RecordError(f"{path}: is not JSON: {error}") from error
    except RecursionError as error:
        raise RecordError(f"{path}: is nested too deeply") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path}: holds a JSON {type(value).__name__}, not an object")
    return value


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, for digests and run ids: equal values give equal bytes."""
    return json.dumps(finite(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def finite(value: Any) -> Any:
    """The value with every infinite or NaN number replaced by None, because JSON has none of them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
