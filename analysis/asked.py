"""What is asked of a report: `Asked`, whose fields are the flags of `vit-report` and the arguments of Python."""

import argparse
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args, get_origin

from pydantic import BeforeValidator, Field, InstanceOf, ValidationError, model_validator

from experiments.cli import folder
from experiments.errors import UserError, first_line
from experiments.sections import Section
from experiments.stated import ColumnMargin, Family, Variance
from experiments.table_plan import GivenPlan, TablePlan
from experiments.tracking import PLACE
from vit.registry import nearest

Spread = Literal["interval", "sd"]
"""What stands after ± of a mean in a table for a paper: half its interval (the default), or the runs' deviation."""
TableOf = Literal["variants", "effects"]
PAGES = ("report", "across")
REPORT_ONLY = ("out", "figures", "open", "wandb", "style", "models")
ALONE = {
    "table": ("writes only the table", ("figure", "json", *REPORT_ONLY)),
    "figure": (
        "writes only the forest plot",
        ("json", "spread", "target", *(flag for flag in REPORT_ONLY if flag != "style")),
    ),
    "json": ("prints JSON and writes no report", ("rename", *REPORT_ONLY)),
    "gate": ("prints one line", ("table", "figure", "json", "target", *REPORT_ONLY)),
    "needed": (
        "prints the runs that are wanted",
        ("table", "figure", "json", "gate", "rename", "target", *REPORT_ONLY),
    ),
    "wandb": ("shows the planned comparison", ("metric", "baseline")),
}
"""A flag -> what it does, and the flags that do not go with it."""
NEEDS = dict.fromkeys(("columns", "label", "caption", "of"), "table") | dict.fromkeys(("project", "entity"), "wandb")
NEEDS |= {"needed": "plan", "width": "figure"}
"""A flag -> the one without which it has no effect."""


class Group(NamedTuple):
    """Flags that stand together in the help of some commands."""

    title: str
    commands: tuple[str, ...]
    in_python: bool = False  # they are arguments of `analysis.read` and `analysis.compare` as well
    of_tables: bool = False  # they say what the columns of a table are


RUNS = Group("what is compared", (*PAGES, "export", "pool"), in_python=True)
COMPARED = Group(RUNS.title, (*PAGES, "export"), in_python=True)
PLANNED = Group(RUNS.title, ("report", "export"), in_python=True)
COLUMNS = Group("tables (what the columns are, beside that of --metric)", (*PAGES, "export"), True, True)
DATASET = Group(COLUMNS.title, PAGES, True, True)
POOLED = Group(RUNS.title, ("pool",))
FILES = Group("the report", (*PAGES, "pool"))
REPORT = Group(FILES.title, PAGES)
TABLE = Group("a table or a figure for a paper, or JSON, in place of a report", PAGES)
STUDY = Group("the report of one study", ("report",))
DIRECTION = ("lower_is_better", "higher_is_better")
BY_PLAN = ("metric", "baseline", "factor", "chance", "margin", "by", "variance", "family", "dataset", *DIRECTION)
"""What a plan states or leaves out, so that no flag may."""


def _text(value: Any) -> Any:
    """A text; the name of a column may be a number."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        raise ValueError(f"{value!r} is not allowed: expected one text")
    return value if value is None else str(value)


def _listed(value: Any) -> list[Any]:
    """Several values; one, such as a text, is a list of one."""
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def names_of(value: Any) -> list[str]:
    """Names from one text with commas between them, or from a list."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else [*map(str, _listed(value))]


def _equations(value: Any) -> list[Any]:
    """Texts such as `a=b`; a mapping is several."""
    return [f"{key}={one}" for key, one in value.items()] if isinstance(value, Mapping) else _listed(value)


def _conditions(value: Any) -> list[str]:
    texts = _equations(value)
    if others := [one for one in texts if not isinstance(one, str)]:
        allowed = "expected texts such as 'State=crashed', or columns and values"
        raise ValueError(f"{others[0]!r} is no condition; {allowed}")
    return texts


def _renamed(value: Any) -> list[str]:
    texts = _equations(value)
    if others := [one for one in texts if not re.search(r".=.*\S", str(one))]:
        raise ValueError(f"{others[0]!r} is not allowed: expected OLD=NEW")
    return texts


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not allowed: expected a number")
    return value


