"""Rows of a table that are parts of a run, such as folds, episodes and epochs: what makes runs of them."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analysis.runs.tables.cells import cell_number, cell_text, is_seed
from analysis.runs.tables.rows import RUN, Rows
from analysis.runs.tables.scales import scales_note
from experiments.direction import HIGHER, LOWER, words_of
from experiments.errors import UserError, first_few

SAYS = {"metric", "measure", "tag", "variable"}  # words of a column that says what the value of a row is
STEP = re.compile("epoch|step|iter|round", re.IGNORECASE)


def _check_apart(rows: Rows, *more: str) -> None:
    """Raise `UserError` where two rows are of the same run, with the ways out."""
    if at := _same(keys := rows.keys(*more)):
        both = f"rows {at[0] + 1} and {at[1] + 1} both have {keys[at[1]]}"
        raise UserError(f"{rows.source}: {both}; {_way_out(rows, *at)}")


def _same(keys: pd.Series) -> tuple[int, int] | None:
    """The index of the first row that repeats an earlier one, after that of the earlier one; None where none does."""
    again = keys.duplicated()
    return (int((keys == keys[again.idxmax()]).idxmax()), int(again.idxmax())) if again.any() else None


def _way_out(rows: Rows, first: int, second: int) -> str:
    """What to do about two rows of one run, by the columns in which they differ.

    A column whose values recur from run to run says which part of its run a row is: of numbers a step, a fold or an
    episode; of texts a metric, a dataset or another factor. Any other, such as a time or an id, says nothing.
    """
    unused, values = rows.unused, rows.frame[rows.metric]
    if len(lost := [at for at in (first, second) if not math.isfinite(values[at])]) == 1:
        return f"row {lost[0] + 1} did not end; leave it out if its variant is not the cause"
    differing, keys = [name for name in unused if unused.at[first, name] != unused.at[second, name]], rows.keys()
    recurring = [name for name in differing if (keys.groupby(unused[name]).nunique() > 1).mean() >= 0.5]
    ways = sorted(way for name in recurring for way in _ways(rows, name, [*dict.fromkeys(unused[name])]))
    listed = f" ({', '.join(differing)})" * bool(differing)
    return "; ".join(way for _, way in ways[:4]) or f"name what differs{listed} as a factor, or leave out copies"


def _ways(rows: Rows, name: str, held: list[str]) -> list[tuple[int, str]]:
    """What may be done about a column that recurs and holds these texts, each with its place in the advice."""
    one = f"for one of {name} ({first_few(held)}): "
    where = (2, one + rows.ask("where", f"{name}={held[0]}"))
    factor = (5, f"if {name} is a factor, name it")
    if is_seed(name):
        return [(0, f"to pair runs by {name}: {rows.ask('seed', name)}")]
    mean = (1, f"for the mean over {name} of each run: {rows.ask('mean_over', name)}")
    if whole_numbers(held) is None:
        dataset = (3, f"if {name} is a dataset: {rows.ask('dataset', name)}")
        return [where, dataset, *([] if SAYS & words_of(name) else [(4, mean[1])]), factor]
    last = f"for the last row of each run: {rows.ask('last', name)}"
    return [(0, last), mean] if STEP.search(name) else [mean, where, (4, last), factor]


def whole_numbers(texts: Sequence[str]) -> list[int] | None:
    """The whole number in each text, 1 of "1", "fold_1" and "run 1"; None where one has none, or two have the same."""
    plain = list(map(cell_number, texts))
    if all(value is not None and value % 1 == 0 for value in plain):  # not of nan and inf
        return [int(value) for value in plain if value is not None]
    parts = [re.findall(r"\d+", shown) if value is None else [] for value, shown in zip(plain, texts)]
    is_clear = all(len(part) == 1 for part in parts) and len({int(*part) for part in parts}) == len({*texts})
    return [int(*part) for part in parts] if is_clear else None


def seed_numbers(rows: Rows) -> list[int]:
    """The seed of each row. Keys that are no numbers count in order of appearance, where all variants have the same."""
    (seed,) = rows.seeds
    texts = rows.frame[seed].map(cell_text)
    if (whole := whole_numbers(list(texts))) is not None:
        return whole
    sets, known = texts.groupby(replace(rows, seeds=[]).keys()).agg(frozenset), list(dict.fromkeys(texts))
    if sets.nunique() == 1 and all(one and cell_number(one) is None for one in known):
        return list(map(known.index, texts))
    row, wrong = next(
        (row, one) for row, one in enumerate(texts, 1) if whole_numbers([one]) is None or cell_number(one) is None
    )
    allowed = "expected such as 0, or seed_0, or the same names for every variant"
    raise UserError(f"{rows.source}: {seed}: {wrong!r} in row {row} is not a whole number; {allowed}")


def selected(rows: Rows, lost: pd.Series, last: str | None, mean_over: str | None) -> tuple[Rows, list[str]]:
    """One row for each run, and what to note: the last row by a column `last`, the mean over another, or all rows.

    `lost`: which rows are marked as failed; so are their runs. Raises `UserError` where a row is no run.
    """
    notes = list[str]()
    if rows.seeds:
        rows.frame[rows.seeds[0]] = seed_numbers(rows)
    if last is not None:
        frame, said = _last_rows(rows.of_runs("last"), last, lost, [mean_over] if mean_over else [])
        rows, notes = replace(rows, frame=frame), [*notes, *said]
    if mean_over is not None:
        frame, said = _means(rows.of_runs("mean_over"), mean_over)
        rows, notes = replace(rows, frame=frame), [*notes, *said]
    if not rows.seeds:
        return rows, [*notes, *_check_unpaired(rows)]
    _check_apart(rows)
    return rows, notes


def _last_rows(rows: Rows, step: str, lost: pd.Series, parts: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """The last row of each run, or of each of its parts, and a note where runs have different lengths."""
    steps, keys = pd.to_numeric(rows.frame[step].map(cell_text), errors="coerce"), rows.keys(*parts)
    if (wrong := steps.isna()).any():
        at = int(wrong.idxmax())
        raise UserError(f"{rows.source}: {step}: {cell_text(rows.frame[step][at])!r} in row {at + 1} is not a number")
    last = steps.groupby(keys).transform("max")
    kept = rows.frame.assign(**{rows.metric: rows.frame[rows.metric].mask(lost.groupby(keys).transform("any"))})
    kept, last = kept[steps == last].drop(columns=step), last[steps == last]
    _check_apart(replace(rows, frame=kept), *parts)
    said = ", ".join(f"{value:g} ({count} runs)" for value, count in last.value_counts().sort_index().items())
    shortest = first_few(keys[kept.index][last == last.min()], "; ")
    note = f"Runs end at a different {step}: {said}. The lowest is of {shortest}. "
    note += "A run that crashed has no result at its last row: name it by --failed."
    return kept, [note] * (last.nunique() > 1)


def _means(rows: Rows, over: str) -> tuple[pd.DataFrame, list[str]]:
    """A row for each run, with the mean over a column; one that lacks a part, or has a failed one, has failed.

    Raises `UserError` where the column holds metrics of different directions.
    """
    _check_apart(rows, over)
    parts, values, keys = rows.frame[over].map(cell_text), rows.frame[rows.metric], rows.keys()
    low, high = ([part for part in parts.unique() if words_of(part) & known] for known in (LOWER, HIGHER))
    if low and high:
        way = rows.ask("where", f"{over}={high[0]}")
        raise UserError(f"{rows.source}: mean_over: {over} holds {low[0]} and {high[0]}, which have no mean; use {way}")
    of_dataset = rows.frame[rows.dataset].map(cell_text) if rows.dataset else keys.map(lambda _: "")
    complete = parts.groupby(keys).transform("count") == parts.groupby(of_dataset).transform("nunique")
    means = values.groupby(keys).transform(lambda own: own.mean(skipna=False)).where(complete)
    lacking = first_few(keys[~complete].unique(), "; ")
    kept = rows.frame.assign(**{rows.metric: means}).drop(columns=over)[~keys.duplicated()]
    notes = [f"Runs that lack a value of {over} count as failed: {lacking}."] * bool(lacking)
    return kept, [*notes, *scales_note(dict(iter(values.groupby(parts))), rows.metric)]


def _check_unpaired(rows: Rows) -> list[str]:
    """What to note of rows that are to be runs without seeds. Raises `UserError` where they are parts of runs.

    They are where a column of seeds or of runs repeats within a variant, and where each variant has the same epochs.
    """
    variants, notes = rows.keys(), list[str]()
    for name, texts in rows.unused.items():
        paired, held = replace(rows, seeds=[name]), [*dict.fromkeys(texts)]
        tells, sets = is_seed(name) or bool(RUN.fullmatch(name)), texts.groupby(variants).agg(frozenset)
        if tells and len(held) > 1 and (at := _same(paired.keys()[texts != ""])):
            said = (
                f"several rows have {paired.keys()[at[0]]}, so rows are no runs; name {name} as the seed instead, and "
            )
            raise UserError(f"{rows.source}: variance: unpaired is not allowed: {said}{_way_out(paired, *at)}")
        same, numbers = len(held) > 1 and sets.nunique() == 1, [*map(cell_number, held)]
        if same and not tells and STEP.search(name):
            way = f"add a column of seeds or of runs, and take the last row of each: {rows.ask('last', name)}"
            raise UserError(f"{rows.source}: every variant has rows of {len(held)} values of {name}; {way}")
        grows = pd.to_numeric(texts, errors="coerce").groupby(variants).agg(lambda own: (own.diff()[1:] > 0).all())
        if tells:
            notes += [f"{name} is {held[0]} in every row, so it tells no runs apart."] * (len(held) == 1)
        elif 1 < len(held) < len(texts) and ((same and whole_numbers(held) is not None) or grows.all()):
            notes.append(
                f"If rows of different {name} are parts of one run, they are no runs: intervals are too narrow."
            )
        elif max(map(len, sets)) > 1 and (len(held) <= len(texts) / 2 or (None in numbers and len(held) < len(texts))):
            notes.append(f"The runs of a variant differ in {name} ({first_few(held)}), which is no factor.")
    copies = int(rows.frame.map(cell_text).duplicated().sum())
    return [
        *notes,
        *[f"{copies} rows repeat another one in all columns: check that they are no copies."] * bool(copies),
    ]
