"""Which code is running: the package version, the git commit and uncommitted changes. It imports no torch."""

import functools
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
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
    running = code()
    if running["commit"] is None:
        return installed
    return f"{installed} (commit {running['commit'][:12]}{', modified' if running['dirty'] else ''})"


def code() -> dict[str, Any]:
    """The git commit of the running code and whether tracked files differ from it; both None outside a checkout.

    The first call in a process decides: the code is imported once, and files may change while it runs.
    """
    folder = _checkout()
    if folder is None:
        return {"commit": None, "dirty": None}
    commit, changes = _text(folder, "rev-parse", "HEAD"), _text(folder, "status", "--porcelain", "-uno")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def command() -> str:
    """The command line, without the folder of the program."""
    return shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def remote() -> str | None:
    """The address of the repository that the code was cloned from, without user and password; None if unknown."""
    folder = _checkout()
    address = folder and _text(folder, "config", "--get", "remote.origin.url")
    return re.sub(r"(?<=://)[^/@]*@", "", address) if address else None


def uncommitted_diff() -> bytes:
    """The changes of tracked files since the commit, as git prints them; empty without any."""
    if not code()["dirty"]:
        return b""
    return _git(_checkout(), "diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--", ":/") or b""


def is_committed(folder: Path, names: tuple[str, ...]) -> bool:
    """Whether git holds these files of a folder as they are now. False outside a repository."""
    tracked = _git(folder, "ls-files", "--error-unmatch", "--", *names)
    return tracked is not None and _git(folder, "status", "--porcelain", "--", *names) == b""


def _checkout() -> Path | None:
    """This file's folder; None where it is not tracked, as when installed in another project's checkout."""
    file = Path(__file__).resolve()
    return file.parent if _git(file.parent, "ls-files", "--error-unmatch", file.name) is not None else None


def _text(folder: Path, *arguments: str) -> str | None:
    output = _git(folder, *arguments)
    return None if output is None else output.decode(errors="replace").strip()


@functools.cache
def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
