"""What a report is to show: `ReportOptions`, whose fields are the flags of `vit-report` and the arguments of Python."""

import argparse
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args, get_origin

from pydantic import BeforeValidator, Field, ValidationError

from experiments.cli import folder
from experiments.compared import ColumnMargin, Family, Variance
from experiments.errors import UserError, first_line
from experiments.sections import Section
from vit.registry import nearest

Spread = Literal["interval", "sd"]
"""What stands after ± of a mean in a table for a paper: half its interval (the default), or the runs' deviation."""
PAGES = ("report", "across")
REPORT_ONLY = ("out", "figures", "open", "wandb", "models")
OUTPUTS = ("table", "json", "gate")  # in place of a report
ENDINGS = (".tex", ".md", ".csv")  # of a table for a paper


class Group(NamedTuple):
    """Flags that stand together in the help of some commands."""

    title: str
    commands: tuple[str, ...]
    in_python: bool = False  # they are arguments of `analysis.read` and `analysis.compare` as well
    of_tables: bool = False  # they say what the columns of a table are


RUNS = Group("what is compared", (*PAGES, "export", "pool"), in_python=True)
COMPARED = Group(RUNS.title, (*PAGES, "export"), in_python=True)
COLUMNS = Group("tables", (*PAGES, "export"), True, True)
DATASET = Group(COLUMNS.title, PAGES, True, True)
POOLED = Group(RUNS.title, ("pool",))
FILES = Group("the report", (*PAGES, "pool"))
REPORT = Group(FILES.title, PAGES)
TABLE = Group("in place of a report", PAGES)
INSTEAD = Group(TABLE.title, ("report",))
STUDY = Group(FILES.title, ("report",))


def _text(value: Any) -> Any:
    """A text; the name of a column may be a number."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        raise ValueError(f"{value!r} is not allowed: expected one text")
    return value if value is None else str(value)


def _listed(value: Any) -> list[str]:
    """Several texts; one is a list of one, a mapping several such as `a=b`."""
    if isinstance(value, Mapping):
        return [f"{key}={one}" for key, one in value.items()]
    return [*map(str, [value] if isinstance(value, str) or not isinstance(value, Iterable) else value)]


def names_of(value: Any) -> list[str]:
    """Names from one text with commas between them, or from a list."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else _listed(value)


def _equations(value: Any) -> list[str]:
    """Texts such as `a=b`."""
    texts = _listed(value)
    if odd := [text for text in texts if not re.search(r".=", text)]:
        raise ValueError(f"{odd[0]!r} is not allowed: expected NAME=VALUE")
    return texts


def _path(value: str) -> str:
    try:
        return folder(value)
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from error


def _table(value: str) -> str:
    if not value.endswith(ENDINGS):
        raise ValueError(f"{value!r} is not allowed: expected a file that ends with {', '.join(ENDINGS)}")
    return _path(value)


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Names = Annotated[tuple[str, ...], BeforeValidator(names_of)]
Equations = Annotated[tuple[str, ...], BeforeValidator(_equations)]
Switch = Annotated[bool, Field(strict=True)]
File = Annotated[Path, BeforeValidator(_path)]
TableFile = Annotated[Path, BeforeValidator(_table)]


def _flag(group: Group, metavar: str | None = None, default: Any = None) -> Any:
    """A field. `metavar`: what stands for its value in the help."""
    extra: Any = {"group": group}
    return Field(default, title=metavar, json_schema_extra=extra)


