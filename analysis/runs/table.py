"""Runs from anyone's table, read strictly: a file, a DataFrame or a project of W&B, with one row for each run.

Every cell is text. The columns are those that the user names, or the only ones that fit. Where two readings are
possible, the table is refused in one line that lists its columns.
"""

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.asked import Asked
from analysis.runs.runs import Runs
from analysis.runs.settings import DATASET, leaves, level_text
from analysis.runs.source_run import apart
from experiments.errors import UserError, first_few
from experiments.files import RecordError, read_bytes, reading
from experiments.metric import LARGEST, SMALLEST, Metric, is_metric, metric_of_column
from experiments.stated import amount, variant_name
from experiments.study import StudyPlan
from vit.registry import did_you_mean

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
"""Words with which a name means the opposite, as in scikit-learn's `neg_mean_squared_error`."""
ENDED = {"finished", "complete", "completed", "success", "succeeded", "terminated", "passed", "done", "ok", "published"}
NOT_ENDED = {"failed", "fail", "error", "crashed", "killed", "running", "pruned"}
SUMMARY = {"mean", "std", "sd", "sem", "average", "avg", "median", "min", "max", "best", "total", "all", "overall"}
LOSSES = {"loss", "losses", "nll", "perplexity", "ppl", "bpb", "bpc"}  # what has no percent
WIDE = 0.1  # a margin of a metric from 0 to 1 that is as large may be meant in percent


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are."""

    metric: str
    factors: list[str]
    seed: str  # "" where rows have none
    dataset: str

    @property
    def of_run(self) -> list[str]:
        """Those that tell runs apart."""
        return [*self.factors, *filter(None, [self.dataset, self.seed])]


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
                rows = [json.loads(line) for line in body.decode("utf-8-sig").splitlines() if line.strip()]
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
    if (short := cells.isna().any(axis=1)).any():
        raise RecordError(f"{path}: row {int(short.idxmax())} has fewer cells than the header")
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
    for factor in [*columns.factors, *filter(None, [columns.dataset])]:
        text[factor] = _levels(text[factor], f"{source}: {factor}")
    rows = pd.DataFrame({"value": _values(text[columns.metric], f"{source}: {columns.metric}", metric)})
    rows["failed"] = rows["value"].isna()
    for condition in asked.failed:
        rows["failed"] |= _meets(text, source, "failed", condition)
    named = [columns.metric, *columns.of_run, asked.last, asked.mean_over, *map(_column, [*asked.where, *asked.failed])]
    unused = text.drop(columns=[name for name in named if name in text])
    _check_ended(unused, source)
    rows, said = _one_row_each(rows, text, columns, unused, source, asked)
    varied = [name for name in unused if unused[name].nunique() > 1]
    said += [f"Not used: {', '.join(varied)}."] * bool(varied)
    text, datasets = (
        text.loc[rows.index],
        text.loc[rows.index, columns.dataset] if columns.dataset else rows.index == -1,
    )
    studies = []
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

    def cell(value: Any) -> str:
        shown = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value).strip()
        shown = shown.lower() if shown in ("True", "False", "TRUE", "FALSE") else shown
        return shown.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be written

    return frame.set_axis(names, axis=1).map(cell).reset_index(drop=True)


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
    column, value = _column(condition), condition.partition("=")[2]
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
    named = [asked.metric, *asked.factor, seed, asked.dataset, asked.last, asked.mean_over]
    for name in filter(None, named):
        if name not in text:
            raise UserError(f"{source}: has no column {name!r}; {did_you_mean(name, text)} {listed}")
    if len({*filter(None, named)}) < len([*filter(None, named)]):
        raise UserError(
            f"{source}: metric, seed, dataset and factors are different columns, not {', '.join(filter(None, named))}"
        )
    if not seed and not asked.unpaired:
        raise UserError(f"{source}: has no column seed; name one by --seed, or give --unpaired; {listed}")
    free = [name for name in text if name not in {*named, *map(_column, [*asked.failed, *asked.where])}]
    numbers = [name for name in free if _holds_numbers(text[name])]
    if not asked.metric and len(numbers) != 1:
        raise UserError(f"{source}: --metric is required, and names a column of numbers; {listed}")
    metric = asked.metric or numbers[0]
    texts = [
        name
        for name in free
        if name != metric
        and name not in numbers
        and 1 < text[name].nunique() < len(text)
        and not _says_ends(text[name])
    ]
    if not asked.factor and len(texts) != 1:
        raise UserError(f"{source}: --factor is required, and names a column of levels; {listed}")
    factors = list(asked.factor) or texts
    if odd := [factor for factor in factors if "+" in factor]:
        raise UserError(f"{source}: rename the column {odd[0]!r}; a factor has no '+' in its name")
    return Columns(metric, factors, seed, asked.dataset or "")


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
        return metric_of_column(column, asked.lower_is_better)
    arrows, words = {lower for sign, lower in ARROWS.items() if sign in column}, _words(column)
    low, high = bool(words & LOWER), bool(words & HIGHER)
    if asked.lower_is_better or asked.higher_is_better:
        lower = asked.lower_is_better
    elif len(arrows) == 1:
        (lower,) = arrows
    elif low == high or words & TURNED:
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


def _says_ends(cells: pd.Series) -> bool:
    """Whether a column holds a word of an end."""
    return bool({cell.lower() for cell in cells} & (ENDED | NOT_ENDED))


def _check_ended(unused: pd.DataFrame, source: str) -> None:
    """Raise `UserError` for a column that says which runs ended, unless all did."""
    for name, cells in unused.items():
        held = {cell.lower() for cell in cells}
        named = _words(str(name)) & {"failed", "crashed", "diverged", "done"} and held <= {"true", "false", "0", "1"}
        if (_says_ends(cells) and not held <= ENDED) or (named and len(held) > 1):
            values = first_few(sorted({*cells}))
            way = f"--failed {name}=VALUE marks failed runs, --where {name}=VALUE keeps some"
            raise UserError(f"{source}: {name} seems to say which runs ended ({values}): {way}")


def _seeds(cells: pd.Series, line: str) -> pd.Series:
    """The seed of each row as a number: that of the text, else in order of appearance. Raises `UserError`."""
    texts = list(dict.fromkeys(cells))
    whole = [re.fullmatch(r"(\d+)(\.0*)?", text) for text in texts]
    if all(whole):
        return cells.map({text: int(match[1]) for text, match in zip(texts, whole) if match})
    if summary := [text for text in texts if text.lower() in SUMMARY]:
        raise UserError(f"{line}: {summary[0]!r} is the row of a summary; leave it out by --where")
    if "" in texts:
        raise UserError(f"{line}: row {int((cells == '').idxmax()) + 1} is empty")
    return cells.map({text: place for place, text in enumerate(texts)})


def _one_row_each(
    rows: pd.DataFrame, text: pd.DataFrame, columns: Columns, unused: pd.DataFrame, source: str, asked: Asked
) -> tuple[pd.DataFrame, list[str]]:
    """One row for each run with its `value`, `failed` and `seed`, and what to note."""
    rows, notes = rows.assign(seed=0), list[str]()
    if columns.seed:
        rows["seed"] = _seeds(text[columns.seed], f"{source}: {columns.seed}")
    elif asked.last or asked.mean_over:
        raise UserError(f"{source}: --last and --mean-over need the column that tells runs apart: --seed COLUMN")
    names = [name for name in columns.of_run if name != columns.seed]
    keys = [*(text[name] for name in names), rows["seed"]]
    labels = text[names].agg(", ".join, axis=1) + (", seed " + rows["seed"].astype(str) if columns.seed else "")
    if asked.last:
        rows, said = _last(
            rows,
            text,
            [*keys, *([text[asked.mean_over]] if asked.mean_over else [])],
            labels,
            columns,
            source,
            asked.last,
        )
        notes += said
    if asked.mean_over:
        rows = _means(rows, text, [key.loc[rows.index] for key in keys], columns, source, asked.mean_over)
    again = pd.concat([key.loc[rows.index] for key in keys], axis=1).duplicated()
    if columns.seed and again.any():
        at = again.idxmax()
        of_run = unused.loc[rows.index][labels.loc[rows.index] == labels[at]]
        differ = ", ".join(name for name in of_run if of_run[name].nunique() > 1) or "no column"
        ways = "--last COLUMN takes the last, --mean-over COLUMN the mean, --where COLUMN=VALUE keeps some"
        raise UserError(
            f"{source}: several rows of one run ({labels[at]}), which differ in {differ}: {ways}, or name a factor"
        )
    return rows, notes


def _last(
    rows: pd.DataFrame,
    text: pd.DataFrame,
    keys: list[pd.Series],
    labels: pd.Series,
    columns: Columns,
    source: str,
    step: str,
) -> tuple[pd.DataFrame, list[str]]:
    """The last value of each run by a column, and which runs end earlier. A run with a failed row has failed."""
    steps = text[step].map(_number)
    if steps.isna().any():
        at = int(steps.isna().idxmax())
        raise UserError(f"{source}: {step}: {text[step][at]!r} in row {at + 1} is not a number")
    if (again := pd.concat([*keys, steps], axis=1).duplicated()).any():
        at = again.idxmax()
        raise UserError(f"{source}: two rows of one run ({labels[at]}) have {step} {text[step][at]}")
    run = pd.Series(pd.concat(keys, axis=1).itertuples(index=False, name=None), rows.index)
    failed = (rows["failed"] & (text[columns.metric] != "")).groupby(run).transform("any")
    valued = text[columns.metric] != ""
    place = steps.where(valued, -math.inf)  # of a run without any value, its first row: it has failed
    kept = rows.assign(failed=failed | ~valued.groupby(run).transform("any")).loc[
        place.groupby(run, sort=False).idxmax()
    ]
    ends = steps.loc[kept.index]
    early = labels.loc[kept.index][ends < ends.max()]
    note = f"Last value at an earlier {step} than {ends.max():g}: {first_few(early, '; ')}."
    return kept, [note] * (not early.empty)


def _means(
    rows: pd.DataFrame, text: pd.DataFrame, keys: list[pd.Series], columns: Columns, source: str, over: str
) -> pd.DataFrame:
    """The mean over a column for each run; one that lacks a part, or has a failed one, has failed."""
    parts = text.loc[rows.index, over]
    if (again := pd.concat([*keys, parts], axis=1).duplicated()).any():
        raise UserError(f"{source}: two rows of one run have {over} {parts[again.idxmax()]}")
    run = pd.Series(pd.concat(keys, axis=1).itertuples(index=False, name=None), rows.index)
    dataset = text.loc[rows.index, columns.dataset] if columns.dataset else pd.Series("", rows.index)
    complete = parts.groupby(run).transform("nunique") == parts.groupby(dataset).transform("nunique")
    failed = rows["failed"].groupby(run).transform("any") | ~complete
    return rows.assign(value=rows["value"].groupby(run).transform("mean"), failed=failed)[~run.duplicated()]


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
    names = {factor: apart(factor, "config") for factor in columns.factors}
    levels = {factor: _typed(text[factor]) for factor in columns.factors}
    shown = [tuple(level_text(level) for level in row) for row in zip(*levels.values())]
    variant = pd.Series([variant_name(names.values(), level) for level in shown], rows.index)
    order = {factor: _in_order(level) for factor, level in levels.items()}
    places = dict(zip(variant, zip(*([order[factor].index(level) for level in of] for factor, of in levels.items()))))
    if len(places) < len({*shown}):
        raise UserError(
            f"{source}: two combinations of {', '.join(columns.factors)} have the same name; rename a level"
        )
    if len(places) < 2 and not columns.dataset:
        raise UserError(
            f"{source}: {', '.join(columns.factors)}: every row holds {variant.iloc[0]!r}; a factor has two levels"
        )
    baseline = asked.baseline or variant.loc[rows.index.min()]
    if baseline not in places:
        raise UserError(
            f"{source}: baseline: {baseline!r} is not a variant; {did_you_mean(baseline, places)} {', '.join(places)}"
        )
    variants = sorted(places, key=lambda name: (name != baseline, places[name]))
    seeds = rows["seed"] if not asked.unpaired else variant.groupby(variant).cumcount()
    dataset = text[columns.dataset].iloc[0] if columns.dataset else ""
    runs = [
        {
            "run": f"row {row + 1}",
            "run_id": None,
            "variant": variant[row],
            "seed": int(seeds[row]),
            "status": "diverged" if rows.at[row, "failed"] else "finished",
            **{names[factor]: level for factor, level in zip(levels, own)},
            **({DATASET: dataset} if columns.dataset else {}),
            metric: None if rows.at[row, "failed"] else float(rows.at[row, "value"]),
        }
        for row, *own in zip(rows.index, *levels.values())
    ]
    runs.sort(key=lambda run: (variants.index(run["variant"]), run["seed"]))
    file = file_of(source)
    tree = {
        "name": file.name[: len(file.name) - len(ending_of(file))] if file else source.rpartition("/")[2],
        "factors": {names[factor]: of for factor, of in order.items()},
        "baseline": baseline,
        "metric": str(metric),
        **({} if is_metric(str(metric)) else {"lower_is_better": metric.lower_is_better}),
        "margin": _margin(asked.margin, rows["value"][~rows["failed"]], metric, source),
        "variance": asked.rule,
        **({} if asked.family == "all" else {"family": asked.family}),
        "seeds": sorted({run["seed"] for run in runs}),
        "base": {},
        "source": source,
        "notes": [*notes, *_failed_note(runs, columns)],
        "command": asked.command or None,
        "study": {"names": {"seed": columns.seed}} if columns.seed.lower() not in ("", "seed") else {},
        "runs": [
            {"run": run["run"], "run_id": "", "variant": run["variant"], "seed": run["seed"]}
            | {"levels": {name: run[name] for name in names.values()}}
            for run in runs
        ],
    }
    _check_common_seeds(runs, source, asked)
    return Runs.of_rows(StudyPlan.parse(tree, source), runs, [])


def _typed(cells: pd.Series) -> list[Any]:
    """The levels as numbers where all are numbers, else as text."""
    numbers = [_number(cell) for cell in cells]
    if not all(number is not None and math.isfinite(number) for number in numbers):
        return list(cells)
    return [int(cell) if re.fullmatch(r"-?\d+", cell) else number for cell, number in zip(cells, numbers)]


def _in_order(levels: Iterable[Any]) -> list[Any]:
    """Different levels: numbers in their order, text in that of the file."""
    different = list(dict.fromkeys(levels))
    return different if any(isinstance(level, str) for level in different) else sorted(different)


def _failed_note(runs: Sequence[Mapping[str, Any]], columns: Columns) -> list[str]:
    """What to do about failed runs: nothing on their variants is tested."""
    failed = [run for run in runs if run["status"] == "diverged"]
    if not failed:
        return []
    seed = columns.seed or "seed"
    way = f", or leave the seed out for all by --where {seed}!={failed[0]['seed']}" if columns.seed else ""
    lost = first_few(dict.fromkeys(run["variant"] for run in failed))
    return [f"Not tested because of failed runs: {lost}. Train the failed runs again{way}."]


def _check_common_seeds(runs: Sequence[Mapping[str, Any]], source: str, asked: Asked) -> None:
    """Raise `UserError` where a variant has no seed in common with another, though runs are paired by it."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run["variant"], set()).add(run["seed"])
    for variant, own in seeds.items():
        if not asked.unpaired and len(seeds) > 1 and not any(own & of for name, of in seeds.items() if name != variant):
            raise UserError(f"{source}: {variant} has no seed in common with another variant; give --unpaired")


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
