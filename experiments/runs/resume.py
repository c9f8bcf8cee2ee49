"""The resume file of an unfinished run: everything that is needed to continue after the last finished epoch.

Tensors of one dtype are stored as one vector. A hundred small tensors take ten times as long to save, which slows down the
training of small models.
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

from experiments.runs import record
from experiments.runs.resume_note import NAME, NEWER

SCHEMA = 3
State = tuple[dict[str, Any], dict[str, Tensor]]


def write(run_dir: Path, note: Mapping[str, Any], state: Mapping[str, Tensor], durable: bool = True) -> None:
    """Replace the state of the previous epoch. Raises `RecordError`.

    `durable` waits for the disk. A state that is not durable is kept in another file than the last durable one.
    """
    parts: dict[torch.dtype, list[Tensor]] = {}
    for tensor in state.values():
        parts.setdefault(tensor.dtype, []).append(tensor.reshape(-1))
    vectors = {str(dtype): torch.cat(tensors) for dtype, tensors in parts.items()}
    index = _index(tuple((name, tensor.dtype, tensor.shape) for name, tensor in state.items()))
    said = json.dumps({"schema": SCHEMA, **note})
    head = {"note": said, "index": index, "checksum": str(_checksum(said, index, vectors))}
    record.write_bytes(run_dir / (NAME if durable else NEWER), save(vectors, head), durable)
    if durable:
        (run_dir / NEWER).unlink(missing_ok=True)


def read(run_dir: Path) -> State | None:
    """The last note and state that `write` stored; None if there are none.

    Raises `RecordError` where the files are damaged.
    """
    found, troubles = [], []
    for path in (run_dir / NEWER, run_dir / NAME):
        if path.exists():
            try:
                found.append(_read(path))
            except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
                troubles.append(f"{path}: cannot be read ({error}); delete the run's folder to train it again")
    if troubles and not found:
        raise record.RecordError(troubles[-1])
    return max(found, key=lambda state: len(state[0]["rows"]), default=None)


def _read(path: Path) -> State:
    with safetensors.safe_open(path, framework="pt") as file:
        head = file.metadata()
        vectors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    note = json.loads(head["note"])
    if note.get("schema") != SCHEMA:
        raise ValueError(f"schema {note.get('schema', 1)}: it was written by another version")
    if head["checksum"] != str(_checksum(head["note"], head["index"], vectors)):
        raise ValueError("it does not match its checksum")
    state, used = {}, dict.fromkeys(vectors, 0)
    for name, dtype, shape in json.loads(head["index"]):
        start = used[dtype]
        used[dtype] += math.prod(shape)
        state[name] = vectors[dtype][start : used[dtype]].view(shape)
    return note, state


@lru_cache(maxsize=16)
def _index(tensors: tuple[tuple[str, torch.dtype, torch.Size], ...]) -> str:
    """Name, dtype and shape of each tensor, in the order they are stored; the same after every epoch."""
    return json.dumps([(name, str(dtype), shape) for name, dtype, shape in tensors])


def _checksum(note: str, index: str, vectors: Mapping[str, Tensor]) -> int:
    total = zlib.crc32((note + index).encode())
    for dtype in sorted(vectors):
        total = zlib.crc32(vectors[dtype].numpy().data, total)
    return total
