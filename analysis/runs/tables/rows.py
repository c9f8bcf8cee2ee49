"""The rows of a table, and which column is what: those that the user names, and the factor that is guessed."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.asked import Asked, flag_of
from analysis.runs.tables.cells import cell_number, cell_text, is_seed
from analysis.runs.tables.conditions import named_columns
from analysis.runs.tables.ended import lost_values
from analysis.runs.tables.file import check_header, file_of
from experiments.errors import UserError
from vit.registry import did_you_mean

RUN = re.compile("(run|trial)[ _./]?(id|name)?", re.IGNORECASE)  # a column that tells runs apart where no seed does
UNPAIRED = "for runs without seeds: --unpaired, in Python variance='unpaired'"
EXPORTS = {
    "a curve of TensorBoard, of one run": {"Wall time", "Step", "Value"},
    "a table of lm-eval, of one run": {"Tasks", "n-shot", "Metric"},
    "a chart of W&B; export the table of runs, or read wandb:ENTITY/PROJECT": {"__MIN", "__MAX"},
}
"""What has no row for each run -> the ends of columns by which it is known."""


@dataclass(frozen=True)
class Rows:
    """A table whose column `metric` holds numbers, and the roles of its columns."""

    frame: pd.DataFrame
    source: str
    metric: str
    factors: Sequence[str]
    seeds: Sequence[str]  # one column; none of unpaired runs
    dataset: str | None

    @property
    def variant(self) -> list[str]:
        return [*self.factors, *([] if self.dataset is None else [self.dataset])]

    @property
    def unused(self) -> pd.DataFrame:
        """The columns without a role, each once, as text."""
        named = {self.metric, *self.variant, *self.seeds}
        once = [name for name in self.frame if name not in named and list(self.frame).count(name) == 1]
        return self.frame[once].map(cell_text)

    def keys(self, *more: str) -> pd.Series:
        """What tells a row apart, as text: variant, seed and more columns."""
        return self.keys_of([*self.variant, *self.seeds, *more])

    def keys_of(self, names: Sequence[str]) -> pd.Series:
        """The cells of these columns as one text for each row."""
        rows = zip(*(self.frame[name].map(cell_text) for name in names))
        texts = [", ".join(f"{name} {value}" for name, value in zip(names, row)) for row in rows]
        return pd.Series(texts, self.frame.index, dtype=object)

    def ask(self, name: str, value: str) -> str:
        """How a user asks for it, on the command line and in Python."""
        python = f"{name}={value!r}"
        return f"{flag_of(name)} {value}, in Python {python}" if file_of(self.source) else python

    def of_runs(self, flag: str) -> "Rows":
        """The same where a column tells runs apart: of seeds, or `run`. Raises `UserError` where none does."""
        runs = self.seeds or [name for name in self.unused if RUN.fullmatch(name)][:1]
        if not runs:
            raise UserError(f"{self.source}: {flag}: without seeds, it needs a column run, which tells runs apart")
        return replace(self, seeds=runs)


def checked(frame: Any, source: str) -> pd.DataFrame:
    """The table with names of columns as text. Raises `UserError` for what holds no runs."""
    if not isinstance(frame, pd.DataFrame):
        way = next((name for name in ("reset_index", "to_pandas", "toPandas", "compute") if hasattr(frame, name)), "")
        way = way and f"; {way}() makes one of it"
        raise UserError(f"{source}: is a {type(frame).__name__}, not a pandas DataFrame{way}")
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    check_header(list(frame), source)
    if frame.empty:
        raise UserError(f"{source}: holds no runs")
    for what, ends in EXPORTS.items():
        if all(any(name.endswith(end) for name in frame) for end in ends):
            raise UserError(f"{source}: is {what}; a table has one row for each run")
    return frame


def rows_of(frame: pd.DataFrame, source: str, asked: Asked) -> Rows:
    """The rows of a table that is `checked`, with the columns that are asked for. A factor may be guessed.

    Raises `UserError` where a column is not there once or has two roles, with what the table seems to be.
    """
    roles: dict[str, Sequence[str | None]] = {
        "the metric": [asked.metric],
        "the seed, by which runs are paired": asked.seeds,
        "the dataset": [asked.dataset],
        "the step": [asked.last],
        "the parts of a run": [asked.mean_over],
        "a factor": asked.factor,
    }
    role_of = [(column, role) for role, columns in roles.items() for column in columns if column is not None]
    named = [column for column, _ in role_of]
    if not asked.metric:
        raise UserError(f"{source}: metric is required, and names a column; its columns: {', '.join(frame)}")
    for column, role in role_of:
        if (count := list(frame).count(column)) != 1:
            problem = f"has {count} columns {column!r}" if count else f"has no column {column!r}"
            raise UserError(f"{source}: {problem} ({role}); {_way(frame, column, named, column in asked.seeds)}")
    if len({*named}) < len(named):
        raise UserError(f"{source}: metric, seed, dataset and factors are different columns, not {', '.join(named)}")
    frame = frame.reset_index(drop=True)
    unnamed = frame.drop(columns=[*named, *named_columns(asked.failed)], errors="ignore")
    factors = asked.factor or _guessed_factor(unnamed, source)
    if odd := [factor for factor in factors if "+" in factor]:
        raise UserError(f"{source}: rename the column {odd[0]!r}; a factor cannot have this name")
    return Rows(frame, source, asked.metric, factors, asked.seeds, asked.dataset)


def _guessed_factor(others: pd.DataFrame, source: str) -> list[str]:
    """The only column of text with repeated values of those without a role. Raises `UserError` where it is not one.

    Dates, seeds, runs and the states of a known program are no factors.
    """
    found = []
    for name, cells in others.items():
        texts = [*map(cell_text, cells)]
        is_text = 1 < len({*texts}) < len(texts) and None in map(cell_number, texts)
        if is_text and not (is_seed(name) or RUN.fullmatch(name) or lost_values(name, {*texts}) or _are_dates(texts)):
            found.append(name)
    if len(found) != 1:
        which = f"one of {', '.join(found)}" if found else f"a column; the others: {', '.join(others)}"
        raise UserError(f"{source}: factor is required: {which}")
    return found


def _are_dates(texts: Iterable[str]) -> bool:
    """Whether every text is a date or a time: what pandas reads as one, with four digits or more."""
    known = pd.Series(list({*texts} - {""}), dtype=object)
    has_digits = known.str.count(r"\d").ge(4).all()
    return bool(has_digits and pd.to_datetime(known, errors="coerce", format="mixed", utc=True).notna().all())


def _way(frame: pd.DataFrame, column: str, named: Sequence[str], is_seed_column: bool) -> str:
    """The columns of a table without this one, after the name that it may mean or before what makes a table with it."""
    listed, parts = f"its columns: {', '.join(frame)}", [name.strip() for name in column.split(",")]
    others = [cells for name, cells in frame.items() if name not in named]
    like_seeds = [name for name in frame if is_seed_column and is_seed(name)]
    if "," not in column and column not in frame:
        near = f"did you mean {like_seeds[0]!r}?" if like_seeds else did_you_mean(column, frame)
        if near:
            return f"{near} {listed}"
    if len(parts) > 1 and {*parts} <= {*frame}:
        return f"{listed}; did you mean {parts}? Repeat the flag for each"
    if column in frame.index.names:
        return f"{listed}; it is in the index: reset_index()"
    if any(isinstance(cell, dict) for cell in frame.iloc[0]):
        return f"{listed}; pandas.json_normalize makes columns of nested values"
    numbers = [all(cell_number(cell_text(cell)) is not None for cell in cells) for cells in others]
    if column == named[0] and sum(numbers) > 1:
        melt = "of a table with a column for each seed or variant, pandas.melt makes one with a row for each run"
        return f"{listed}; {melt}"
    return f"{listed}; {UNPAIRED}" if is_seed_column else listed
