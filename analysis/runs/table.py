"""Runs from anyone's table, read strictly: a file, a DataFrame or a project of W&B, with one row for each run.

Every cell is text. The columns are those that the user names, or the only ones that fit. Where two readings are
possible, the table is refused in one line that lists its columns.
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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.asked import Asked
from analysis.runs.runs import Runs
from analysis.runs.settings import DATASET, leaves, level_text
from analysis.runs.source_run import apart
from experiments.errors import UserError, first_few
from experiments.files import RecordError, read_bytes, reading
from experiments.metric import LARGEST, SMALLEST, Metric, is_metric, metric_of_column
from experiments.stated import amount, variant_name
from experiments.study import Compared
from vit.registry import did_you_mean, nearest

TABLE = "csv:"  # before the path of a table, as a source
FORMATS = (".csv", ".parquet", ".jsonl", ".csv.gz", ".tsv")
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
TURNED = {"neg", "negative", "minus", "inverse", "reduction", "improvement", "gain", "saved"}
TURNED |= {"drop", "decrease", "diff", "difference", "delta"}
"""Words with which a name means the opposite, as in scikit-learn's `neg_mean_squared_error`."""
ENDED = {"finished", "complete", "completed", "success", "succeeded", "terminated", "passed", "done", "ok", "published"}
FLAGS = {"failed", "crashed", "diverged", "done"}
NOT_ENDED = {"failed", "fail", "error", "crashed", "killed", "running", "pruned"}
SUMMARY = {"mean", "std", "sd", "sem", "average", "avg", "median", "min", "max", "best", "total", "all", "overall"}
LOSSES = {"loss", "losses", "nll", "perplexity", "ppl", "bpb", "bpc"}  # what has no percent
WIDE = 0.1  # a margin of a metric from 0 to 1 that is as large may be meant in percent


class Columns(NamedTuple):
    """What the columns of a table are; "" for what it has not."""

    metric: str
    factors: list[str]
    seed: str
    dataset: str


def file_of(source: str) -> Path | None:
    """The file of a table of runs; None for any other source."""
    return Path(source.removeprefix(TABLE)).expanduser() if source.startswith(TABLE) else None


def ending_of(file: Path) -> str:
    """The ending of the file's name that is one of `FORMATS`; "" for another file."""
    return next((ending for ending in FORMATS if file.name.lower().endswith(ending)), "")


def read_file(path: Path) -> pd.DataFrame:
    """The table in a file; which format it has follows from its ending. Raises `UserError`."""
    ending = ending_of(path)
    with reading(path):
        try:
            body = read_bytes(path, gzip.open if ending.endswith(".gz") else open)
            if ending == ".parquet":
                return pd.read_parquet(io.BytesIO(body))
            if ending == ".jsonl":
                rows = [
                    json.loads(line, parse_constant=str)
                    for line in body.decode("utf-8-sig").splitlines()
                    if line.strip()
                ]
                return pd.DataFrame([dict(leaves(row)) for row in rows], dtype=object)
            cells = pd.read_csv(
                io.StringIO(body.decode("utf-8-sig")),
                header=None,
                dtype=str,
                keep_default_na=False,
                sep="\t" if ending == ".tsv" else ",",
            )
        except (UserError, OSError):
            raise
        except pd.errors.EmptyDataError:
            return pd.DataFrame()
        except (ImportError, ValueError, TypeError, AttributeError, RecursionError, EOFError, zlib.error) as error:
            raise RecordError(f"{path}: cannot be read: {error}") from error
    lines = csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), delimiter="\t" if ending == ".tsv" else ",")
    if short := next((number for number, row in enumerate(lines) if 0 < len(row) < len(cells.columns)), 0):
        raise RecordError(f"{path}: row {short} has fewer cells than the header")
    if len(cells.columns) == 1 and {";", "\t", ",", "|"} & {*cells.iat[0, 0]}:
        raise RecordError(f"{path}: the header is one cell, {cells.iat[0, 0]!r}; cells are separated by commas")
    return cells.iloc[1:].set_axis([name.strip() for name in cells.iloc[0]], axis=1).reset_index(drop=True)


