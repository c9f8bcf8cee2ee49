"""Read runs from a table with one row for each run: a file (CSV, Parquet, JSON lines) or a DataFrame. Read only.

The user names the columns: the metric, the seed and the factors. Other columns are not used.
"""

import csv
import gzip
import io
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.asked import Asked
from analysis.runs.by_dataset import DATASET
from analysis.runs.cells import cell_number, cell_text, is_seed
from analysis.runs.ended import check_ended, lost_values, named_columns, notes_of_others
from analysis.runs.inferred import infer
from analysis.runs.repeats import RUN, SAYS, STEP, Rows, selected
from analysis.runs.runs import Runs
from analysis.runs.scales import chance_of, margin_of, rounding_note
from analysis.runs.settings import leaves, level_text
from analysis.runs.source_run import SourceRun, apart
from experiments.direction import LOWER, direction, words_of
from experiments.errors import UserError, first_few
from experiments.files import most_bytes, read_bytes, reading
from experiments.metric import LARGEST, SMALLEST, Metric, is_metric, metric_of_column
from experiments.stated import variant_name
from vit.registry import did_you_mean, nearest

FORMATS = (".csv", ".parquet", ".jsonl", ".csv.gz", ".tsv")
UNPAIRED = "for runs without seeds: --unpaired, in Python variance='unpaired'"
SEPARATORS = "cells are separated by {}, and decimals have a point"
EXPORTS = {
    "a curve of TensorBoard, of one run": {"Wall time", "Step", "Value"},
    "a table of lm-eval, of one run": {"Tasks", "n-shot", "Metric"},
    "a chart of W&B; export the table of runs, or read wandb:ENTITY/PROJECT": {"__MIN", "__MAX"},
}
"""What has no row for each run -> the ends of columns by which it is known."""


