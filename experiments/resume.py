"""The state of an unfinished run: one file that holds everything that going on after the last finished epoch needs.

Tensors lie in it end to end, as one vector for each type of number: a hundred small ones take ten times as long to save
as one long one, which on small models is time that training notices.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save
from torch import Tensor

from experiments import record

NAME = "resume.safetensors"  # in the run's folder; gone once the run is finished
SCHEMA = 2


def write(run_dir: Path, note: Mapping[str, Any], state: Mapping[str, Tensor], durable: bool = True) -> None:
    """Put the state of an epoch in place of the one before. `durable`: see `record.write_bytes`. Raises `RecordError`."""
    parts: dict[torch.dtype, list[Tensor]] = {}
    for tensor in state.values():
        parts.setdefault(tensor.dtype, []).append(tensor.reshape(-1))
    vectors = {str(dtype): torch.cat(tensors) for dtype, tensors in parts.items()}
    index = _index(tuple((name, tensor.dtype, tensor.shape) for name, tensor in state.items()))
    head = {"schema": SCHEMA, "checksum": _checksum(vectors), **note}
    record.write_bytes(run_dir / NAME, save(vectors, {"note": json.dumps(head), "index": index}), durable)


def read(run_dir: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The note and the state, as `write` was given them. Raises `RecordError` where the file is not as it was written."""
    try:
        note, index, vectors = _read(run_dir / NAME)
        if note["checksum"] != _checksum(vectors):
            raise ValueError("its numbers do not match their checksum")
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        why = f"cannot be read ({error}); delete the run's folder to train it anew"
        raise record.RecordError(f"{run_dir / NAME}: {why}") from error
    state, used = {}, dict.fromkeys(vectors, 0)
    for name, dtype, shape in index:
        start = used[dtype]
        used[dtype] += math.prod(shape)
        state[name] = vectors[dtype][start : used[dtype]].view(shape)
    return note, state


def read_note(run_dir: Path) -> dict[str, Any]:
    """The note alone, unchecked."""
    with safetensors.safe_open(run_dir / NAME, framework="pt") as file:
        return json.loads(file.metadata()["note"])


def _read(path: Path) -> tuple[dict[str, Any], list[Any], dict[str, Tensor]]:
    with safetensors.safe_open(path, framework="pt") as file:
        head = file.metadata()
        note = json.loads(head["note"])
        if note.get("schema") != SCHEMA:
            raise ValueError(f"schema {note.get('schema', 1)}: another version wrote it")
        return note, json.loads(head["index"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118: not a dict


@lru_cache(maxsize=16)
def _index(tensors: tuple[tuple[str, torch.dtype, torch.Size], ...]) -> str:
    """Where each tensor lies; the same after every epoch."""
    return json.dumps([(name, str(dtype), shape) for name, dtype, shape in tensors])


def _checksum(vectors: Mapping[str, Tensor]) -> int:
    total = 0
    for dtype in sorted(vectors):
        total = zlib.crc32(vectors[dtype].numpy(), total)
    return total
