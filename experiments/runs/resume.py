"""The resume file of an unfinished run: everything that is needed to continue after the last finished epoch.

Tensors of one dtype are stored as one vector. A hundred small tensors take ten times as long to save, which slows down
the training of small models. The note is read without torch.
"""

from __future__ import annotations

import contextlib
import json
import math
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.files import RecordError, reading, write_bytes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAME = "resume.safetensors"  # in the run's folder; deleted when the run has finished
LENGTH = 8  # bytes at the start of a safetensors file: the length of its header, which is JSON
SCHEMA = "3"


def write(run_dir: Path, note: Mapping[str, Any], state: Mapping[str, Tensor], durable: bool = True) -> None:
    """Replace the state of the previous epoch. Raises `RecordError`.

    `durable` waits for the disk. A power cut may damage a state that is not durable.
    """
    import torch
    from safetensors.torch import save

    parts: dict[torch.dtype, list[Tensor]] = {}
    for tensor in state.values():
        parts.setdefault(tensor.dtype, []).append(tensor.reshape(-1))
    vectors = {str(dtype): torch.cat(tensors) for dtype, tensors in parts.items()}
    index = _index(tuple((name, tensor.dtype, tensor.shape) for name, tensor in state.items()))
    head = {"schema": SCHEMA, "note": json.dumps(note), "index": index}
    head["checksum"] = _checksum(head, vectors)
    write_bytes(run_dir / NAME, save(vectors, head), durable)


def read(run_dir: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """The last note and state that `write` stored; None without any. Raises `RecordError` where they are damaged."""
    import safetensors

    path = run_dir / NAME
    if not path.exists():
        return None
    try:
        with reading(path):
            return _read(path)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        advice = "delete the run's folder to train it again"
        raise RecordError(f"{path}: cannot be read ({error}); {advice}") from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    import safetensors

    with safetensors.safe_open(path, framework="pt") as file:
        head = file.metadata()
        vectors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if head.pop("checksum") != _checksum(head, vectors) or head["schema"] != SCHEMA:
        raise ValueError("it does not match its checksum, or was written by another version")
    state, used = {}, dict.fromkeys(vectors, 0)
    for name, dtype, shape in json.loads(head["index"]):
        start = used[dtype]
        used[dtype] += math.prod(shape)
        state[name] = vectors[dtype][start : used[dtype]].view(shape)
    return json.loads(head["note"]), state


@lru_cache(maxsize=16)
def _index(tensors: tuple[tuple[str, torch.dtype, torch.Size], ...]) -> str:
    """Name, dtype and shape of each tensor, in the order they are stored; the same after every epoch."""
    return json.dumps([(name, str(dtype), shape) for name, dtype, shape in tensors])


def _checksum(head: Mapping[str, str], vectors: Mapping[str, Tensor]) -> str:
    total = zlib.crc32("".join(head[name] for name in ("schema", "note", "index")).encode())
    for dtype in sorted(vectors):
        total = zlib.crc32(vectors[dtype].numpy().data, total)
    return str(total)


def read_note(run_dir: Path) -> dict[str, Any]:
    """The note, see `state.Saved`, without a check of the file. Raises `ValueError` where it is missing or damaged."""
    path = run_dir / NAME
    with reading(path), path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(header["__metadata__"]["note"])


def epochs_done(run_dir: Path) -> int:
    """The epoch after which an interrupted run goes on; 0 if there is none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):  # no file, or one that the worker refuses
        return len(read_note(run_dir)["rows"])
    return 0


def read_members(run_dir: Path) -> list[str]:
    """The run ids of the stack in which an interrupted run was trained; empty if there was none."""
    try:
        return read_note(run_dir)["members"]
    except (ValueError, KeyError, TypeError):  # no file, or one that the worker refuses
        return []
