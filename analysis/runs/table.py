"""Runs from anyone's table, read strictly: a file, a DataFrame or a project of W&B, with one row for each run.

Every cell is text. The columns are those that the user names, or the only ones that fit. Where two readings are
possible, the table is refused in one line that lists its columns.
"""

import csv
import io
import json
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.options import ReportOptions
from analysis.runs.runs import DATASET, Runs, column_name, in_order
from experiments.compared import Compared, amount, variant_name
from experiments.config import flatten
from experiments.errors import UserError, first_few
from experiments.files import RecordError, read_bytes
from experiments.metric import LARGEST, SMALLEST, Metric, is_metric, metric_of_column
from vit.registry import did_you_mean, nearest

TABLE = "csv:"  # before the path of a table, as a source
FORMATS = (".csv", ".parquet", ".jsonl", ".tsv")
ARROWS = {"↓": True, "⬇": True, "▼": True, "↑": False, "⬆": False, "▲": False}
LOWER = {
    *("loss", "losses", "error", "err", "wer", "cer", "rmse", "mse", "mae", "mape", "nll", "perplexity", "ppl", "bpb"),
    *("bpc", "fid", "kid", "lpips", "ece", "brier", "time", "seconds", "latency", "runtime", "memory", "flops"),
    *("energy", "cost", "regret"),
}
HIGHER = {
    *("acc", "accuracy", "auc", "auroc", "f1", "score", "reward", "return", "returns", "precision", "recall", "map"),
    *("bleu", "psnr", "iou", "dice", "throughput"),
}
TURNED = {
    *("neg", "negative", "minus", "inverse", "reduction", "improvement", "gain", "saved", "drop", "decrease", "diff"),
    *("difference", "delta"),
}
"""Words with which a name means the opposite, as in scikit-learn's `neg_mean_squared_error`."""
ENDED = {"finished", "complete", "completed", "success", "succeeded", "terminated", "passed", "done", "ok", "published"}
FLAGS = {"failed", "crashed", "diverged", "done"}
NOT_ENDED = {"failed", "fail", "error", "crashed", "killed", "running", "pruned"}
SUMMARY = {"mean", "std", "sd", "sem", "average", "avg", "median", "min", "max", "best", "total", "all", "overall"}
LOSSES = {"loss", "losses", "nll", "perplexity", "ppl", "bpb", "bpc"}  # what has no percent
WIDE = 0.1  # a margin of a metric from 0 to 1 that is as large may be meant in percent
VALUE, EMPTY, FAILED, SEED, RUN = range(5)  # columns beside those of the user, whose names are texts


class Columns(NamedTuple):
    """What the columns of a table are; "" for what it has not."""

    metric: str
    factors: list[str]
    seed: str
    dataset: str


def file_of(source: str) -> Path | None:
    """The file of a table of runs; None for any other source."""
    return Path(source.removeprefix(TABLE)).expanduser() if source.startswith(TABLE) else None