def read_table(frame: Any, source: str, asked: Asked, notes: Sequence[str] = ()) -> list[Runs]:
    """A study from a table, or one for each value of the column `dataset`. `source`: what messages call the table.

    Raises `UserError` naming the column and what it holds.
    """
    text = _as_text(frame, source)
    for condition in asked.where:
        text = text[_meets(text, source, "where", condition)]
    columns = _columns(text, source, asked)
    metric = _metric(columns.metric, asked)
    variant = [*columns.factors, *filter(None, [columns.dataset])]
    for name in variant:
        text[name] = _levels(text[name], f"{source}: {name}")
    rows = pd.DataFrame({"value": _values(text[columns.metric], f"{source}: {columns.metric}", metric)})
    rows["empty"], rows["failed"] = text[columns.metric] == "", rows["value"].isna()
    said, unmatched = [], []
    for condition in asked.failed:
        meets = _meets(text, source, "failed", condition)
        rows["failed"] |= meets
        if not meets.any():
            said.append(f"No row has {condition}.")
            unmatched.append(_column(condition))
    rows["seed"] = _seeds(text[columns.seed], f"{source}: {columns.seed}") if columns.seed else range(len(rows))
    rows["run"] = [", ".join(of) for of in zip(*(text[name] for name in variant), "seed " + rows["seed"].astype(str))]
    conditions = map(_column, [*asked.where, *asked.failed])
    named = {columns.metric, *variant, columns.seed, asked.last, asked.mean_over, *conditions}
    unused = text[[name for name in text if name not in named and text[name].nunique() > 1]]
    _check_ended(text[[name for name in text if name not in named or name in unmatched]], source)
    said += [f"Not used: {', '.join(unused)}."] * bool(len(unused.columns))
    if asked.last:
        rows, early = _last(
            rows, text[asked.last], asked.mean_over and text[asked.mean_over], f"{source}: {asked.last}"
        )
        said += early
    if asked.mean_over:
        rows = _means(rows, text, columns.dataset, asked.mean_over, source)
    _check_one_row_each(rows, unused, source)
    studies, text = [], text.loc[rows.index]
    datasets = text[columns.dataset] if columns.dataset else pd.Series("", rows.index)
    for dataset in dict.fromkeys(datasets):
        part = rows[datasets == dataset]
        studies.append(_study(part, text.loc[part.index], columns, metric, source, asked, [*notes, *said]))
    return studies


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


def _columns(text: pd.DataFrame, source: str, asked: Asked) -> Columns:
    """The columns that are named, else the only ones that fit."""
    listed = f"its columns: {', '.join(text)}"
    seed = asked.seed or ("seed" if "seed" in text else "")
    named = list(filter(None, [asked.metric, *asked.factor, seed, asked.dataset, asked.last, asked.mean_over]))
    for name in named:
        if name not in text:
            raise UserError(f"{source}: has no column {name!r}; {did_you_mean(name, text)} {listed}")
    if len({*named}) < len(named) or any("+" in factor for factor in asked.factor):
        raise UserError(f"{source}: expected different columns without '+' in their names, not {', '.join(named)}")
    if not seed and (asked.last or asked.mean_over or not asked.unpaired):
        raise UserError(f"{source}: --seed is required, or --unpaired for one row a run without seeds; {listed}")
    taken = {*named, *map(_column, [*asked.failed, *asked.where])}
    numbers = [name for name in text if name not in taken and _holds_numbers(text[name])]
    if not asked.metric and len(numbers) != 1:
        raise UserError(f"{source}: --metric is required: a column of numbers; {listed}")
    texts = [name for name in text if name not in {*taken, *numbers} and 1 < text[name].nunique() < len(text)]
    if not asked.factor and len(texts) != 1:
        raise UserError(f"{source}: --factor is required: a column of levels; {listed}")
    return Columns(asked.metric or numbers[0], [*asked.factor] or texts, seed, asked.dataset or "")


