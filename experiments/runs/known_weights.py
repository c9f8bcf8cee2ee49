"""The initial weights of runs whose source, the folder in `init_from`, is gone, as their own records name them.

So the same command resumes, shows or extends them without the source. It imports no torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.runs import record


def with_known_weights(changes: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The settings with `init_weights`, where the folder in `init_from` is gone and the records in `out` name its weights."""
    named = {path.replace("-", "_"): value for path, value in changes.items()}
    source = named.get("init_from")
    if not isinstance(source, str) or source == "none" or "init_weights" in named or os.path.exists(source):
        return dict(changes)
    known = known_weights(source, out)
    return {**changes, "init_weights": known} if known else dict(changes)


def known_weights(source: str, out: Path) -> str | None:
    """The `init_weights` of the runs in `out`, and of the base of a study there, that start from this folder.

    None where there are none, or where they start from different weights.
    """
    plan = _read(out / record.STUDY)
    configs = [plan.get("base"), *map(_read, out.glob(f"*/{record.CONFIG}"))]
    known = {
        config.get("init_weights")
        for config in configs
        if isinstance(config, Mapping) and config.get("init_from") == source
    }
    return known.pop() if len(known) == 1 else None


def _read(path: Path) -> Mapping[str, Any]:
    """A JSON file that holds a mapping; empty where it cannot be read as one."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, Mapping) else {}
