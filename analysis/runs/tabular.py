"""Read runs from a table with one row for each run: a file (CSV, Parquet, JSON lines) or a DataFrame. Read only.

The user names the columns: the metric, the seed and the factors. Other columns are not used.
"""

import csv
import gzip
import io
import json
import math
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.asked import Asked
from analysis.runs.by_dataset import DATASET
from analysis.runs.ended import lost_values
from analysis.runs.inferred import infer
from analysis.runs.runs import Runs
from analysis.runs.settings import flatten, level_text, variant_name
from analysis.runs.source_run import SourceRun, apart
from experiments.errors import UserError
from experiments.files import reading
from experiments.metric import MAX_MARGIN, Metric, is_metric, metric_of_column

FORMATS = (".csv", ".parquet", ".jsonl", ".csv.gz", ".tsv")
LOW = re.compile(r"loss|err|perplexity|ppl|rmse|mae|mse|fid|latency", re.IGNORECASE)  # usually, lower is better
UNPAIRED = "for runs without seeds: --unpaired, in Python variance='unpaired'"
STEP = re.compile("epoch|step|iter", re.IGNORECASE)
SEPARATORS = "cells are separated by {}, and decimals have a point"
SMALLEST, LARGEST = 1e-100, 1e100
"""Limits of a value other than 0: squares of what lies beyond are no floating-point numbers."""


