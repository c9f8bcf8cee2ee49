"""The resume file of an unfinished run: everything that is needed to continue after the last finished epoch.

The note is read without torch.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.files import RecordError, reading, write_bytes

if TYPE_CHECKING:
    from torch import Tensor

NAME = "resume.safetensors"  # in the run's folder; deleted when the run has finished
LENGTH = 8  # bytes at the start of a safetensors file: the length of its header, which is JSON
SCHEMA = "4"


def write(run_dir: Path, note: Mapping[str, Any], state: Mapping[str, Tensor], durable: bool = True) -> None:
    """Replace the state of the previous epoch. Raises `RecordError`.

    `durable` waits for the disk. A power cut may damage a state that is not durable.
    """
    from safetensors.torch import save

    head = {"schema": SCHEMA, "note": json.dumps(note)}
    head["checksum"] = _checksum(head, state)
    write_bytes(run_dir / NAME, save(dict(state), head), durable)


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
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if head["checksum"] != _checksum(head, state) or head["schema"] != SCHEMA:
        raise ValueError("it does not match its checksum, or was written by another version")
    return json.loads(head["note"]), state


def _checksum(head: Mapping[str, str], state: Mapping[str, Tensor]) -> str:
    total = zlib.crc32((head["schema"] + head["note"]).encode())
    for name, tensor in sorted(state.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.reshape(-1).numpy().data, total)
    return str(total)


def read_note(run_dir: Path) -> dict[str, Any]:
    """The note, see `state.Saved`, without a check of the file. Raises `ValueError` where it is missing or damaged."""
    path = run_dir / NAME
    with reading(path), path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(header["__metadata__"]["note"])


def noted(run_dir: Path, field: str, otherwise: Any) -> Any:
    """A field of the note; `otherwise` where there is no file, or one that a worker refuses."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return read_note(run_dir)[field]
    return otherwise


def epochs_done(run_dir: Path) -> int:
    """The epoch after which an interrupted run goes on; 0 if there is none."""
    return len(noted(run_dir, "rows", []))


def read_members(run_dir: Path) -> list[str]:
    """The run ids of the stack in which an interrupted run was trained; empty if there was none."""
    return noted(run_dir, "members", [])