def read_file(path: Path) -> pd.DataFrame:
    """The table in a file; which format it has follows from its ending. Raises `UserError`."""
    body, ending = read_bytes(path), path.suffix.lower()
    try:
        if ending == ".parquet":
            return pd.read_parquet(io.BytesIO(body))
        text = io.StringIO(body.decode("utf-8-sig"), newline="")
        if ending == ".jsonl":
            lines = [json.loads(line, parse_constant=str) for line in text if line.strip()]
            return pd.DataFrame([dict(flatten(line)) for line in lines], dtype=object)
        head, *rows = [row for row in csv.reader(text, delimiter="\t" if ending == ".tsv" else ",") if row] or [[]]
    except (ImportError, ValueError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    if odd := next((number for number, row in enumerate(rows, 1) if len(row) != len(head)), 0):
        raise RecordError(f"{path}: row {odd} has {len(rows[odd - 1])} cells, and the header {len(head)}")
    if len(head) == 1 and {*";\t,|"} & {*head[0]}:
        raise RecordError(f"{path}: the header is one cell, {head[0]!r}; expected commas, or tabs in a .tsv")
    return pd.DataFrame(rows, columns=[name.strip() for name in head])


def read_table(frame: Any, source: str, options: ReportOptions, notes: Sequence[str] = ()) -> list[Runs]:
    """A study from a table, or one for each value of the column `dataset`. `source`: what messages call the table.

    Raises `UserError` naming the column and what it holds.
    """
    text = _as_text(frame, source)
    for condition in options.where:
        text = text[_meets(text, source, "where", condition)]
    columns = _columns(text, source, options)
    metric, variant = _metric(columns.metric, options), [*columns.factors, *filter(None, [columns.dataset])]
    for name in variant:
        text[name] = _levels(text[name], f"{source}: {name}")
    value = _values(text[columns.metric], f"{source}: {columns.metric}", metric)
    failing = {condition: _meets(text, source, "failed", condition) for condition in options.failed}
    rows = text.copy()
    rows[VALUE], rows[EMPTY] = value, text[columns.metric] == ""
    rows[FAILED] = np.any([value.isna(), *failing.values()], axis=0)
    rows[SEED] = _seeds(text[columns.seed], f"{source}: {columns.seed}") if columns.seed else range(len(text))
    rows[RUN] = [", ".join(cells) for cells in zip(*(text[name] for name in variant), "seed " + rows[SEED].astype(str))]
    unmatched = [condition for condition, meets in failing.items() if not meets.any()]
    conditions = map(_column, [*options.where, *options.failed])
    named = {columns.metric, *variant, columns.seed, options.last, options.mean_over, *conditions}
    unused = [name for name in text if name not in named and text[name].nunique() > 1]
    _check_ended(text[[name for name in text if name not in named or name in map(_column, unmatched)]], source)
    said = [*notes, *(f"No row has {condition}." for condition in unmatched)]
    said += [f"Not used: {', '.join(unused)}."] * bool(unused)
    if options.last:
        rows, early = _last(rows, options.last, options.mean_over, source)
        said += early
    if options.mean_over:
        rows = _means(rows, columns.dataset, options.mean_over, source)
    _check_one_row_each(rows, unused, source)
    parts = rows.groupby(columns.dataset, sort=False) if columns.dataset else [("", rows)]
    return [_study(part, columns, metric, source, options, said) for _, part in parts]


def _as_text(frame: Any, source: str) -> pd.DataFrame:
    """The cells as text; "" where one is missing, true and false in lower case."""
    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"{source}: is a {type(frame).__name__}, not a pandas DataFrame")
    names = [str(name) for name in frame.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{source}: two columns are called {twice[0]!r}")
    if frame.empty:
        raise UserError(f"{source}: holds no runs")
    return frame.set_axis(names, axis=1).map(_cell).reset_index(drop=True)


def _cell(value: Any) -> str:
    shown = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value).strip()
    shown = shown.lower() if shown in ("True", "False", "TRUE", "FALSE") else shown
    return shown.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be written


def _number(shown: str) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return float(shown.replace("_", "?"))  # Python reads 1_5 as 15
    except ValueError:
        return None


def _column(condition: str) -> str:
    """The column of a condition, COLUMN=VALUE or COLUMN!=VALUE."""
    return condition.partition("=")[0].removesuffix("!")


def _meets(text: pd.DataFrame, source: str, field: str, condition: str) -> pd.Series:
    """Which rows meet a condition. Raises `UserError` where no row has the value, but for runs that failed."""
    column, value = _column(condition), _cell(condition.partition("=")[2])
    is_other = condition.partition("=")[0].endswith("!")
    if column not in text:
        raise UserError(f"{field}: {condition!r}: {source} has no column {column!r}; its columns: {', '.join(text)}")
    has = text[column] == value
    if not has.any() and (field == "where" or is_other):
        raise UserError(f"{field}: {condition!r}: no row has it; {column} holds {first_few(sorted({*text[column]}))}")
    return ~has if is_other else has