def read_file(path: Path) -> pd.DataFrame:
    """The table in a file; which format it has follows from its ending. The cells of CSV are text."""
    path = path.expanduser()
    ending = next((ending for ending in FORMATS if path.name.lower().endswith(ending)), "")
    if not ending:
        raise UserError(f"csv:{path}: is no file that ends with {', '.join(FORMATS)}")
    with reading(path):
        try:
            if ending == ".parquet":
                return _parquet(path)
            body = read_bytes(path, gzip.open if ending.endswith(".gz") else open)
            text = body.decode("utf-8-sig")
            if ending == ".jsonl":
                lines = _json_lines(text)
                return pd.DataFrame(
                    [dict(leaves(row)) if isinstance(row, dict) else row for row in lines], dtype=object
                )
            reader = csv.reader(io.StringIO(text, newline=None), delimiter="\t" if ending == ".tsv" else ",")
            head, *rows = [row for row in reader if row] or [[]]
        except ImportError as error:
            extra = 'needs the extra "parquet"; install it with: pip install "vit-ablation[parquet]"'
            raise UserError(f"csv:{path}: {extra}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"csv:{path}: cannot be read: {error}; save it as UTF-8") from error
        except (ValueError, TypeError, RecursionError, csv.Error, EOFError, zlib.error) as error:
            raise UserError(f"csv:{path}: cannot be read: {error}") from error
    separators = SEPARATORS.format("tabs" if ending == ".tsv" else "commas")
    _check_header(head, f"csv:{path}", "tabs" if ending == ".tsv" else "commas")
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise UserError(f"csv:{path}: row {number} has {len(row)} cells, and the header {len(head)}; {separators}")
    return pd.DataFrame(rows, columns=[name.strip() for name in head], dtype=object)


def _parquet(path: Path) -> pd.DataFrame:
    """The table in a Parquet file. It is read in parts: a value that repeats takes no space in the file."""
    from pyarrow import Table
    from pyarrow.parquet import ParquetFile

    file, parts = ParquetFile(path), list[Any]()
    for part in file.iter_batches():
        parts.append(part)
        if sum(one.nbytes for one in parts) > most_bytes():
            raise ValueError(f"it has more than {most_bytes():,} bytes; VIT_MAX_BYTES sets another limit")
    return Table.from_batches(parts, file.schema_arrow).to_pandas()


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
    steps = [name for name in named_columns(conditions, whole) if STEP.search(name)]
    last = "".join(
        f" Runs that end at another {step} are left out; --last {step} has the last row of each." for step in steps
    )
    said = f"{left_out}If runs failed, keep them, and name them by --failed.{last}"
    return frame, [said] * (len(frame) < len(whole))


def _meets(frame: pd.DataFrame, source: str, field: str, condition: str) -> pd.Series:
    """Which rows meet `COLUMN=VALUE` or `COLUMN!=VALUE`.

    Raises `UserError` where no row has the value, but for runs that failed: that none did is no error.
    """
    column, _, value = condition.partition("=")
    column, is_not = column.removesuffix("!"), column.endswith("!")
    texts = frame[column].map(cell_text) if list(frame).count(column) == 1 else pd.Series(dtype=object)
    if not (has := texts == value).any() and (field != "failed" or is_not or texts.empty):
        known = list(frame) if texts.empty else sorted({*texts})
        expected = nearest(column if texts.empty else value, known, "expected COLUMN=VALUE, of")
        raise UserError(f"{field}: {condition!r}: no row of {source} has it: {expected}")
    return ~has if is_not else has


class TableRuns(NamedTuple):
    """The runs of a table: `notes` are for the reader of a report, and `about` says which columns are not used."""

    runs: list[SourceRun]
    metric: Metric
    notes: list[str]
    about: str = ""


def runs_of(frame: pd.DataFrame, source: str, asked: Asked) -> TableRuns:
    """The runs of a table. `source`: what messages call the table."""
    metric, dataset = asked.metric or "", asked.dataset
    frame, left_out = _rows_where(_checked(frame, source), source, asked.where)
    seeds = [] if asked.variance == "unpaired" else [asked.seed or "seed"]
    others, parts = [*seeds, *filter(None, [dataset])], [*filter(None, [asked.last, asked.mean_over])]
    _check_columns(frame, source, metric, asked.factor, others, seeds)
    frame = frame.reset_index(drop=True)
    chosen = {*others, *parts, *named_columns(asked.failed, frame)}
    factor = asked.factor or _guessed_factor(frame.drop(columns=[metric, *chosen], errors="ignore"), source)
    _check_roles(source, factor, [metric, *others, *parts])
    measured, notes = measured_in(frame, metric, asked)
    lost = pd.Series(False, frame.index)
    for condition in asked.failed:
        lost |= (met := _meets(frame, source, "failed", condition))
        notes += [f"No row meets the condition for failed runs, {condition}."] * (not met.any())
    rows = Rows(
        frame.assign(**{metric: _values(frame, source, metric).mask(lost)}), source, metric, factor, seeds, dataset
    )
    unused = rows.unused.drop(columns=[*chosen], errors="ignore")
    check_ended(unused, source, rows.frame[metric].notna())
    least = 1 if asked.plan or asked.target is not None else 2
    levels = {apart(name, "config"): _levels(frame, source, name, least) for name in factor}
    if dataset is not None:
        levels[DATASET] = list(map(level_text, _levels(frame, source, dataset)))
    rows, selecting = selected(rows, lost, asked.last, asked.mean_over)
    runs, (noting, about) = _runs(rows, levels, measured), _notes(rows, unused.loc[rows.frame.index])
    return TableRuns(runs, measured, [*noting, *notes, *selecting, *left_out], about)


def read_tables(frame: pd.DataFrame, source: str, asked: Asked) -> list[Runs]:
    """A study from a table with one row for each run, or one for each value of the column `dataset`.

    `source`: what messages call the table.
    """
    runs, measured, notes, about = runs_of(frame, source, asked)
    dataset, seeds = asked.dataset, [] if asked.variance == "unpaired" else [asked.seed or "seed"]
    of_rows, studies = [str(run.config.get(DATASET, "")) for run in runs], []
    for name in sorted({*of_rows}) if not seeds else dict.fromkeys(of_rows):
        own = [run for run, of_row in zip(runs, of_rows) if of_row == name]
        values = [run.summary.get(measured, math.nan) for run in own]
        try:
            margin, by = (margin_of(getattr(asked, of), values, measured, source, of) for of in ("margin", "by"))
            study = infer(source, own, asked, measured, margin, factors_are="")
            _check_variants(study, source, seeds, asked.factor)
        except UserError as error:
            raise UserError(f"{dataset}={name}: {error}" if name else str(error)) from error
        notes_of = [*study.notes, *_notes_of_values(study, asked), *notes]
        changes: dict[str, Any] = {"notes": notes_of, "description": about} | ({} if by is None else {"by": by})
        changes |= {"chance": chance_of(asked.chance, values, measured, source)} if asked.chance is not None else {}
        changes |= {"definition": {"names": {"seed": asked.seed}}} if asked.seed and not is_seed(asked.seed) else {}
        studies.append(replace(study, plan=study.plan.changed(**changes)))
    return studies


def _notes_of_values(study: Runs, asked: Asked) -> list[str]:
    """What to know of the values of a study: a spread that is rounding alone, and the ways out of failed runs."""
    values = study.runs.groupby("variant", sort=False)[study.metric]
    failed = list(dict.fromkeys(study.of("diverged")["variant"]))
    way = "train those runs again and replace their rows, or say what guessing gives: --chance, in Python chance="
    said = f"Not tested because of failed runs: {first_few(failed)}. Ways out: {way}. To leave rows out is none."
    lost = [said] * (bool(failed) and asked.chance is None and not study.metric.is_share)
    return [*rounding_note([list(own) for _, own in values], study.metric), *lost]


def measured_in(frame: pd.DataFrame, column: str, asked: Asked) -> tuple[Metric, list[str]]:
    """The metric in a column, which knows its direction, and what to note of it.

    In a table with a column that says the metric of each row, such as `tag`, its one direction counts as well.
    """
    by_plan = asked.plan is not None and asked.plan.plan.lower_is_better is not None
    stated = by_plan or {"lower_is_better", "higher_is_better"} & asked.given.keys()
    if is_metric(column):
        return metric_of_column(column, asked.lower_is_better), []
    said = {cell_text(cell) for name, cells in frame.items() if SAYS & words_of(str(name)) for cell in cells}
    one = len({bool(LOWER & words_of(value)) for value in said}) == 1
    lower, notes = direction(column, asked.lower_is_better if stated else None, " ".join(said) * one)
    return metric_of_column(apart(column, "metric"), lower), notes


def _checked(frame: Any, source: str) -> pd.DataFrame:
    """The table with names of columns as text and rows from 0. Raises `UserError` for what holds no runs."""
    if not isinstance(frame, pd.DataFrame):
        way = next((name for name in ("reset_index", "to_pandas", "toPandas", "compute") if hasattr(frame, name)), "")
        way = way and f"; {way}() makes one of it"
        raise UserError(f"{source}: is a {type(frame).__name__}, not a pandas DataFrame{way}")
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    _check_header(list(frame), source, "commas")
    if frame.empty:
        raise UserError(f"{source}: holds no runs")
    for what, ends in EXPORTS.items():
        if all(any(name.endswith(end) for name in frame) for end in ends):
            raise UserError(f"{source}: is {what}; a table has one row for each run")
    return frame


def _check_header(names: Sequence[str], source: str, separator: str) -> None:
    if len(names) == 1 and {";", "\t", ",", "|"} & {*names[0]}:
        raise UserError(f"{source}: the header is one cell, {names[0]!r}; {SEPARATORS.format(separator)}")


def _check_columns(
    frame: pd.DataFrame, source: str, metric: str, factors: Sequence[str], others: Sequence[str], seeds: Sequence[str]
) -> None:
    """Raise `UserError` where a named column is not there once, with what the table seems to be. Before any guess."""
    held, named = list(frame), [metric, *others, *factors]
    if not metric:
        raise UserError(f"{source}: metric is required, and names a column; its columns: {', '.join(held)}")
    paired = ["the seed, by which runs are paired"] * len(seeds)
    roles = ["the metric", *paired, *["the dataset"] * (len(others) - len(seeds)), *["a factor"] * len(factors)]
    for column, role in zip(named, roles):
        if (count := held.count(column)) != 1:
            problem = f"has {count} columns {column!r}" if count else f"has no column {column!r}"
            like_seeds = [name for name in held if is_seed(name)] if column in seeds else []
            near = f"did you mean {like_seeds[0]!r}?" if like_seeds else did_you_mean(column, held)
            near = "" if count or "," in column else near
            way = "" if near else _way(frame, column, named) or f"; {UNPAIRED}" * (column in seeds)
            listed = f"{near} its columns: {', '.join(held)}".lstrip()
            raise UserError(f"{source}: {problem} ({role}); {listed}{way}")


def _check_roles(source: str, factors: Sequence[str], others: Sequence[str]) -> None:
    """Raise `UserError` where a column has two roles, or a factor the sign that joins linked settings."""
    named = [*others, *factors]
    if len(set(named)) < len(named):
        raise UserError(f"{source}: metric, seed, dataset and factors are different columns, not {', '.join(named)}")
    for factor in factors:
        if "+" in factor:
            raise UserError(f"{source}: rename the column {factor!r}; a factor cannot have this name")


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


def _values(frame: pd.DataFrame, source: str, metric: str) -> pd.Series:
    """The metric of each row; NaN where it is missing. Raises `UserError` for what is no number of a usual size."""
    texts = frame[metric].map(cell_text)
    values = [cell_number(one or "nan") for one in texts]
    for row, (one, value) in enumerate(zip(texts, values), 1):
        if value is None:
            raise UserError(
                f"{source}: {metric}: {one!r} in row {row} is not a number, such as 0.5 (empty: a failed run)"
            )
        if math.isfinite(value) and value and not SMALLEST <= abs(value) <= LARGEST:
            problem = "is not between 1e-100 and 1e100; use another unit"
            raise UserError(f"{source}: {metric}: {one} in row {row} {problem}")
    return pd.Series(values, frame.index, dtype=float)


def _runs(rows: Rows, levels: Mapping[str, Sequence[Any]], measured: Metric) -> list[SourceRun]:
    """The runs. One without a finite value diverged or failed: what it would have reached is not known.

    `levels`: of each row of the whole table.
    """
    study, digits = Path(rows.source.partition(":")[2]).stem or rows.source, len(str(len(next(iter(levels.values())))))
    runs = []
    for row, value in rows.frame[rows.metric].items():
        settings = {name: column[row] for name, column in levels.items()}
        status, summary = ("finished", {str(measured): value}) if math.isfinite(value) else ("diverged", {})
        # names that are the same on all datasets
        texts = {name: level_text(level) for name, level in settings.items() if name != DATASET}
        variant = variant_name(texts, texts.values()) if DATASET in settings else ""
        own = {"seed": int(rows.frame.at[row, rows.seeds[0]])} if rows.seeds else {}
        name = f"row {row + 1:0{digits}d}"
        runs.append(
            SourceRun(name, status, {**settings, **own}, variant, summary=summary, study=study, metric=measured)
        )
    return runs


def _notes(rows: Rows, unused: pd.DataFrame) -> tuple[list[str], str]:
    """Notes on columns that go with the variants, and on those that may say that a run failed; which are not used."""
    unused = unused[[name for name in unused if name and not name.startswith("Unnamed:")]]
    variant = rows.keys_of(rows.factors)
    confounded = [
        name
        for name, cells in unused.items()
        if cells.nunique() > 1 and cells.groupby(variant).nunique().max() == 1 and cells.nunique() < len(cells)
    ]
    notes = [f"{name} differs between variants and is no factor: it may explain a difference." for name in confounded]
    rest = unused.drop(columns=confounded)
    told_apart = rows.seeds and not is_seed(rows.seeds[0]) and not RUN.fullmatch(rows.seeds[0])
    paired = f"Differences are over the common values of {''.join(rows.seeds)}. "
    notes += [
        f"{paired}Folds share training data, and parts of a run its model: intervals over them are too narrow."
    ] * bool(told_apart)
    about = f"Columns of {rows.source} that are not used: {', '.join(rest)}." if len(rest.columns) else ""
    return [*notes, *notes_of_others(rest)], about


def _way(frame: pd.DataFrame, column: str, named: Sequence[str]) -> str:
    """What makes a table with this column of one that is grouped, nested or wide; "" for any other."""
    others = [cells for name, cells in frame.items() if name not in named]
    parts = [name.strip() for name in column.split(",")]
    if len(parts) > 1 and {*parts} <= {*frame}:
        return f"; did you mean {parts}? Repeat the flag for each"
    if column in frame.index.names:
        return "; it is in the index: reset_index()"
    if any(isinstance(cell, dict) for cell in frame.iloc[0]):
        return "; pandas.json_normalize makes columns of nested values"
    if (
        column == named[0]
        and sum(all(cell_number(cell_text(cell)) is not None for cell in cells) for cells in others) > 1
    ):
        return "; of a table with a column for each seed or variant, pandas.melt makes one with a row for each run"
    return ""


def _levels(frame: pd.DataFrame, source: str, factor: str, least: int = 2) -> list[Any]:
    """The level in each row: a number where all are, else text."""
    texts = [cell_text(cell) for cell in frame[factor]]
    if "" in texts:
        raise UserError(
            f"{source}: {factor}: row {texts.index('') + 1} is empty; a run has a level of every factor "
            "(pandas reads None as empty: use read_csv(..., keep_default_na=False) or fillna('none'))"
        )
    numbers = list(map(cell_number, texts))
    levels = numbers if all(one is not None and math.isfinite(one) for one in numbers) else texts
    alike = dict[Any, str]()
    for shown, level in zip(texts, levels):
        if alike.setdefault(level, shown) != shown:
            same = f"{alike[level]!r} and {shown!r} are the same number"
            raise UserError(f"{source}: {factor}: {same}; write it in one way")
    if len(set(levels)) < least:
        raise UserError(f"{source}: {factor}: every row holds {texts[0]!r}; a factor has two values or more")
    return levels


def _check_variants(study: Runs, source: str, seeds: Sequence[str], factors: Sequence[str]) -> None:
    """Raise `UserError` for a name of two variants, and for a variant that has no seed in common with another."""
    if len(study.variants) < len({tuple(run.levels.values()) for run in study.plan.runs}):
        raise UserError(f"{source}: two combinations of {', '.join(factors)} have the same name; rename their values")
    shared = Counter(run.seed for run in study.plan.runs)
    paired = {run.variant for run in study.plan.runs if shared[run.seed] > 1}
    if seeds and len(study.variants) > 1 and (apart := sorted({*study.variants} - paired)):
        said = f"{apart[0]} has no seed in common with another variant, and runs are paired by it"
        raise UserError(f"{source}: {seeds[0]}: {said}; {UNPAIRED}")