def _holds_numbers(cells: pd.Series) -> bool:
    """Whether every cell but the empty ones is a number."""
    held = {*cells} - {""}
    return bool(held) and all(_number(cell) is not None for cell in held)


def _words(name: str) -> set[str]:
    """The words of a name, in lower case, whatever divides them: {"val", "loss"} of `valLoss`, and its parts whole."""
    parts = re.findall(r"[^\W_]+", name)
    return {word.lower() for part in parts for word in (part, *re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part))}


def _metric(column: str, asked: Asked) -> Metric:
    """The metric, which knows whether lower values are better. Raises `UserError` where nothing says it."""
    if is_metric(column):
        metric = metric_of_column(column, asked.lower_is_better)
        if asked.higher_is_better if metric.lower_is_better else asked.lower_is_better:
            better = "lower" if metric.lower_is_better else "higher"
            raise UserError(f"{column}: {better} values of this metric are better; rename the column for another one")
        return metric
    arrows, words = {lower for sign, lower in ARROWS.items() if sign in column}, _words(column)
    low, high = bool(words & LOWER), bool(words & HIGHER)
    if asked.lower_is_better or asked.higher_is_better:
        lower = asked.lower_is_better
    elif len(arrows) == 1:
        (lower,) = arrows
    elif low == high or words & TURNED or re.match(r"(1\s*)?[-−]", column):
        raise UserError(f"{column}: which values are better? Give --lower-is-better or --higher-is-better")
    else:
        lower = low
    return metric_of_column(apart(column, "metric"), lower)


def _values(cells: pd.Series, line: str, metric: Metric) -> pd.Series:
    """The metric of each row, NaN where it is missing or not finite; true is 1. Raises `UserError`."""
    values = []
    for row, cell in cells.items():
        value = {"true": 1.0, "false": 0.0}.get(cell, _number(cell or "nan"))
        if value is None:
            raise UserError(f"{line}: {cell!r} in row {row + 1} is not a number, such as 0.5 (empty: a failed run)")
        if math.isfinite(value) and value and not SMALLEST <= abs(value) <= LARGEST:
            raise UserError(f"{line}: {cell} in row {row + 1} is not between 1e-100 and 1e100; use another unit")
        if metric.is_share and not (0 <= value <= 1 or not math.isfinite(value)):
            raise UserError(f"{line}: {cell} in row {row + 1} is not a fraction; rename the column, such as to acc")
        values.append(value if math.isfinite(value) else math.nan)
    return pd.Series(values, cells.index, dtype=float)


def _levels(cells: pd.Series, line: str) -> pd.Series:
    """The levels, a whole number in one spelling. Raises `UserError` for empty cells and two spellings of a number."""
    if (empty := cells == "").any():
        raise UserError(f"{line}: row {int(empty.idxmax()) + 1} is empty; a run has a level of every factor")
    levels = cells.str.replace(r"^(-?\d+)\.0*$", r"\1", regex=True)
    spelled: dict[float, str] = {}
    for level in dict.fromkeys(levels):
        if (value := _number(level)) is not None and spelled.setdefault(value, level) != level:
            raise UserError(f"{line}: {spelled[value]!r} and {level!r} are the same number; write it in one way")
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
    texts = list(dict.fromkeys(cells))
    if all(re.fullmatch(r"\d+(\.0*)?", text) for text in texts):
        return cells.map(lambda text: int(text.partition(".")[0]))
    if odd := [text for text in texts if SUMMARY & {*re.findall("[a-z]+", text.lower())} or not text]:
        raise UserError(f"{line}: {odd[0]!r} is no seed, as of a row with a summary; leave such rows out by --where")
    return cells.map(texts.index)


