"""The note in the resume file of an unfinished run, read without the tensors and without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.files import reading

NAME = "resume.safetensors"  # in the run's folder; deleted when the run has finished
LENGTH = 8  # bytes at the start of a safetensors file: the length of its header, which is JSON


def read_note(run_dir: Path) -> dict[str, Any]:
    """The note, see `state.Saved`, without a check of the file. Raises `ValueError` where there is none, or a damaged one."""
    with reading(run_dir / NAME), (run_dir / NAME).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(LENGTH), "little")))
    return json.loads(header["__metadata__"]["note"])


def read_members(run_dir: Path) -> list[str]:
    """The run ids of the stack in which an interrupted run was trained; empty if there was none."""
    try:
        return read_note(run_dir)["members"]
    except (ValueError, KeyError, TypeError, MemoryError, OverflowError):  # no file, or one that the worker refuses
        return []