def _columns(text: pd.DataFrame, source: str, options: ReportOptions) -> Columns:
    """The columns that are named, else the only ones that fit."""
    listed = f"its columns: {', '.join(text)}"
    seed = options.seed or ("seed" if "seed" in text else "")
    columns = (options.metric, *options.factor, seed, options.dataset, options.last, options.mean_over)
    named = [name for name in columns if name]
    for name in named:
        if name not in text:
            raise UserError(f"{source}: has no column {name!r}; {did_you_mean(name, text)} {listed}")
    if len({*named}) < len(named) or any("+" in factor for factor in options.factor):
        raise UserError(f"{source}: expected different columns without '+' in their names, not {', '.join(named)}")
    if not seed and (options.last or options.mean_over or not options.unpaired):
        raise UserError(f"{source}: --seed is required, or --unpaired for one row a run without seeds; {listed}")
    taken = {*named, *map(_column, [*options.failed, *options.where])}
    distinct = {name: {*text[name]} - {""} for name in text if name not in taken}
    numbers = [name for name, cells in distinct.items() if cells and None not in map(_number, cells)]
    if not options.metric and len(numbers) != 1:
        raise UserError(f"{source}: --metric is required: a column of numbers; {listed}")
    texts = [name for name in text if name not in {*taken, *numbers} and 1 < text[name].nunique() < len(text)]
    if not options.factor and len(texts) != 1:
        raise UserError(f"{source}: --factor is required: a column of levels; {listed}")
    return Columns(options.metric or numbers[0], [*options.factor] or texts, seed, options.dataset or "")


def _words(name: str) -> set[str]:
    """The words of a name, in lower case, whatever divides them: {"val", "loss"} of `valLoss`, and its parts whole."""
    parts = re.findall(r"[^\W_]+", name)
    return {word.lower() for part in parts for word in (part, *re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part))}


def _metric(column: str, options: ReportOptions) -> Metric:
    """The metric, which knows whether lower values are better. Raises `UserError` where nothing says it."""
    if is_metric(column):
        metric = metric_of_column(column, options.lower_is_better)
        if options.higher_is_better and metric.lower_is_better:
            raise UserError(f"{column}: lower values of this metric are better; rename the column for another one")
        return metric
    arrows, words = {lower for sign, lower in ARROWS.items() if sign in column}, _words(column)
    low, high = bool(words & LOWER), bool(words & HIGHER)
    if options.lower_is_better or options.higher_is_better:
        lower = options.lower_is_better
    elif len(arrows) == 1:
        (lower,) = arrows
    elif low == high or words & TURNED or re.match(r"(1\s*)?[-−]", column):
        raise UserError(f"{column}: which values are better? Give --lower-is-better or --higher-is-better")
    else:
        lower = low
    return metric_of_column(column_name(column, "metric"), lower)


def _values(cells: pd.Series, line: str, metric: Metric) -> pd.Series:
    """The metric of each row, NaN where it is missing or not finite; true is 1. Raises `UserError`."""
    values = cells.replace({"true": "1", "false": "0", "": "nan"}).map(_number)
    size = values.abs().replace(math.inf, math.nan)
    is_odd = values.isna() & ~cells.str.lower().isin(["nan", ""])
    for odd, expected in (
        (is_odd, "a number, such as 0.5 (empty: a failed run)"),
        ((size > LARGEST) | (size < SMALLEST) & (size > 0), "between 1e-100 and 1e100; use another unit"),
        (((values < 0) | (size > 1)) & metric.is_share, "a fraction; rename the column, such as to acc"),
    ):
        if odd.any():
            raise UserError(f"{line}: {cells[odd.idxmax()]!r} in row {odd.idxmax() + 1} is not {expected}")
    return values.where(size.notna())


def _levels(cells: pd.Series, line: str) -> pd.Series:
    """The levels, a whole number in one spelling. Raises `UserError` for empty cells and two spellings of a number."""
    if (empty := cells == "").any():
        raise UserError(f"{line}: row {empty.idxmax() + 1} is empty; a run has a level of every factor")
    levels = cells.str.replace(r"^(-?\d+)\.0*$", r"\1", regex=True)
    spelled = levels.drop_duplicates().groupby(levels.map(_number)).agg(list)
    if twice := [texts for texts in spelled if len(texts) > 1]:
        raise UserError(f"{line}: {twice[0][0]!r} and {twice[0][1]!r} are the same number; write it in one way")
    return levels


