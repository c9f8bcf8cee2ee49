"""Files and locks of a folder that somebody else may have made: the only module that opens, writes and deletes them.

The rule. Formats are safe: JSON, CSV, npz without pickle, safetensors, YAML of plain values. A name becomes part of a
path only after `check_name`. Files are written by rename, in no linked folder, and locks and logs are opened by
`open_own`. What is sent, and a checkpoint or resume file that is loaded, has its record's digest.
"""

import contextlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from experiments.errors import UserError, writing

UNUSABLE = (ValueError, LookupError, TypeError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What a file raises that is no table or no npz file."""
DRIVER_LOCK = "driver.lock"  # held by the one process that trains a study, or writes its plan
LOCKS = "locks"  # beside the folders of runs: for each run the lock of the process that trains it
PART = ".part-"  # prefix of a file that is being written
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,+-]{0,127}")  # of a run, a W&B run or a token, before it enters a path


class RecordError(UserError):
    """A record that is missing, unreadable or changed. The message names the file and the reason."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Where a file is no file or folder, or the system refuses to read it, raise a `RecordError` that names it."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise RecordError(f"{path}: is not a file")  # a pipe would be waited for without end
        yield
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_bytes(path: Path, opened: Callable[..., Any] = open) -> bytes:
    """The content of a file. `opened`: `gzip.open` of a compressed one. Raises `RecordError`."""
    with reading(path), opened(path, "rb") as file:
        body: bytes = file.read()
    return body


def check_name(name: str, where: object) -> str:
    """A name that may become part of a path. Raises `UserError`, which begins with `where`, for any other one."""
    if not NAME.fullmatch(name):
        allowed = "expected at most 128 of a-z, A-Z, 0-9 and . _ = , + -, the first a letter or digit"
        raise UserError(f"{where}: {name[:150]!r} is not allowed: {allowed}")
    return name


def check_own(folder: Path, name: str = "") -> Path:
    """A folder to write, send or delete, or a file in it by its relative name. Either may be missing.

    Raises `UserError` where it, or a part of the name, is a link.
    """
    path = folder / name
    for part in (path, *path.parents[: len(Path(name).parts)]):
        if part.is_symlink():
            raise UserError(f"{part}: is a link, which is only read; move what it points to here, or delete the link")
    return path


def own_folder(path: Path) -> Path:
    """Make a folder in a study's folder, which may itself be a link. Raises `UserError` where the former is one."""
    with writing(path):
        check_own(path).mkdir(parents=True, exist_ok=True)
    return path


def open_own(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file to lock it, or to write at its place; its descriptor. Raises `OSError` where it cannot be opened.

    Raises `UserError` where it is a link, no file, or has a second name: what is written would be elsewhere, too.
    """
    refused = UserError(f"{path}: is not a file, or has a second name (a hard link); move it away")
    if os.path.lexists(check_own(path)) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise refused  # to open a device may do something
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    info = os.fstat(file)
    if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
        os.close(file)
        raise refused
    return file


@contextlib.contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """An empty folder beside another, deleted at the end. Deletion follows no link; what cannot be deleted stays."""
    path = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)  # TemporaryDirectory sets modes through links before Python 3.12


def delete_file(path: Path) -> None:
    """Delete a file of a run's folder, if there is one; of a folder that is a link, nothing is deleted."""
    if not path.parent.is_symlink():
        path.unlink(missing_ok=True)


def delete_folders(parent: Path, names: str) -> None:
    """Delete the folders directly in `parent` whose whole name matches a pattern of `re`; links are left alone."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        if re.fullmatch(names, folder.name) and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)


def check_replaceable(folder: Path, objection: Callable[[Path], str]) -> None:
    """Raise `UserError` where writing to the folder would lose a file. `objection`: why a file must stay, or ""."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder}: is not a folder; move it, or give another folder")
    with reading(folder):
        for path in sorted(folder.rglob("*")) if folder.exists() else []:
            if (path.is_symlink() or not path.is_dir()) and (why := objection(path)):
                raise UserError(f"{path}: {why}; move it, or give another folder")


def write_bytes(path: Path, body: bytes, durable: bool = True) -> None:
    """Write a file atomically: a reader sees the complete old file or the complete new one. Raises `RecordError`.

    `durable` waits for the disk, so that a power cut does not change this.
    """
    temporary = Path(path).parent / f"{PART}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            file.write(body)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # what cannot be written cannot be deleted either
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """`write_text` for a JSON value; a number that is not finite becomes null, because JSON has no NaN."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `RecordError`."""
    body = read_bytes(path)
    try:
        value = json.loads(body.decode())
        if re.search(rb"\\u[dD]", body):  # perhaps half a pair, which is no text and cannot be written
            json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise RecordError(f"{path}: is not JSON: {error}") from error
    except RecursionError as error:
        raise RecordError(f"{path}: is nested too deeply") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path}: holds a JSON {type(value).__name__}, not an object")
    return value


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, for digests and run ids: equal values give equal bytes."""
    return json.dumps(finite(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def finite(value: Any) -> Any:
    """The value with every infinite or NaN number replaced by None, because JSON has none of them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, of plain values. Two more things are errors: a repeated key (PyYAML keeps the last), and a
    number that is not decimal (PyYAML reads 010 as 8 and 1:30 as 90).
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):  # PyYAML refuses other keys
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"{key.value!r} occurs twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        is_number = isinstance(node, yaml.ScalarNode) and node.tag.endswith((":int", ":float"))
        if is_number and re.match(r"[-+]?0\w|.*:", node.value):
            what = f"{node.value} is not allowed: a number has neither a leading zero nor a colon; a text needs quotes"
            raise yaml.MarkedYAMLError(None, None, what, node.start_mark)
        return super().construct_object(node, deep)


def read_mapping(path: Path, fields: str) -> dict[str, Any]:
    """Read a YAML file that holds a mapping with these `fields`. Raises `UserError` naming file, line and reason."""
    try:
        tree = yaml.load(read_bytes(path).decode(), _Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UserError(f"{path}: is not valid YAML: {line}{error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a date such as 2024-99-99
        raise UserError(f"{path}: is not valid YAML: {error}") from error
    if not isinstance(tree, dict):
        kind = "nothing" if tree is None else type(tree).__name__
        raise UserError(f"{path}: expected a mapping with {fields}, got {kind}")
    return tree


@contextlib.contextmanager
def lock(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock in the body, if it is free within so many seconds. Yields whether it is held. The kernel unlocks it
    when the process ends, however it ends.

    Raises `UserError` where the file is a link or cannot be used.
    """
    file = FileLock(check_own(path), poll_interval=0.02)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.acquire(timeout=seconds)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise RecordError(f"{path}: cannot be locked: {error.strerror or error}") from error
    try:
        yield True
    finally:
        file.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock. It takes the lock for an instant, if it can. A device is not opened."""
    if not path.is_file() or path.is_symlink():
        return False
    try:
        with lock(path) as is_held:
            return not is_held
    except UserError:  # the folder may only be read
        return False


@contextlib.contextmanager
def lock_runs(folder: Path, names: list[str], seconds: float) -> Iterator[set[str]]:
    """Hold the locks of runs in a folder. Yields the names of those that no other process holds within some seconds.

    They are taken in the order of the names, so that two processes do not wait for each other.
    """
    with contextlib.ExitStack() as stack:
        locks = own_folder(folder / LOCKS) if names else folder
        checked = [check_name(name, f"{folder}: a run's name") for name in sorted(names)]
        yield {name for name in checked if stack.enter_context(lock(locks / name, seconds))}