class ReportOptions(Section, alias_generator=lambda name: name.rstrip("_"), use_attribute_docstrings=True):
    """What a report is to show: which runs, compared how, and shown how. Checked once, for the shell and for Python.

    A field is a flag of the commands of its group (`lower_is_better` is --lower-is-better); an argument of
    `analysis.read` and `analysis.compare`, if its group is; and what the code that answers reads. To add one, add a
    field: its type says what is allowed (a tuple is a flag that may be repeated, a `Literal` one with choices), its
    docstring is its help. `given` has the fields that the user states. What does not go together: `_problems`.
    """

    metric: Text | None = _flag(RUNS, "METRIC")
    """metric to compare, or its column (default: the study's)"""
    baseline: Text | None = _flag(COMPARED, "VARIANT")
    """variant to compare with (default: the study's, or the first in the file)"""
    skip_unreadable: Switch = _flag(RUNS, default=False)
    """exclude and list damaged records"""
    pair: Text | None = _flag(POOLED, "PAIR")
    """the settings of both sides, such as 'model.pos_embed=rope-2d - model.pos_embed=learned-1d'"""
    factor: Texts = _flag(COLUMNS, "COLUMN", ())
    """column of a factor; may be repeated"""
    seed: Text | None = _flag(COLUMNS, "COLUMN")
    """column by which runs are paired (default: seed)"""
    unpaired: Switch = _flag(COLUMNS, default=False)
    """the runs have no seeds in common"""
    dataset: Text | None = _flag(DATASET, "COLUMN")
    """column of the dataset: variants are compared within each"""
    where: Equations = _flag(COLUMNS, "COLUMN=VALUE", ())
    """keep only these rows (!= the others); may be repeated"""
    failed: Equations = _flag(COLUMNS, "COLUMN=VALUE", ())
    """rows of failed runs, such as State=crashed; may be repeated"""
    last: Text | None = _flag(COLUMNS, "COLUMN")
    """column of a step: the last value of each run counts"""
    mean_over: Text | None = _flag(COLUMNS, "COLUMN")
    """column of the parts of a run: their mean counts"""
    lower_is_better: Switch = _flag(COLUMNS, default=False)
    """as for an error (default: by the name, such as loss or FID ↓)"""
    higher_is_better: Switch = _flag(COLUMNS, default=False)
    """as for an accuracy"""
    margin: ColumnMargin | None = _flag(COLUMNS, "NUMBER")
    """smaller differences count as equal; 0.5, or '0.5 points'"""
    family: Family = _flag(COLUMNS, default="all")
    """the pairs that are tested: all, or those with the baseline"""
    variance: Literal["shared", "paired"] = _flag(COLUMNS, default="shared")
    """paired: the paired t test of each pair"""
    out: File | None = _flag(FILES, "DIR")
    """folder of the report (default: report in the study's)"""
    figures: tuple[Literal["png", "pdf"], ...] = _flag(FILES, default=())
    """also write the figures so; may be repeated"""
    open: Switch = _flag(FILES, default=False)
    """open the report in the web browser"""
    rename: Equations = _flag(REPORT, "OLD=NEW", ())
    """name of a variant, the metric or a dataset; $...$ is math"""
    models: Switch = _flag(STUDY, default=False)
    """also look into trained models; needs the dataset"""
    wandb: Switch = _flag(STUDY, default=False)
    """also save a workspace in Weights & Biases"""
    table: TableFile | None = _flag(TABLE, "FILE")
    """write a table for a paper: .tex, .md or .csv"""
    columns: Names | None = _flag(TABLE, "NAME,NAME")
    """columns of the table; a wrong name lists them all"""
    spread: Spread | None = _flag(TABLE)
    """what stands after ± of a mean"""
    json_: Switch = _flag(TABLE, default=False)
    """print all comparisons as JSON"""
    gate: Text | None = _flag(INSTEAD, "TEXT")
    """exit with 0 if it is shown, 1 if not: 'new better than old'"""
    command: str = ""  # the line that asks it, which a report shows

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """What Python asks. Raises `UserError` naming what is not allowed."""
        names = [name for name, (_, group) in FLAGS.items() if group.in_python]
        for name in arguments:
            if name not in names:
                raise UserError(f"{name}: no such argument; {nearest(name, names)}")
        return cls._checked(arguments, str)

    @classmethod
    def of_flags(cls, parsed: argparse.Namespace, command: str) -> Self:
        """What a command line asks by the flags of `add_flags`. Raises `UserError` naming the flag."""
        values = {name: getattr(parsed, name, None) for name in FLAGS}
        given = {name: value for name, value in values.items() if value is not None and value is not False}
        return cls._checked({**given, "command": command}, flag_of)

    @classmethod
    def _checked(cls, values: Mapping[str, Any], named: Callable[[str], str]) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            field, colon, said = first_line(error).partition(": ")
            name = field.partition(".")[0]  # without the place in a list
            raise UserError(f"{named(name) if name in FLAGS else name}{colon}{said}") from error

    def _problems(self) -> Iterator[str]:
        flags = self.given.keys()
        outputs = [flag for flag in OUTPUTS if flag in flags]
        if others := [*outputs[1:], *(flag for flag in REPORT_ONLY if outputs and flag in flags)]:
            yield f"--{others[0]}: is not allowed with --{outputs[0]}, which writes no report"
        if "wandb" in flags and {"metric", "baseline"} & flags:
            yield "--wandb: shows the planned comparison; --metric and --baseline are not allowed with it"
        if {"rename", "json"} <= flags:
            yield "--rename: is not allowed with --json"
        if "columns" in flags and "table" not in flags:
            yield "--columns: is allowed only with --table"
        for name, other in (("lower_is_better", "higher_is_better"), ("unpaired", "variance")):
            if {name, other} <= flags:
                yield f"{name}: is not allowed with {other}"

    @property
    def rule(self) -> Variance:
        """Where standard errors of a table come from."""
        return "unpaired" if self.unpaired else self.variance

    @property
    def given(self) -> dict[str, Any]:
        """The fields that the user states, and their values."""
        stated = {name: value for name, value in self if name in self.model_fields_set and value is not None}
        return {name.rstrip("_"): value for name, value in stated.items() if name != "command"}

    def called(self, function: str, first: str) -> Self:
        """The same with the command that Python asks it by: `analysis.FUNCTION(FIRST, metric='acc')`."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in self.given.items()}
        words = ", ".join([first, *(f"{name}={value!r}" for name, value in values.items())])
        return self.model_copy(update={"command": f"analysis.{function}({words})"})


_FIELDS: dict[str, Any] = ReportOptions.model_fields
FLAGS: dict[str, tuple[Any, Group]] = {
    name.rstrip("_"): (field, field.json_schema_extra["group"]) for name, field in _FIELDS.items() if name != "command"
}
"""What the user may state -> its field and its group."""


def flag_of(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def described() -> str:
    """The arguments of Python with their help."""
    lines = (f"{name}: {field.description}" for name, (field, group) in FLAGS.items() if group.in_python)
    return "\n".join(textwrap.fill(line, 116, initial_indent=" " * 4, subsequent_indent=" " * 8) for line in lines)


def add_flags(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the flags of a command to its parser."""
    groups: dict[str, Any] = {}
    for name, (field, group) in FLAGS.items():
        if command not in group.commands:
            continue
        flags = groups.get(group.title) or groups.setdefault(group.title, parser.add_argument_group(group.title))
        if field.annotation is bool:
            flags.add_argument(flag_of(name), action="store_true", help=field.description)
            continue
        action = "append" if get_origin(field.annotation) is tuple else "store"
        choices = _choices(field.annotation) or None
        flags.add_argument(flag_of(name), metavar=field.title, action=action, choices=choices, help=field.description)


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of a `Literal`, also of one in a tuple or with None."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for part in get_args(annotation) for choice in _choices(part))