def _last(rows: pd.DataFrame, cells: pd.Series, parts: pd.Series | None, line: str) -> tuple[pd.DataFrame, list[str]]:
    """The row with the last value of each run, or of each of its parts, and which runs end earlier.

    Empty cells are skipped. A run with a row that is marked as failed, or without any value, has failed.
    """
    steps = cells.map(_number)
    if (odd := steps.isna()).any():
        raise UserError(f"{line}: {cells[odd.idxmax()]!r} in row {int(odd.idxmax()) + 1} is not a number")
    key = rows["run"] if parts is None else rows["run"] + ", " + parts
    if (again := pd.DataFrame({"key": key, "step": steps})[~rows["empty"]].duplicated()).any():
        raise UserError(f"{line}: two rows of {key[again.idxmax()]} have {cells[again.idxmax()]}")
    failed = (rows["failed"] & ~rows["empty"]).groupby(key).transform("any") | rows["empty"].groupby(key).transform(
        "all"
    )
    last = steps.mask(rows["empty"], -math.inf).groupby(key, sort=False).idxmax()
    kept, ends = rows.assign(failed=failed).loc[last], steps.loc[last]
    early = first_few(kept["run"][ends < ends.max()], "; ")
    return kept, [f"The last value is at an earlier step than {ends.max():g}: {early}."] * bool(early)


def _means(rows: pd.DataFrame, text: pd.DataFrame, dataset: str, over: str, source: str) -> pd.DataFrame:
    """The mean over a column for each run; one that lacks a part, or has a failed one, has failed."""
    parts, run = text.loc[rows.index, over], rows["run"]
    if (again := pd.DataFrame({"run": run, "part": parts}).duplicated()).any():
        raise UserError(f"{source}: {over}: two rows of {run[again.idxmax()]} have {parts[again.idxmax()]}")
    every = parts.groupby(text.loc[rows.index, dataset]).transform("nunique") if dataset else parts.nunique()
    failed = rows["failed"].groupby(run).transform("any") | (parts.groupby(run).transform("nunique") < every)
    return rows.assign(value=rows["value"].groupby(run).transform("mean"), failed=failed)[~run.duplicated()]


def _check_one_row_each(rows: pd.DataFrame, unused: pd.DataFrame, source: str) -> None:
    """Raise `UserError` where a run has several rows, naming the columns that vary within it."""
    if (again := rows["run"].duplicated()).any():
        run = rows.at[again.idxmax(), "run"]
        of_run = unused.loc[rows.index[rows["run"] == run]]
        vary = ", ".join(name for name in of_run if of_run[name].nunique() > 1) or "no column"
        ways = "--last COLUMN takes the last, --mean-over COLUMN the mean, --where COLUMN=VALUE keeps some"
        raise UserError(f"{source}: several rows of one run ({run}), in which {vary} vary: {ways}, or name a factor")


def _study(
    rows: pd.DataFrame,
    text: pd.DataFrame,
    columns: Columns,
    metric: Metric,
    source: str,
    asked: Asked,
    notes: list[str],
) -> Runs:
    """The study of one dataset."""
    levels = {apart(factor, "config"): _typed(text[factor]) for factor in columns.factors}
    order = {name: _in_order(of) for name, of in levels.items()}
    combined = list(zip(*levels.values()))
    variants = {of: variant_name(levels, map(level_text, of)) for of in combined}
    if len({*variants.values()}) < len(variants):
        raise UserError(
            f"{source}: two combinations of {', '.join(columns.factors)} have the same name; rename a level"
        )
    if len(variants) < 2 and not columns.dataset:
        raise UserError(f"{source}: {', '.join(columns.factors)}: every row holds the same; a factor has two levels")
    baseline = _cell(asked.baseline) if asked.baseline else variants[combined[rows.index.get_loc(rows.index.min())]]
    if baseline not in variants.values():
        names = list(variants.values())
        raise UserError(f"{source}: baseline: {baseline!r} is not a variant; {nearest(baseline, names)}")
    place = {of: (name != baseline, [order[n].index(v) for n, v in zip(levels, of)]) for of, name in variants.items()}
    dataset = {DATASET: text[columns.dataset].iloc[0]} if columns.dataset else {}
    numbers = Counter[str]()
    runs = []
    for row, of in sorted(zip(rows.index, combined), key=lambda pair: (place[pair[1]], rows.at[pair[0], "seed"])):
        variant, failed = variants[of], bool(rows.at[row, "failed"])
        seed = numbers[variant] if asked.unpaired else int(rows.at[row, "seed"])
        numbers[variant] += 1
        known = {"run": f"row {row + 1}", "run_id": None, "variant": variant, "seed": seed, **dataset}
        status, value = ("diverged", None) if failed else ("finished", float(rows.at[row, "value"]))
        runs.append({**known, "status": status, **dict(zip(levels, of)), metric: value})
    file = file_of(source)
    tree = {
        "name": file.name[: len(file.name) - len(ending_of(file))] if file else source.rpartition("/")[2],
        "factors": order,
        "baseline": baseline,
        "metric": str(metric),
        "margin": _margin(asked.margin, rows["value"][~rows["failed"]], metric, source),
        "variance": asked.rule,
        "family": asked.family,
        "source": source,
        "notes": [*notes, *_failed_note(runs, columns.seed, text)],
        "command": asked.command or None,
        "names": {"seed": columns.seed} if columns.seed.lower() not in ("", "seed") else {},
        "runs": [
            {"run": run["run"], "run_id": "", "variant": run["variant"], "seed": run["seed"]}
            | {"levels": {name: run[name] for name in levels}}
            for run in runs
        ],
        **({} if is_metric(str(metric)) else {"lower_is_better": metric.lower_is_better}),
    }
    return Runs.of_rows(Compared.parse(tree, source), runs, [])


