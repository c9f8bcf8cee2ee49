"""Read runs from a table with one row for each run: a file (CSV, Parquet, JSON lines) or a DataFrame. Read only.

The user names the columns: the metric, the seed and the factors. Other columns are not used.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.asked import Asked
from analysis.runs.inferred import infer
from analysis.runs.runs import Runs
from analysis.runs.settings import DATASET, level_text
from analysis.runs.source_run import SourceRun, apart
from analysis.runs.tables.cells import cell_number, cell_text, is_seed
from analysis.runs.tables.conditions import meets, named_columns
from analysis.runs.tables.ended import check_ended, notes_of_others
from analysis.runs.tables.repeats import SAYS, STEP, selected
from analysis.runs.tables.rows import RUN, UNPAIRED, Rows, checked, rows_of
from analysis.runs.tables.scales import in_unit, rounding_note
from experiments.direction import LOWER, direction, words_of
from experiments.errors import UserError, first_few
from experiments.metric import LARGEST, SMALLEST, Metric, is_metric, metric_of_column
from experiments.stated import variant_name


class TableRuns(NamedTuple):
    """The runs of a table: `notes` are for the reader of a report, and `about` says which columns are not used."""

    runs: list[SourceRun]
    metric: Metric
    notes: list[str]
    about: str = ""
    others: pd.DataFrame = pd.DataFrame()


def runs_of(frame: pd.DataFrame, source: str, asked: Asked) -> TableRuns:
    """The runs of a table. `source`: what messages call the table."""
    whole = frame = checked(frame, source)
    for condition in asked.where:
        frame = frame[meets(frame, source, "where", condition)].reset_index(drop=True)
    rows = rows_of(frame, source, asked)
    measured, notes = measured_in(rows.frame, rows.metric, asked)
    lost = pd.Series(False, rows.frame.index)
    for condition in asked.failed:
        lost |= (met := meets(rows.frame, source, "failed", condition))
        notes += [f"No row meets the condition for failed runs, {condition}."] * (not met.any())
    rows = replace(rows, frame=rows.frame.assign(**{rows.metric: _values(rows).mask(lost)}))
    unused = rows.unused.drop(columns=[asked.last, asked.mean_over, *named_columns(asked.failed)], errors="ignore")
    check_ended(unused, source, rows.frame[rows.metric].notna())
    least = 1 if asked.plan or asked.target is not None else 2
    levels = {apart(name, "config"): _levels(rows, name, least) for name in rows.factors}
    if rows.dataset is not None:
        levels[DATASET] = list(map(level_text, _levels(rows, rows.dataset)))
    rows, selecting = selected(rows, lost, asked.last, asked.mean_over)
    runs, (noting, about) = _runs(rows, levels, measured), _notes(rows, unused.loc[rows.frame.index])
    left_out = _left_out(len(whole) - len(lost), whole, asked.where)
    others = pd.DataFrame() if asked.mean_over else _numbers(unused.loc[rows.frame.index])
    others = others.set_axis([run.name for run in runs][: len(others)])
    return TableRuns(runs, measured, [*noting, *notes, *selecting, *left_out], about, others)


def _numbers(unused: pd.DataFrame) -> pd.DataFrame:
    """The columns of numbers; empty cells are NaN."""
    numbers = unused.map(lambda text: cell_number(text or "nan"))
    return numbers.loc[:, numbers.notna().any() & ~numbers.map(lambda one: one is None).any()].astype(float)


def read_tables(frame: pd.DataFrame, source: str, asked: Asked) -> list[Runs]:
    """A study from a table with one row for each run, or one for each value of the column `dataset`.

    `source`: what messages call the table.
    """
    runs, measured, notes, about, others = runs_of(frame, source, asked)
    of_rows, studies = [str(run.config.get(DATASET, "")) for run in runs], []
    names = {"names": {"seed": asked.seed}} if asked.seed and not is_seed(asked.seed) else {}
    for name in dict.fromkeys(of_rows) if asked.seeds else sorted({*of_rows}):
        own = [run for run, of_row in zip(runs, of_rows) if of_row == name]
        values = [run.summary.get(measured, math.nan) for run in own]
        try:
            stated = {"description": about, "definition": names, **in_unit(asked, values, measured, source)}
            study = infer(source, own, asked, measured, stated, factors_are="")
            _check_variants(study, asked)
        except UserError as error:
            raise UserError(f"{asked.dataset}={name}: {error}" if name else str(error)) from error
        notes_of = [*study.notes, *_notes_of_values(study, asked), *notes]
        studies.append(replace(study, plan=study.plan.changed(notes=notes_of), others=others))
    return studies


def _left_out(number: int, whole: pd.DataFrame, conditions: Sequence[str]) -> list[str]:
    """A warning of rows that conditions leave out."""
    steps = [name for name in named_columns(conditions) if STEP.search(name)]
    last = [f"Runs that end at another {step} are left out; --last {step} has the last row of each." for step in steps]
    said = f"Conditions leave out {number} of {len(whole)} rows. If runs failed, keep them, and name them by --failed."
    return [" ".join([said, *last])] * (number > 0)


def _notes_of_values(study: Runs, asked: Asked) -> list[str]:
    """What to know of the values of a study: a spread that is rounding alone, and the ways out of failed runs."""
    values = study.runs.groupby("variant", sort=False)[study.metric]
    failed = list(dict.fromkeys(study.of("diverged")["variant"]))
    lost = [ways_out(failed, "--chance, in Python chance=")] * (asked.chance is None and not study.metric.is_share)
    return [*rounding_note([list(own) for _, own in values], study.metric), *(lost if failed else [])]


def ways_out(failed: Sequence[str], flag: str) -> str:
    """What to do about variants with failed runs, whose chance level is not known."""
    way = f"train those runs again and replace their rows, or say what guessing gives: {flag}"
    return f"Not tested because of failed runs: {first_few(failed)}. Ways out: {way}. Leaving rows out hides a failure."


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


def _values(rows: Rows) -> pd.Series:
    """The metric of each row; NaN where it is missing. Raises `UserError` for what is no number of a usual size."""
    texts, line = rows.frame[rows.metric].map(cell_text), f"{rows.source}: {rows.metric}"
    values = [cell_number(one or "nan") for one in texts]
    for row, (one, value) in enumerate(zip(texts, values), 1):
        if value is None:
            raise UserError(f"{line}: {one!r} in row {row} is not a number, such as 0.5 (empty: a failed run)")
        if math.isfinite(value) and value and not SMALLEST <= abs(value) <= LARGEST:
            raise UserError(f"{line}: {one} in row {row} is not between 1e-100 and 1e100; use another unit")
    return pd.Series(values, rows.frame.index, dtype=float)


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


def _levels(rows: Rows, factor: str, least: int = 2) -> list[Any]:
    """The level in each row: a number where all are, else text."""
    texts, line = [cell_text(cell) for cell in rows.frame[factor]], f"{rows.source}: {factor}"
    if "" in texts:
        raise UserError(
            f"{line}: row {texts.index('') + 1} is empty; a run has a level of every factor "
            "(pandas reads None as empty: use read_csv(..., keep_default_na=False) or fillna('none'))"
        )
    numbers = list(map(cell_number, texts))
    levels = numbers if all(one is not None and math.isfinite(one) for one in numbers) else texts
    alike = dict[Any, str]()
    for shown, level in zip(texts, levels):
        if alike.setdefault(level, shown) != shown:
            same = f"{alike[level]!r} and {shown!r} are the same number"
            raise UserError(f"{line}: {same}; write it in one way")
    if len(set(levels)) < least:
        raise UserError(f"{line}: every row holds {texts[0]!r}; a factor has two values or more")
    return levels


def _check_variants(study: Runs, asked: Asked) -> None:
    """Raise `UserError` for a name of two variants, and for a variant that has no seed in common with another."""
    if len(study.variants) < len({tuple(run.levels.values()) for run in study.plan.runs}):
        factors = ", ".join(asked.factor)
        raise UserError(f"{study.source}: two combinations of {factors} have the same name; rename their values")
    shared = Counter(run.seed for run in study.plan.runs)
    paired = {run.variant for run in study.plan.runs if shared[run.seed] > 1}
    if asked.seeds and len(study.variants) > 1 and (alone := sorted({*study.variants} - paired)):
        said = f"{alone[0]} has no seed in common with another variant, and runs are paired by it"
        raise UserError(f"{study.source}: {asked.seeds[0]}: {said}; {UNPAIRED}")
