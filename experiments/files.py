"""Files written atomically, and JSON."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from experiments.canonical import finite
from experiments.errors import UserError

PART = ".part-"  # prefix of a file that is being written


class RecordError(UserError):
    """A record that is missing, unreadable or changed. The message names the file and the reason."""


def write_bytes(path: Path, body: bytes, durable: bool = True) -> None:
    """Write a file atomically: a reader sees the complete old file or the complete new one. Raises `RecordError`.

    `durable` waits for the disk, so that a power cut does not change this.
    """
    try:
        _replace(Path(path), body, durable)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error


def _replace(path: Path, body: bytes, durable: bool) -> None:
    temporary = path.parent / f"{PART}{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            if durable:
                file.flush()
                os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """`write_text` for a JSON value; a number that is not finite becomes null, because JSON has no NaN."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `RecordError`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path}: holds a JSON {type(value).__name__}, not an object")
    return value
