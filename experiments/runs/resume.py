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

from experiments.runs import record

NAME = "resume.safetensors"  # in the run's folder; gone once the run is finished
NEWER = "resume-newer.safetensors"  # the same of a later epoch, which a power cut may spoil
SCHEMA = 2
State = tuple[dict[str, Any], dict[str, Tensor]]


def write(run_dir: Path, note: Mapping[str, Any], state: Mapping[str, Tensor], durable: bool = True) -> None:
    """Put the state of an epoch in place of the one before. Raises `RecordError`.

    `durable` waits for the disk. A state that is not lies beside the last durable one until the next.
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
    """The note and the state as `write` was given them last; None where there are none.

    Raises `RecordError` where no file is as it was written.
    """
    found, troubles = [], []
    for path in (run_dir / NEWER, run_dir / NAME):
        if path.exists():
            try:
                found.append(_read(path))
            except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
                troubles.append(f"{path}: cannot be read ({error}); delete the run's folder to train it anew")
    if troubles and not found:
        raise record.RecordError(troubles[-1])
    return max(found, key=lambda state: len(state[0]["rows"]), default=None)


def read_note(run_dir: Path) -> dict[str, Any]:
    """The newest note, unchecked. Raises `OSError` where there is none."""
    newest = run_dir / NEWER
    with safetensors.safe_open(newest if newest.exists() else run_dir / NAME, framework="pt") as file:
        return json.loads(file.metadata()["note"])


def _read(path: Path) -> State:
    with safetensors.safe_open(path, framework="pt") as file:
        head = file.metadata()
        vectors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    note = json.loads(head["note"])
    if note.get("schema") != SCHEMA:
        raise ValueError(f"schema {note.get('schema', 1)}: another version wrote it")
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
    """Where each tensor lies; the same after every epoch."""
    return json.dumps([(name, str(dtype), shape) for name, dtype, shape in tensors])


def _checksum(note: str, index: str, vectors: Mapping[str, Tensor]) -> int:
    total = zlib.crc32((note + index).encode())
    for dtype in sorted(vectors):
        total = zlib.crc32(vectors[dtype].numpy().data, total)
    return total
