"""Which code is running: the package version and the git commit. It imports no torch."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

PACKAGE = "vit-ablation"


def describe() -> str:
    """The package version and, in a checkout, the commit: `0.1.0 (commit 1a2b3c4d5e6f, modified)`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        installed = "(not installed)"
    found = code()
    if found["commit"] is None:
        return installed
    return f"{installed} (commit {found['commit'][:12]}{', modified' if found['dirty'] else ''})"


def code() -> dict[str, Any]:
    """The git commit of the running code and whether tracked files differ from it; both None outside a checkout."""
    file = Path(__file__).resolve()
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:  # installed in another project's checkout
        return {"commit": None, "dirty": None}
    commit, changes = _git(file.parent, "rev-parse", "HEAD"), _git(file.parent, "status", "--porcelain", "-uno")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


@functools.cache
def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