def _typed(cells: pd.Series) -> list[Any]:
    """The levels as numbers where all are numbers, else as text."""
    numbers = [_number(cell) for cell in cells]
    if any(number is None or not math.isfinite(number) for number in numbers):
        return list(cells)
    return [int(cell) if re.fullmatch(r"-?\d+", cell) else number for cell, number in zip(cells, numbers)]


def _in_order(levels: Iterable[Any]) -> list[Any]:
    """Different levels: numbers in their order, text in that of the file."""
    different = list(dict.fromkeys(levels))
    return different if any(isinstance(level, str) for level in different) else sorted(different)


def _failed_note(runs: Sequence[Mapping[str, Any]], seed: str, text: pd.DataFrame) -> list[str]:
    """What to do about failed runs: nothing on their variants is tested."""
    failed = [run for run in runs if run["status"] == "diverged"]
    way = ""
    if failed and seed:
        first = text.at[int(failed[0]["run"].partition(" ")[2]) - 1, seed]
        way = f", or leave the seed out for all by --where {seed}!={shlex.quote(first)}"
    lost = first_few(dict.fromkeys(run["variant"] for run in failed))
    return [f"Not tested because of failed runs: {lost}. Train the failed runs again{way}."] * bool(failed)


def _margin(given: float | str | None, values: Iterable[float], metric: Metric, source: str) -> float | None:
    """The margin in the unit of the metric: "0.5 points" are hundredths of one from 0 to 1, units of one in percent.

    Raises `UserError` for a margin of another scale: part of 1 that may be meant in percent, or beyond every value.
    """
    finite = [value for value in values if math.isfinite(value)]
    if given is None or not finite:
        return None
    low, high, (margin, in_points) = min(finite), max(finite), amount(given)
    is_loss = bool(LOSSES & _words(metric))
    is_share = metric.is_share or (0 <= low <= high <= 1 and not is_loss)
    line = f"{source}: margin: {given} is not allowed: "
    if in_points and (is_loss or not (is_share or (low >= 0 and 1.5 < high <= 100))):
        raise UserError(
            f"{line}points are of a share, from 0 to 1 or in percent; give a number in the unit of {metric}"
        )
    if is_share and margin >= WIDE and not in_points:
        raise UserError(f"{line}{metric} is from 0 to 1; write '{margin:g} points' or '{100 * margin:g} points'")
    margin *= 0.01 if in_points and is_share else 1
    if margin >= (largest := max(map(abs, finite))) > 0:
        raise UserError(f"{line}{metric} has no value as large, {largest:g} at most, so all would be equivalent")
    return margin
