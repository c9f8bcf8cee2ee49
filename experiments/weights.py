"""The identity of trained weights: the SHA-256 of a run's checkpoint. It imports no torch."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from experiments.errors import UserError

CHECKPOINT = "checkpoint.safetensors"


def weights_digest(run_dir: str) -> str:
    """The SHA-256 of the checkpoint in a run's folder. Raises `UserError` where there is none."""
    try:
        with (Path(run_dir) / CHECKPOINT).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = "does not exist" if not os.path.exists(run_dir) else f"holds no {CHECKPOINT}"
        expected = "expected the folder of a finished run, or init_weights too, for a run that has begun"
        raise UserError(f"init_from: {run_dir!r} {reason}; {expected}") from error
