"""Plug-ins: import the modules that VIT_PLUGINS names, and read their source. It imports no torch."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

VARIABLE = "VIT_PLUGINS"
MAX_BYTES = 2**20  # of a plug-in's source: every record holds a copy
OWN_PACKAGES = ("vit", "experiments", "sweeps", "analysis")


class PluginError(ImportError):
    """A plug-in that cannot be used. The message is one line: the plug-in, the reason, file and line."""


@dataclass(frozen=True)
class Source:
    """The source of a plug-in as it was imported: its module, and the modules that it imports from the same folder.

    `files`: path in `folder` -> content. Data files that the code reads are not part of it.
    """

    module: str
    folder: Path
    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over names and contents."""
        return digest(self.files)


def digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 over the names and contents of source files."""
    total = hashlib.sha256()
    for name, body in sorted(files.items()):
        total.update(f"{name}\n{len(body)}\n".encode())
        total.update(body)
    return total.hexdigest()


def names() -> list[str]:
    """The modules named in VIT_PLUGINS, a comma-separated list. Worker processes inherit it."""
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def import_plugin(name: str) -> None:
    """Import a module of VIT_PLUGINS. Raises `PluginError`."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(
            f"{VARIABLE}: {name!r} is not a module name; expected names such as my_embedding, with the module's folder "
            "in PYTHONPATH"
        )
    try:
        importlib.import_module(name)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise PluginError(
                f"{VARIABLE}: no module named {name!r} was found; the folder that holds it must be in PYTHONPATH"
            ) from error
        raise PluginError(f"{VARIABLE}: {name!r} cannot be imported: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """An error as one line, with the file and line of the user's code that raised it."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        ours = Path(__file__).parent.as_posix()
        users = [f for f in frames if not f.filename.startswith(("<", ours)) and "/torch/" not in f.filename]
        place = f"{users[-1].filename}:{users[-1].lineno}" if users else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text} ({place})" if place else text


def read_source(name: str) -> Source | None:
    """The source of an imported module; None where it has no source file, as in a notebook.

    Raises `PluginError` where it is larger than `MAX_BYTES`.
    """
    file = getattr(sys.modules.get(name), "__file__", None)
    if not file or not file.endswith(".py"):
        return None
    path = Path(file).resolve()
    root = path.parents[name.count(".") + (path.name == "__init__.py")]
    installed = root.name in ("site-packages", "dist-packages")
    allowed = path.relative_to(root).parts[0].removesuffix(".py") if installed else None
    files: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        path = waiting.pop()
        key = path.relative_to(root).as_posix()
        if key not in files:
            files[key] = path.read_bytes()
            waiting += _imported(path, files[key], root, allowed)
    if sum(map(len, files.values())) > MAX_BYTES:
        raise PluginError(
            f"{VARIABLE}: {name!r} has more than {MAX_BYTES:,} bytes of source with what it imports from {root}; "
            "every record holds a copy, so move the embedding into a folder of its own"
        )
    return Source(name, root, dict(sorted(files.items())))


def _imported(path: Path, body: bytes, root: Path, allowed: str | None) -> Iterator[Path]:
    """The files under `root` that a source file imports. `allowed`: the only top-level package to follow, if any."""
    import ast  # not for commands without plug-ins: it takes time to import

    try:
        tree = ast.parse(body)
    except (SyntaxError, ValueError):
        return
    package = path.relative_to(root).parent.parts
    for node in ast.walk(tree):
        modules: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            modules = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            modules = [(*base, alias.name) for alias in node.names]
        for parts in modules:
            if parts[0] in OWN_PACKAGES or parts[0] != (allowed or parts[0]):
                continue
            for depth in range(1, len(parts) + 1):
                place = root.joinpath(*parts[:depth])
                yield from (
                    file for file in (place.with_name(f"{place.name}.py"), place / "__init__.py") if file.is_file()
                )