def _check_ended(unused: pd.DataFrame, source: str) -> None:
    """Raise `UserError` for a column that says which runs ended, unless all did."""
    for name, cells in unused.items():
        held = {cell.lower() for cell in cells}
        flags, yes, no = _words(str(name)) & FLAGS, {"true", "1"}, {"false", "0"}
        is_flag = flags and held <= yes | no and not held <= (yes if "done" in flags else no)
        if is_flag or (held & (ENDED | NOT_ENDED) and not held <= ENDED):
            ways = f"--failed {name}=VALUE marks failed runs, --where {name}=VALUE keeps some"
            raise UserError(f"{source}: {name} may say which runs ended ({first_few(sorted({*cells}))}): {ways}")


def _seeds(cells: pd.Series, line: str) -> pd.Series:
    """The seed of each row as a number: that of the text, else in order of appearance. Raises `UserError`."""
    if cells.str.fullmatch(r"\d+(\.0*)?").all():
        return cells.map(lambda text: int(text.partition(".")[0]))
    if odd := [text for text in cells if SUMMARY & {*re.findall("[a-z]+", text.lower())} or not text]:
        raise UserError(f"{line}: {odd[0]!r} is no seed, as of a row with a summary; leave such rows out by --where")
    return pd.Series(pd.factorize(cells)[0], cells.index)


def _check_once(rows: pd.DataFrame, key: pd.Series, column: str, source: str) -> None:
    """Raise `UserError` where two rows of a run have the same value of a column."""
    if (again := pd.DataFrame({"key": key, "of": rows[column]}).duplicated()).any():
        at = again.idxmax()
        raise UserError(f"{source}: {column}: two rows of {key[at]} have {rows.at[at, column]}")


def _last(rows: pd.DataFrame, column: str, over: str | None, source: str) -> tuple[pd.DataFrame, list[str]]:
    """The row with the last value of each run, or of each of its parts, and which runs end earlier.

    Empty cells are skipped. A run with a row that is marked as failed, or without any value, has failed.
    """
    steps = rows[column].map(_number)
    if (odd := steps.isna()).any():
        at = odd.idxmax()
        raise UserError(f"{source}: {column}: {rows.at[at, column]!r} in row {at + 1} is not a number")
    key, skipped = rows[RUN] + (", " + rows[over] if over else ""), rows[EMPTY]
    _check_once(rows[~skipped], key[~skipped], column, source)
    rows[FAILED] = (rows[FAILED] & ~skipped).groupby(key).transform("any") | skipped.groupby(key).transform("all")
    kept = rows.loc[steps.mask(skipped, -math.inf).groupby(key, sort=False).idxmax()]
    ends = steps[kept.index]
    early = first_few(kept[RUN][ends < ends.max()], "; ")
    return kept, [f"The last value is at an earlier step than {ends.max():g}: {early}."] * bool(early)


def _means(rows: pd.DataFrame, dataset: str, over: str, source: str) -> pd.DataFrame:
    """The mean over a column for each run; one that lacks a part, or has a failed one, has failed."""
    run, parts = rows[RUN], rows[over]
    _check_once(rows, run, over, source)
    every = parts.groupby(rows[dataset]).transform("nunique") if dataset else parts.nunique()
    rows[FAILED] = rows[FAILED].groupby(run).transform("any") | (parts.groupby(run).transform("nunique") < every)
    rows[VALUE] = rows[VALUE].groupby(run).transform("mean")
    return rows[~run.duplicated()]


def _check_one_row_each(rows: pd.DataFrame, unused: Sequence[str], source: str) -> None:
    """Raise `UserError` where a run has several rows, naming the columns that vary within it."""
    if (again := rows[RUN].duplicated()).any():
        run = rows.at[again.idxmax(), RUN]
        of_run = rows.loc[rows[RUN] == run, unused]
        vary = ", ".join(name for name in of_run if of_run[name].nunique() > 1) or "no column"
        ways = "--last COLUMN takes the last, --mean-over COLUMN the mean, --where COLUMN=VALUE keeps some"
        raise UserError(f"{source}: several rows of one run ({run}), in which {vary} vary: {ways}, or name a factor")


