"""The errors that every command reports in one line. This module imports nothing of the project."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError


class UserError(ValueError):
    """Bad input. The message is one line that names the field, the value and what is allowed.

    A command prints `COMMAND: error: MESSAGE` and exits with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


def first_line(error: ValidationError) -> str:
    """The first error of a validation as one line: field, value, what is allowed."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    messages = {"value_error": str(first.get("ctx", {}).get("error")), "missing": "is required"}
    value, reason = repr(first["input"])[:80], first["msg"][0].lower() + first["msg"][1:]
    message = messages.get(first["type"], f"{value} is not allowed: {reason}")
    return f"{field}: {message}" if field else message


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Where the operating system refuses what the body does in a folder below --out, raise a `UserError` that names it."""
    try:
        yield
    except OSError as error:
        raise UserError(f"out: {str(folder)!r} cannot be written: {error.strerror}") from error


class TakenOver(UserError):
    """Another process finished the run that this process is training."""
