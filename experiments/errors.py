"""What every command says in one line: errors, and values. It imports nothing heavy."""

import contextlib
import json
import math
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vit.registry import nearest


def printable(text: object) -> str:
    """Text as one line that a terminal and a page can show: white space is a space, and what cannot be printed, such as
    an escape or a change of the direction of writing, is U+FFFD.
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in line)


def say(*lines: object, error: bool = False, hang: int | None = None) -> None:
    """Print lines, if any, each as `printable` shows it. Only rich and wandb print otherwise.

    `hang`: wrap lines at the width of the terminal; what continues a line is indented by so many spaces.
    """
    texts = list(map(printable, lines))
    if hang is not None:
        wrap = textwrap.TextWrapper(
            line_width(), subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
        )
        texts = [part for line in texts for part in wrap.wrap(line) or [""]]
    if texts:
        print("\n".join(texts), file=sys.stderr if error else sys.stdout, flush=True)


def line_width() -> int:
    """The width of the terminal: COLUMNS, else that of standard output, else 200."""
    return shutil.get_terminal_size((200, 24)).columns


def shell_words(command: str) -> str:
    """A command of a record as a shell may read it: one of ours, its words quoted. Anything else is a comment."""
    with contextlib.suppress(ValueError):
        if (words := shlex.split(command))[:1] in (["vit-train"], ["vit-sweep"], ["vit-report"]):
            return printable(shlex.join(words))
    return f"# {printable(command)}" if command else ""


MOST_NAMED = 6  # things that a line or a sentence names


def first_few(names: Iterable[str], between: str = ", ") -> str:
    """The first `MOST_NAMED` of several names, and how many more there are: `a, b, and 3 more`."""
    named = list(names)
    more = len(named) - MOST_NAMED
    return between.join([*named[:MOST_NAMED], *[f"and {more} more"] * (more > 0)])


class UserError(ValueError):
    """Bad input. The message is one line that names the field, the value and what is allowed.

    A command prints `COMMAND: error: MESSAGE` and exits with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(str(message).split())))

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: one line."""
        return [f"{type(self).__name__}: {self}"]


def first_line(error: ValidationError, sections: Collection[str] = (), names: Collection[str] = ()) -> str:
    """The first error of a validation as one line: field, value, what is allowed.

    An unknown name comes first, because it explains the rest; `known` are the names to suggest. A validator of a whole
    model, or of one of these `sections` of it, raises `ValueError("FIELD: ...")`.
    """
    errors = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != "extra_forbidden")
    first, field = errors[0], _field(errors[0]["loc"])
    if first["type"] == "value_error":
        return f"{field}{'.' if field in sections else ': ' if field else ''}{first['ctx']['error']}"
    if first["type"] == "extra_forbidden":
        return f"{field}: no such setting" + (f"; {nearest(field, names)}" if names else "")
    if first["type"] == "missing":
        return f"{field}: is required"
    if first["type"] == "too_short":
        return f"{field}: {first['input']} is not allowed: expected at least {first['ctx']['min_length']}"
    messages = [fault["msg"] for fault in errors if _field(fault["loc"]) == field]  # several for alternatives
    others = (text.removeprefix("Input should be ") for text in messages[1:])
    allowed = [messages[0][0].lower() + messages[0][1:], *others]
    value = "none" if first["input"] is None else repr(first["input"])[:200]
    return f"{field or 'input'}: {value} is not allowed: {', or '.join(allowed)}"


def _field(loc: tuple[int | str, ...]) -> str:
    """The dotted name of a field. pydantic adds the type for a field with alternatives; it is left out."""
    parts = [str(part) for part in loc]
    is_type = len(parts) > 1 and (parts[-1] in ("str", "int", "constrained-int") or parts[-1].endswith("]"))
    return ".".join(parts[:-1] if is_type else parts)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Where the system refuses what the body does below --out, raise a `UserError` that names the path."""
    try:
        yield
    except OSError as error:
        raise UserError(f"out: {str(error.filename or folder)!r} cannot be written: {error.strerror}") from error


def setting_text(value: Any) -> str:
    """A value as a command line takes it: true, false and none in lower case, a list with commas."""
    if isinstance(value, tuple | list) or value == "":
        return ",".join(map(str, value)) or '""'
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def plural(n: int, noun: str, several: str = "") -> str:
    """A count with its noun: `1 seed`, `5 seeds`; `several`: the plural, where it is not the noun and an s."""
    return f"{n} {noun if n == 1 else several or f'{noun}s'}"


def format_level(value: Any) -> str:
    """A level as labels and messages show it. Equal numbers look equal. An empty text is two quotation marks."""
    if value is None:
        return setting_text(value)
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return value if isinstance(value, str) and value else json.dumps(value, default=str)  # YAML has dates, JSON has not


def duration_text(seconds: float) -> str:
    """A duration in a suitable unit: "4.1 s", "12 min", "3.4 h"; a dash where it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
