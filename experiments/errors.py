"""The errors that every command reports in one line. This module imports nothing."""

from __future__ import annotations


class UserError(ValueError):
    """Bad input. The message is one line that names the field, the value and what is allowed.

    A command prints `COMMAND: error: MESSAGE` and exits with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


class TakenOver(UserError):
    """Another process finished the run that this process is training."""