def _study(
    rows: pd.DataFrame, columns: Columns, metric: Metric, source: str, options: ReportOptions, notes: Sequence[str]
) -> Runs:
    """The study of the rows of one dataset, one for each run."""
    levels = rows[columns.factors].rename(columns=lambda factor: column_name(factor, "config"))
    variants = levels.apply(lambda row: variant_name(levels, row), axis=1)
    names, order = list(dict.fromkeys(variants)), {name: in_order(levels[name]) for name in levels}
    listed = ", ".join(columns.factors)
    if len(levels.drop_duplicates()) > len(names):
        raise UserError(f"{source}: two combinations of {listed} have the same name; rename a level")
    if len(names) < 2 and not columns.dataset:
        raise UserError(f"{source}: {listed}: every row holds the same; a factor has two levels")
    baseline = _cell(options.baseline) if options.baseline else variants[rows.index.min()]
    if baseline not in names:
        raise UserError(f"{source}: baseline: {baseline!r} is not a variant; {nearest(baseline, names)}")
    places = {f"at {name}": levels[name].map(of.index) for name, of in order.items()}
    sorting = pd.DataFrame({"other": variants != baseline, **places, "seed": rows[SEED]})
    rows = rows.loc[sorting.sort_values(list(sorting), kind="stable").index]
    levels, variants = levels.loc[rows.index], variants[rows.index]
    failed = rows[FAILED]
    runs = levels.assign(
        run=[f"row {row + 1}" for row in rows.index],
        variant=variants,
        seed=rows.groupby(variants).cumcount() if options.unpaired else rows[SEED],
        status=np.where(failed, "diverged", "finished"),
        **{metric: rows[VALUE].mask(failed), **({DATASET: rows[columns.dataset]} if columns.dataset else {})},
    )
    planned = runs[["run", "variant", "seed"]].to_dict("records")
    file = file_of(source)
    tree = {
        "name": file.stem if file else source.rpartition("/")[2],
        "factors": order,
        "baseline": baseline,
        "metric": str(metric),
        "margin": _margin(options.margin, rows[VALUE][~failed], metric, source),
        "variance": options.rule,
        "family": options.family,
        "source": source,
        "notes": [*notes, *_failed_note(rows[failed], variants[failed], columns.seed)],
        "command": options.command or None,
        "names": {"seed": columns.seed} if columns.seed.lower() not in ("", "seed") else {},
        "runs": [{"run_id": "", **run, "levels": of} for run, of in zip(planned, levels.to_dict("records"))],
        **({} if is_metric(str(metric)) else {"lower_is_better": metric.lower_is_better}),
    }
    return Runs.of_frames(Compared.parse(tree, source), runs)


def _failed_note(failed: pd.DataFrame, variants: pd.Series, seed: str) -> list[str]:
    """What to do about failed runs: nothing on their variants is tested."""
    if failed.empty:
        return []
    way = f", or leave the seed out for all by --where {seed}!={shlex.quote(failed[seed].iloc[0])}" if seed else ""
    line = f"Not tested because of failed runs: {first_few(dict.fromkeys(variants))}."
    return [f"{line} Train the failed runs again{way}."]


def _margin(given: float | str | None, values: pd.Series, metric: Metric, source: str) -> float | None:
    """The margin in the unit of the metric: "0.5 points" are hundredths of one from 0 to 1, units of one in percent.

    Raises `UserError` for a margin of another scale: part of 1 that may be meant in percent, or beyond every value.
    """
    if given is None or values.empty:
        return None
    low, high, (margin, in_points) = values.min(), values.max(), amount(given)
    is_loss = bool(LOSSES & _words(metric))
    is_share = metric.is_share or (0 <= low <= high <= 1 and not is_loss)
    line = f"{source}: margin: {given} is not allowed: "
    if in_points and (is_loss or not (is_share or (low >= 0 and 1.5 < high <= 100))):
        unit = f"give a number in the unit of {metric}"
        raise UserError(f"{line}points are of a share, from 0 to 1 or in percent; {unit}")
    if is_share and margin >= WIDE and not in_points:
        raise UserError(f"{line}{metric} is from 0 to 1; write '{margin:g} points' or '{100 * margin:g} points'")
    margin *= 0.01 if in_points and is_share else 1
    if margin >= (largest := values.abs().max()) > 0:
        raise UserError(f"{line}{metric} has no value as large, {largest:g} at most, so all would be equivalent")
    return margin
