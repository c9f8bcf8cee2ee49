"""Plug-ins: import the modules that VIT_PLUGINS or a study names, and read their source. It imports no torch."""

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

VARIABLE = "VIT_PLUGINS"
OWN_PACKAGES = ("vit", "experiments", "sweeps", "analysis")
INSTALLED = ("site-packages", "dist-packages")  # folders whose modules belong to no plug-in


class PluginError(ImportError):
    """A plug-in that cannot be used. The message is one line: the plug-in, the reason, file and line."""


@dataclass(frozen=True)
class Source:
    """The source of a plug-in as it was imported: its module, and its one file.

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
    """The modules and files named in VIT_PLUGINS, a comma-separated list. Worker processes inherit it."""
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def add(paths: Sequence[str], where: str) -> None:
    """Import files, given by absolute paths, and add them to VIT_PLUGINS. Raises `PluginError`, which names `where`."""
    for path in paths:
        if "," in path:
            raise PluginError(f"{where}: {path!r} is not allowed: expected a path without a comma")
        import_plugin(path, where)
    if paths:
        os.environ[VARIABLE] = ",".join(dict.fromkeys([*names(), *paths]))


def import_plugin(name: str, where: str = VARIABLE) -> None:
    """Import a module by its name or by the path of its file. Raises `PluginError`, which names `where`."""
    is_file = name.endswith(".py") or os.path.isabs(name)
    try:
        importlib.import_module(_module_of(Path(name).expanduser(), where) if is_file else name)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        missing = isinstance(error, ModuleNotFoundError)
        advice = "; its folder must be in PYTHONPATH, or give the path of its file, NAME.py" if missing else ""
        raise PluginError(f"{where}: {name!r} cannot be imported: {reason(error)}{advice}") from error


def _module_of(path: Path, where: str) -> str:
    """The module in a file. Its folder comes last in the search path, so that the file's neighbours hide no module."""
    if not path.is_file():
        way = "if it has moved, give its new path, or an absolute one"
        raise PluginError(f"{where}: {path.name!r} is not a file in {path.absolute().parent}; {way}")
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.find_spec(path.stem)
    if spec is None or not spec.origin or not os.path.exists(spec.origin) or not path.samefile(spec.origin):
        other = f": {spec.origin or path.stem} has its name" if spec else ""
        raise PluginError(f"{where}: {str(path)!r} cannot be imported{other}; rename it")
    return path.stem


def reason(error: BaseException) -> str:
    """An error as one line, with the file and line of the user's code that raised it."""
    others = ("<", str(Path(__file__).parent), os.path.dirname(os.__file__))  # imports, this package, Python's library
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(others)]
    users = [frame for frame in frames if "-packages/" not in frame.filename]  # or of a plug-in that is installed
    places = [f" ({frame.filename}:{frame.lineno})" for frame in users or frames if "/torch/" not in frame.filename]
    return " ".join(f"{type(error).__name__}: {error}{''.join(places[-1:])}".split())


def read_source(name: str) -> Source | None:
    """The source of an imported module; None where it has no source file, as in a notebook.

    Raises `PluginError` where it imports another module of its folder or package: a change there would not change the
    digest.
    """
    file = getattr(sys.modules.get(name), "__file__", None)
    if not file or not file.endswith(".py"):
        return None
    path = Path(file).resolve()
    root, body = path.parents[name.count(".") + (path.name == "__init__.py")], path.read_bytes()
    package = name.partition(".")[0] if "." in name else ""
    for top in {*_imported(body)} - {*OWN_PACKAGES, *sys.stdlib_module_names}:
        beside = () if root.name in INSTALLED else (root / top / "__init__.py", root / f"{top}.py")
        if top in ("", package) or any(map(Path.is_file, beside)):
            raise PluginError(f"{path}: imports another file of its folder, {top or 'by .'}; put all into one file")
    return Source(name, root, {path.relative_to(root).as_posix(): body})


def _imported(body: bytes) -> Iterator[str]:
    """The first part of the name of each module that a source file imports; "" of a relative import."""
    import ast  # not for commands without plug-ins: it takes time to import

    for node in ast.walk(ast.parse(body)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]
