"""The source of plug-ins: read from run folders, kept in exports, by digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from experiments.runs import record
from vit.plugins import digest

Sources = dict[str, dict[str, str]]
"""digest -> name of a source file -> its text"""


def read_sources(run: record.RunRecord, known: Sources) -> None:
    """Add the source of a run's plug-in to `known`. Raises `RecordError` where the copy was changed."""
    plugin = (run.summary.get("provenance") or {}).get("plugin") or {}
    if not plugin.get("digest") or plugin["digest"] in known:
        return
    prefix = f"{record.PLUGIN}/"
    files = {
        name.removeprefix(prefix): record.read_bytes(run.dir / name, sha256)
        for name, sha256 in run.summary["files"].items()
        if name.startswith(prefix)
    }
    if digest(files) != plugin["digest"]:
        raise record.RecordError(
            f"{run.dir / record.PLUGIN}: does not match the digest of the plug-in in {record.SUMMARY}"
        )
    known[plugin["digest"]] = {name: body.decode(errors="replace") for name, body in files.items()}


def to_bytes(sources: Sources) -> bytes:
    """The sources as JSON. The same sources give the same bytes."""
    return (json.dumps(sources, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def from_bytes(body: bytes) -> Sources:
    """The inverse of `to_bytes`. Raises `ValueError` where the bytes are something else."""
    tree: Any = json.loads(body)
    if not isinstance(tree, Mapping) or not all(isinstance(files, Mapping) for files in tree.values()):
        raise ValueError("it is not a table of source files")
    return {str(key): {str(name): str(text) for name, text in files.items()} for key, files in tree.items()}