def _path(value: str) -> str:
    try:
        return folder(value)
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from error


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(lambda value: [*map(str, _listed(value))])]
Names = Annotated[tuple[str, ...], BeforeValidator(names_of)]
Conditions = Annotated[tuple[str, ...], BeforeValidator(_conditions)]
Renamed = Annotated[tuple[str, ...], BeforeValidator(_renamed)]
Chance = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Switch = Annotated[bool, Field(strict=True)]
File = Annotated[Path, BeforeValidator(_path)]
Plan = Annotated[InstanceOf[GivenPlan], BeforeValidator(GivenPlan.of)]


def _flag(group: Group, metavar: str | None = None, default: Any = None) -> Any:
    """A field. `metavar`: what stands for its value in the help."""
    extra: Any = {"group": group}
    return Field(default, title=metavar, json_schema_extra=extra)


class Asked(Section, alias_generator=lambda name: name.rstrip("_"), use_attribute_docstrings=True):
    """What is asked of a report: which runs, compared how, and shown how. Checked once, for the shell and for Python.

    A field is a flag of the commands of its group (`lower_is_better` is --lower-is-better); an argument of
    `analysis.read` and `analysis.compare`, if its group is; and what the code that answers reads. To add one, add a
    field: its type says what is allowed (a tuple is a flag that may be repeated, a `Literal` one with choices), its
    docstring is its help. `given` has the fields that the user states. What does not go together: `ALONE`, `NEEDS`,
    `_problems`.
    """

    skip_unreadable: Switch = _flag(RUNS, default=False)
    """exclude records that are damaged or altered, and list them; without this flag they are an error"""
    metric: Text | None = _flag(RUNS, "METRIC")
    """metric to compare (default: the study's own, else test/acc); another one makes the report exploratory"""
    baseline: Text | None = _flag(COMPARED, "VARIANT")
    """variant to compare with (default: the study's own, else the first); another one: as for --metric"""
    plan: Plan | None = _flag(PLANNED, "FILE")
    """the plan of a table or of runs of W&B, stated before them: margin, looks, which runs; `vit-report plan` prints an
    example. In Python also a mapping"""
    pair: Text | None = _flag(POOLED, "PAIR")
    """the settings of both sides, such as 'model.pos_embed=rope-2d - model.pos_embed=learned-1d'"""
    factor: Texts = _flag(COLUMNS, "COLUMN", ())
    """column of a factor (default: the only one of text with repeated values); several: repeat the flag. Runs with the
    same levels are one variant"""
    where: Conditions = _flag(COLUMNS, "COLUMN=VALUE", ())
    """keep only the rows with this value, such as dataset=mnist; several conditions: repeat the flag"""
    failed: Conditions = _flag(COLUMNS, "COLUMN=VALUE", ())
    """count the rows with this value as failed runs, such as State=crashed or 'State!=finished'; several: repeat"""
    seed: Text | None = _flag(COLUMNS, "COLUMN")
    """column of the seed, by which runs are paired (default: seed)"""
    chance: Chance | None = _flag(COLUMNS, "NUMBER")
    """what guessing gives, in the unit of the metric: failed runs count as such runs; without it, nothing on a variant
    with failed runs is tested"""
    last: Text | None = _flag(COLUMNS, "COLUMN")
    """column of a step, such as epoch: the last row of each run counts, whatever its number"""
    mean_over: Text | None = _flag(COLUMNS, "COLUMN")
    """column of the parts of a run, such as fold or episode: the mean over them is the value of the run, which fails
    if one is missing or has failed"""
    margin: ColumnMargin | None = _flag(COLUMNS, "NUMBER")
    """equivalence margin in the unit of the metric, or such as '0.5 points' of a metric from 0 to 1 or in percent;
    without it, only differences are tested"""
    by: ColumnMargin | None = _flag(COLUMNS, "NUMBER")
    """also say which variants are better or worse by at least this, a number or such as '0.5 points'"""
    variance: Variance = _flag(COLUMNS, default="shared")
    """shared (default): a variant's own variance and the average of all; paired: the paired t test of each pair;
    unpaired: for runs without seeds, also of W&B"""
    family: Family = _flag(COLUMNS, default="all")
    """baseline: test the pairs with the baseline only, which shows more; all (default): test every pair"""
    lower_is_better: Switch = _flag(COLUMNS, default=False)
    """as for an error or a time (default: an arrow in the name, such as FID ↓, or a word such as loss)"""
    higher_is_better: Switch = _flag(COLUMNS, default=False)
    """where the name of the metric is read otherwise"""
    dataset: Text | None = _flag(DATASET, "COLUMN")
    """column of the dataset: variants are compared within each, with one level for all datasets together"""
    out: File | None = _flag(FILES, "DIR")
    """folder of the report; replaces an earlier report there (default: report in the folder of the study, or
    report-across or report-pool in that of the first)"""
    figures: tuple[Literal["png", "pdf"], ...] = _flag(FILES, default=())
    """also write the figures as PNG or PDF; both: repeat the flag"""
    open: Switch = _flag(FILES, default=False)
    """open the report in the web browser"""
    rename: Renamed = _flag(REPORT, "OLD=NEW", ())
    """the name of a variant, of the metric or of a dataset in tables and figures; $...$ is math, \\$ a dollar; several:
    repeat the flag"""
    table: File | None = _flag(TABLE, "FILE")
    """write only this table, to a file that ends with .tex (booktabs), .md or .csv; replaces an earlier one with the
    same first line"""
    of_: TableOf | None = _flag(TABLE)
    """what the table has rows of: variants (default), or effects, the differences between the levels of each factor"""
    columns: Names | None = _flag(TABLE, "NAME,NAME")
    """columns of the table, such as variant,test/acc,difference or, over datasets, variant,digits,mnist,better; a wrong
    name lists them all"""
    caption: str | None = _flag(TABLE, "TEXT")
    """caption of the table, instead of one that explains it; $...$ is math; '': in a .tex, only the tabular"""
    label: str | None = _flag(TABLE, "LABEL")
    """label of the table in a .tex (default: tab:STUDY-FILE, of across tab:across-FILE)"""
    spread: Spread | None = _flag(TABLE)
    """what stands after ±: half the interval of the mean (default), or the standard deviation of the runs"""
    figure: File | None = _flag(TABLE, "FILE")
    """write only the forest plot, to a file that ends with .pdf, .svg or .png; replaces an earlier one"""
    width: Annotated[Chance, Field(gt=0)] | None = _flag(TABLE, "INCHES")
    """width of that figure, such as 3.33 for one of two columns (default: 6.5, or that of --style)"""
    json_: Switch = _flag(TABLE, default=False)
    """print metric, margin, means and all comparisons as JSON, and write no report; a look, as a report is"""
    gate: Text | None = _flag(STUDY, "TEXT")
    """print one line, write nothing, and exit with 0 if the study shows it, with 1 if not: such as
    'new better than old' or 'new equivalent to old'; a look, as a report is"""
    target: Chance | None = _flag(STUDY, "NUMBER")
    """also test whether each variant, or the only one, reaches this value, in the unit of the metric, such as 0.94"""
    style: File | None = _flag(STUDY, "FILE")
    """style of the figures: a file as for Matplotlib (.mplstyle or matplotlibrc)"""
    models: Switch = _flag(STUDY, default=False)
    """also show position embeddings of trained models, and their attention on test images; needs the dataset"""
    wandb: Switch = _flag(STUDY, default=False)
    """also save a workspace in Weights & Biases: the differences, and plots of the runs by variant; again: update it.
    Sections that you add stay. It needs pip install "vit-ablation[wandb]" """
    project: Annotated[str | None, Field(description=PLACE["project"])] = _flag(STUDY, "NAME")
    entity: Annotated[str | None, Field(description=PLACE["entity"])] = _flag(STUDY, "NAME")
    needed: Switch = _flag(STUDY, default=False)
    """with --plan: print what makes each run that is still wanted, one line each, and write no report"""
    command: str = ""  # the line that asks it, which a report shows

    @classmethod
    def of(cls, **given: Any) -> Self:
        """What Python asks; `unpaired` is short for a variance. Raises `UserError` naming what is not allowed."""
        known = [*(name for name, (_, group) in FLAGS.items() if group.in_python), "unpaired"]
        for name in given:
            if name not in known:
                raise UserError(f"{name}: no such argument; {nearest(name, known)}")
        return cls._checked(given, str)

    @classmethod
    def of_flags(cls, parsed: argparse.Namespace, command: str) -> Self:
        """What a command line asks by the flags of `add_flags`. Raises `UserError` naming the flag."""
        values = {name: getattr(parsed, name, None) for name in (*FLAGS, "unpaired")}
        given = {name: value for name, value in values.items() if value is not None and value is not False}
        return cls._checked({**given, "command": command}, flag_of)

    @classmethod
    def _checked(cls, given: Mapping[str, Any], named: Callable[[str], str]) -> Self:
        try:
            return cls.model_validate(given)._as_planned()
        except ValidationError as error:
            field, colon, said = first_line(error).partition(": ")
            name = field.partition(".")[0]  # without the place in a list
            raise UserError(f"{named(name) if name in FLAGS else name}{colon}{said}") from error

    def _as_planned(self) -> Self:
        """The same with what its plan states."""
        if self.plan is None:
            return self
        plan, variance = self.plan.plan, "unpaired" if self.plan.plan.seeds is None else self.plan.plan.variance
        stated = {
            name: getattr(plan, name) for name in ("metric", "margin", "by", "chance", "family", "lower_is_better")
        }
        return self.model_copy(update={**stated, "variance": variance, "factor": tuple(plan.factors)})

    @model_validator(mode="before")
    @classmethod
    def _read_unpaired(cls, given: dict[str, Any]) -> dict[str, Any]:
        read = {name: value for name, value in given.items() if name != "unpaired"}
        if given.get("unpaired") and read.setdefault("variance", "unpaired") != "unpaired":
            raise ValueError(f"variance: {read['variance']!r} is not allowed with unpaired")
        return read

    def _problems(self) -> Iterator[str]:
        given = self.given.keys()
        for flag, (says, others) in ALONE.items():
            for other in others:
                if {flag, other} <= given:
                    yield f"--{flag}: {says}; it is not allowed with --{other}"
        for flag, needed in NEEDS.items():
            if flag in given and needed not in given:
                yield f"--{flag}: is allowed only with --{needed}"
        for name in BY_PLAN if self.plan else ():
            value = getattr(self, name)
            if name in self.model_fields_set and (value or type(value) in (int, float)):  # 0 is stated
                line = f" (`{name}:`)" if name in TablePlan.model_fields else ""
                yield f"{name}: is not allowed with a plan, whose file{line} says how runs are compared"
        if self.lower_is_better and self.higher_is_better:
            yield "lower_is_better: is not allowed with higher_is_better"
        if self.variance == "unpaired" and self.seed is not None:
            yield f"seed: {self.seed!r} is not allowed with unpaired runs, of which no seed is read"

    @property
    def seeds(self) -> list[str]:
        """The column of a table by which runs are paired; none of unpaired runs."""
        return [] if self.variance == "unpaired" else [self.seed or "seed"]

    @property
    def given(self) -> dict[str, Any]:
        """The fields that the user states, and their values."""
        stated = {name: value for name, value in self if name in self.model_fields_set and value is not None}
        others = ("command", *(BY_PLAN if self.plan else ()))
        return {name.rstrip("_"): value for name, value in stated.items() if name not in others}

    def called(self, function: str, first: str) -> Self:
        """The same with the command that Python asks it by: `analysis.FUNCTION(FIRST, metric='acc')`."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in self.given.items()}
        values |= {"plan": self.plan.given} if self.plan else {}
        words = ", ".join([first, *(f"{name}={value!r}" for name, value in values.items())])
        return self.model_copy(update={"command": f"analysis.{function}({words})"})


_FIELDS: dict[str, Any] = Asked.model_fields
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


def add_flags(
    parser: argparse.ArgumentParser, command: str, columns: Callable[..., Sequence[str]] = lambda **_: ()
) -> None:
    """Add the flags of a command to its parser. `columns`: those of the table, with which the shell completes."""
    shown: dict[str, Any] = {}
    for name, (field, group) in FLAGS.items():
        if command not in group.commands:
            continue
        flags = shown.get(group.title) or shown.setdefault(group.title, parser.add_argument_group(group.title))
        flag, several = flag_of(name), get_origin(field.annotation) is tuple
        if field.annotation is bool:
            flags.add_argument(flag, action="store_true", help=field.description)
        else:
            action, choices = "append" if several else "store", _choices(field.annotation) or None
            added: Any = flags.add_argument(
                flag, metavar=field.title, action=action, choices=choices, help=field.description
            )
            if field.title in ("METRIC", "COLUMN"):
                added.completer = columns
        if name == "variance":
            flags.add_argument("--unpaired", action="store_true", help="the same as --variance unpaired")


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of a `Literal`, also of one in a tuple or with None."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for part in get_args(annotation) for choice in _choices(part))