def read_file(path: Path) -> pd.DataFrame:
    """The table in a file; which format it has follows from its ending. The cells of CSV are text."""
    path = path.expanduser()
    ending = next((ending for ending in FORMATS if path.name.lower().endswith(ending)), "")
    if not ending:
        raise UserError(f"csv:{path}: is no file that ends with {', '.join(FORMATS)}")
    with reading(path):
        try:
            if ending == ".parquet":
                return pd.read_parquet(path)
            body = gzip.decompress(path.read_bytes()) if ending.endswith(".gz") else path.read_bytes()
            text = body.decode("utf-8-sig")
            if ending == ".jsonl":
                lines = _json_lines(text)
                return pd.DataFrame(
                    [dict(flatten(row)) if isinstance(row, dict) else row for row in lines], dtype=object
                )
            reader = csv.reader(io.StringIO(text, newline=None), delimiter="\t" if ending == ".tsv" else ",")
            head, *rows = [row for row in reader if row] or [[]]
        except ImportError as error:
            extra = 'needs the extra "parquet"; install it with: pip install "vit-ablation[parquet]"'
            raise UserError(f"csv:{path}: {extra}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"csv:{path}: cannot be read: {error}; save it as UTF-8") from error
        except (ValueError, TypeError, RecursionError, csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"csv:{path}: cannot be read: {error}") from error
    separators = SEPARATORS.format("tabs" if ending == ".tsv" else "commas")
    if len(head) == 1 and {";", "\t", ","} & {*head[0]}:
        raise UserError(f"csv:{path}: the header is one cell, {head[0]!r}; {separators}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise UserError(f"csv:{path}: row {number} has {len(row)} cells, and the header {len(head)}; {separators}")
    return pd.DataFrame(rows, columns=[name.strip() for name in head], dtype=object)


def _json_lines(text: str) -> list[Any]:
    """The value of each line that is not empty. Raises `ValueError` naming the line of the file."""
    values = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from error
    return values


def _rows_where(frame: pd.DataFrame, source: str, conditions: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The rows that meet all conditions, see `_meets`, and a warning where others are left out."""
    whole = frame
    for condition in conditions:
        frame = frame[_meets(frame, source, "where", condition)].reset_index(drop=True)
    left_out = f"Conditions leave out {len(whole) - len(frame)} of {len(whole)} rows. "
    return frame, [left_out + "If runs failed, keep them, and name them by --failed."] * (len(frame) < len(whole))


def _meets(frame: pd.DataFrame, source: str, field: str, condition: str) -> pd.Series:
    """Which rows meet `COLUMN=VALUE` or `COLUMN!=VALUE`. Raises `UserError` where no row has the value."""
    column, _, value = condition.partition("=")
    column, is_not = column.removesuffix("!"), column.endswith("!")
    has = frame[column].map(_text) == value if list(frame).count(column) == 1 else pd.Series(dtype=bool)
    if not has.any():
        known = ", ".join(sorted(set(frame[column].map(_text)))) if column in frame else ", ".join(frame)
        raise UserError(f"{field}: {condition!r}: no row of {source} has it: expected COLUMN=VALUE, of: {known}")
    return ~has if is_not else has


def read_tables(frame: pd.DataFrame, source: str, asked: Asked) -> list[Runs]:
    """A study from a table with one row for each run, or one for each value of the column `dataset`.

    `source`: what messages call the table.
    """
    metric, seed, dataset, failed = asked.metric or "", asked.seed, asked.dataset, asked.failed
    if not isinstance(frame, pd.DataFrame):
        way = "; reset_index() makes one of a Series" * isinstance(frame, pd.Series)
        raise UserError(f"{source}: is a {type(frame).__name__}, not a pandas DataFrame{way}")
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    frame, left_out = _rows_where(frame, source, asked.where)
    unpaired = asked.variance == "unpaired"
    seeds = [] if unpaired else [seed or "seed"]
    others = [*seeds, *([] if dataset is None else [dataset])]
    factor = asked.factor or _guessed_factor(frame, source, metric, others, failed)
    named = [metric, *factor, *others]
    _check_columns(frame, source, metric, factor, seeds, named)
    known = metric if is_metric(metric) else apart(metric, "metric")
    measured = metric_of_column(known, asked.lower_is_better)
    if measured.is_share and asked.margin and asked.margin >= MAX_MARGIN:
        allowed = f"expected less than {MAX_MARGIN:g}; accuracies are fractions, so 1 point is 0.01"
        raise UserError(f"{source}: margin: {asked.margin:g} is not allowed: {allowed}")
    for condition in failed:
        frame = frame.assign(**{metric: frame[metric].mask(_meets(frame, source, "failed", condition))})
    unused = [column for column in frame if column not in named]
    _check_ended(frame.drop(columns=named), source, frame[metric].map(_text) != "", failed)
    levels = {apart(name, "config"): _levels(frame, source, name) for name in factor}
    if dataset is not None:
        levels[DATASET] = list(map(level_text, _levels(frame, source, dataset)))
    runs, of_rows = _runs(frame, source, measured, metric, seeds, levels), levels.get(DATASET, [""] * len(frame))
    if unpaired:
        _check_rows_are_runs(frame, source, [*factor, *others], unused)
    notes, about = _notes(frame, source, metric, factor, unused, measured)
    studies = []
    for name in sorted({*of_rows}) if unpaired else dict.fromkeys(of_rows):
        own = [run for run, of_row in zip(runs, of_rows) if of_row == name]
        try:
            study = infer(source, own, asked, measured, factors_are="")
            _check_variants(study, source, seeds, factor)
        except UserError as error:
            raise UserError(f"{dataset}={name}: {error}" if name else str(error)) from error
        changes = {
            "notes": [*study.plan.notes, *notes, *left_out],
            "description": about,
            "command": asked.command or None,
        }
        plan = study.plan.model_copy(update=changes)
        studies.append(replace(study, plan=plan))
    return studies


def _guessed_factor(
    frame: pd.DataFrame, source: str, metric: str, others: Sequence[str], failed: Sequence[str]
) -> list[str]:
    """The only column of text with repeated values that has no other role. Raises `UserError` where it is not one."""
    roles = [metric, *others, *(condition.partition("=")[0].removesuffix("!") for condition in failed)]
    texts = {str(name): [*map(_text, cells)] for name, cells in frame.drop(columns=roles, errors="ignore").items()}
    found = [
        name
        for name, cells in texts.items()
        if 1 < len({*cells}) < len(cells) and None in map(_number, cells) and not lost_values(name, {*cells})
    ]
    if metric and len(found) != 1:
        which = f"one of {', '.join(found)}" if found else f"a column; its columns: {', '.join(frame)}"
        raise UserError(f"{source}: factor is required: {which}")
    return found


def _check_rows_are_runs(frame: pd.DataFrame, source: str, variant: list[str], unused: list[str]) -> None:
    """Raise `UserError` where each variant has the same epochs: the rows of a run would count as runs."""
    for step in (name for name in unused if STEP.search(name) and list(frame).count(name) == 1):
        texts = frame[[*variant, step]].map(_text)
        steps = {*texts.groupby(variant)[step].agg(frozenset)}
        if len(steps) == 1 and len(same := steps.pop()) > 1:
            raise UserError(f"{source}: every variant has rows of {len(same)} values of {step}; {_last(step, same)}")


def _last(step: str, texts: Collection[str]) -> str:
    last = max(texts, key=lambda text: _number(text) or 0)
    return f"keep the last row of each run: --where {step}={last}, in Python frame[frame[{step!r}] == {last}]"


def _check_variants(study: Runs, source: str, seeds: Sequence[str], factors: Sequence[str]) -> None:
    """Raise `UserError` for a name of two variants, and for a variant that has no seed in common with another."""
    if len(study.variants) < len({tuple(run.levels.values()) for run in study.plan.runs}):
        raise UserError(f"{source}: two combinations of {', '.join(factors)} have the same name; rename their values")
    shared = Counter(run.seed for run in study.plan.runs)
    paired = {run.variant for run in study.plan.runs if shared[run.seed] > 1}
    if seeds and len(study.variants) > 1 and (apart := sorted({*study.variants} - paired)):
        said = f"{apart[0]} has no seed in common with another variant, and runs are paired by it"
        raise UserError(f"{source}: {seeds[0]}: {said}; {UNPAIRED}")


def _notes(
    frame: pd.DataFrame, source: str, metric: str, factors: Sequence[str], unused: list[str], measured: Metric
) -> tuple[list[str], str]:
    """Warnings: columns that go with the variants, what counts as better. And which others are not used."""
    unused = [column for column in unused if column and not column.startswith("Unnamed:")]
    variant = frame[list(factors)].map(_text).agg(", ".join, axis=1)
    texts = {column: frame[column].map(_text) for column in unused if list(frame).count(column) == 1}
    confounded = [
        column
        for column, cells in texts.items()
        if cells.nunique() > 1 and cells.groupby(variant).nunique().max() == 1 and cells.nunique() < len(cells)
    ]
    notes = [
        f"{column} differs between variants and is no factor: it may explain a difference." for column in confounded
    ]
    if LOW.search(metric) and not measured.lower_is_better:
        way = "--lower-is-better, in Python lower_is_better=True"
        notes.append(f"Higher {metric} counts as better. For the opposite: {way}.")
    rest = [column for column in unused if column not in confounded]
    return notes, f"Columns of {source} that are not used: {', '.join(rest)}." if rest else ""


def _check_ended(columns: pd.DataFrame, source: str, valued: pd.Series, failed: Sequence[str]) -> None:
    """Raise `UserError` where a column says that runs with a value did not end: the value is not their last one.

    A column that the user names in `failed` says no more than that.
    """
    for column, cells in columns.items():
        texts = cells.map(_text)
        lost = lost_values(column, {*texts})
        rows, ended = texts[texts.isin(lost) & valued], sorted({*texts} - lost)
        if rows.empty or any(condition.startswith((f"{column}=", f"{column}!=")) for condition in failed):
            continue
        named = [f"{column}!={ended[0]}"] if len(ended) == 1 else [f"{column}={value}" for value in sorted(lost)]
        flags = " ".join(f"--failed {shlex.quote(condition)}" for condition in named)
        listed = ", ".join(value or "empty" for value in sorted({*rows}))
        raise UserError(
            f"{source}: {column}: {len(rows)} of {len(texts)} rows did not end ({listed}); count them as failed runs: "
            f"{flags}, in Python failed={named}; or, if it says something else, leave {column} out of the table"
        )


def _check_columns(
    frame: pd.DataFrame, source: str, metric: str, factors: Sequence[str], seeds: Sequence[str], named: list[str]
) -> None:
    if frame.empty:
        raise UserError(f"{source}: holds no runs")
    held = list(frame)
    if not metric:
        raise UserError(f"{source}: metric is required, and names a column; its columns: {', '.join(held)}")
    paired = ["the seed, by which runs are paired"] * len(seeds)
    roles = ["the metric", *["a factor"] * len(factors), *paired, "the dataset"]
    for column, role in zip(named, roles):
        if (count := held.count(column)) != 1:
            problem = f"has {count} columns {column!r}" if count else f"has no column {column!r}"
            way = _way(frame, column, named) or f"; {UNPAIRED}" * (column in seeds)
            raise UserError(f"{source}: {problem} ({role}); its columns: {', '.join(held)}{way}")
    if len(set(named)) < len(named):
        raise UserError(f"{source}: metric, seed, factors and dataset are different columns, not {', '.join(named)}")
    for factor in factors:
        if "+" in factor:
            raise UserError(f"{source}: rename the column {factor!r}; a factor cannot have this name")


def _way(frame: pd.DataFrame, column: str, named: Collection[str]) -> str:
    """What makes a table with this column of one that is grouped, nested or wide; "" for any other."""
    others = [cells for name, cells in frame.items() if name not in named]
    parts = [name.strip() for name in column.split(",")]
    if len(parts) > 1 and {*parts} <= {*frame}:
        return f"; did you mean {parts}? Repeat the flag for each"
    if column in frame.index.names:
        return "; it is in the index: reset_index()"
    if any(isinstance(cell, dict) for cell in frame.iloc[0]):
        return "; pandas.json_normalize makes columns of nested values"
    if sum(all(_number(_text(cell)) is not None for cell in cells) for cells in others) > 1:
        return "; of a table with a column for each seed or variant, pandas.melt makes one with a row for each run"
    return ""


def _levels(frame: pd.DataFrame, source: str, factor: str) -> list[Any]:
    """The level in each row: a number where all are, else text."""
    texts = [_text(cell) for cell in frame[factor]]
    if "" in texts:
        raise UserError(
            f"{source}: {factor}: row {texts.index('') + 1} is empty; a run has a level of every factor "
            "(pandas reads None as empty: use read_csv(..., keep_default_na=False) or fillna('none'))"
        )
    numbers = list(map(_number, texts))
    levels = numbers if all(number is not None and math.isfinite(number) for number in numbers) else texts
    alike = dict[Any, str]()
    for text, level in zip(texts, levels):
        if alike.setdefault(level, text) != text:
            same = f"{alike[level]!r} and {text!r} are the same number"
            raise UserError(f"{source}: {factor}: {same}; write it in one way")
    if len(set(levels)) < 2:
        raise UserError(f"{source}: {factor}: every row holds {texts[0]!r}; a factor has two values or more")
    return levels


def _runs(
    frame: pd.DataFrame, source: str, measured: Metric, metric: str, seeds: Sequence[str], levels: dict[str, list[Any]]
) -> list[SourceRun]:
    """The runs. One without a finite value diverged or failed: what it would have reached is not known."""
    runs, first, study = [], dict[Any, int](), Path(source.partition(":")[2]).stem or source
    for row, (value, *seeded) in enumerate(zip(*(frame[name].map(_text) for name in (metric, *seeds))), 1):
        number, settings = _number(value or "nan"), {factor: column[row - 1] for factor, column in levels.items()}
        if number is None:
            problem = "is not a number, such as 0.5 (empty: a failed run)"
            raise UserError(f"{source}: {metric}: {value!r} in row {row} {problem}")
        if math.isfinite(number) and number and not SMALLEST <= abs(number) <= LARGEST:
            problem = "is not between 1e-100 and 1e100; use another unit"
            raise UserError(f"{source}: {metric}: {value} in row {row} {problem}")
        own = dict[str, int]()
        for seed, text in zip(seeds, seeded):
            if (whole := _number(text)) is None or whole % 1 != 0:
                raise UserError(f"{source}: {seed}: {text!r} in row {row} is not a whole number; {UNPAIRED}")
            own["seed"] = int(whole)
            if (earlier := first.setdefault((*settings.values(), own["seed"]), row)) != row:
                same = ", ".join(f"{name} {value}" for name, value in {**settings, seed: own["seed"]}.items())
                way = _one_of(frame, metric, earlier, row)
                raise UserError(f"{source}: rows {earlier} and {row} both have {same}; {way}")
        status, summary = ("finished", {str(measured): number}) if math.isfinite(number) else ("diverged", {})
        name = f"row {row:0{len(str(len(frame)))}d}"
        # names that are the same on all datasets
        texts = {name: level_text(level) for name, level in settings.items() if name != DATASET}
        variant = variant_name(texts, texts.values()) if DATASET in settings else ""
        runs.append(
            SourceRun(name, status, {**settings, **own}, variant, summary=summary, study=study, metric=measured)
        )
    return runs


def _one_of(frame: pd.DataFrame, metric: str, *numbers: int) -> str:
    """What to do about two rows of one variant and seed: a retry, two epochs of one run, or another setting."""
    rows = frame.iloc[[n - 1 for n in numbers]].map(_text)
    lost = [n for n, value in zip(numbers, rows[metric]) if not math.isfinite(_number(value or "nan") or 0)]
    if len(lost) == 1:
        return f"row {lost[0]} did not end; leave it out if its variant is not the cause"
    for step in (name for name, (first, second) in rows.items() if STEP.search(name) and first != second):
        return _last(step, frame[step].map(_text))
    return "name what differs as a factor, or as the dataset; or, if seeds say nothing, state variance unpaired"


def _text(cell: Any) -> str:
    """The text of a cell; "" where it is missing."""
    text = "" if pd.api.types.is_scalar(cell) and pd.isna(cell) else str(cell).strip()
    return text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be written


def _number(text: str) -> int | float | None:
    """The number that a text is; None where it is none."""
    try:
        number = float(text.replace("_", "?"))  # Python reads 1_5 as 15
        return int(text) if text.lstrip("-").isdecimal() and math.isfinite(number) else number
    except ValueError:
        return None
