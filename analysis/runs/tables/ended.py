"""Which rows of a table are of runs that did not end: known programs say it; of any other column, a note asks."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping

import pandas as pd

from analysis.runs.tables.cells import cell_text
from experiments.errors import UserError

PROGRAMS = (
    ("W&B", "state", "finished", "running crashed failed killed pending preempting preempted"),
    ("Sacred", "status", "COMPLETED", "QUEUED RUNNING INTERRUPTED TIMEOUT FAILED DIED"),
    ("Neptune", "sys/failed", "False", "True"),
    ("Ray Tune", "status", "TERMINATED", "PENDING RUNNING PAUSED RESTORING ERROR"),
    ("MLflow", "status", "FINISHED", "RUNNING SCHEDULED FAILED KILLED"),
    ("ClearML", "status", "completed published closed", "created queued in_progress stopped publishing failed unknown"),
    (
        "Slurm",
        "state",
        "COMPLETED",
        r"RUNNING PENDING SUSPENDED PREEMPTED REQUEUED RESIZING COMPLETING TIMEOUT DEADLINE FAILED NODE_FAIL BOOT_FAIL "
        r"REVOKED OUT_OF_ME\w*\+? CANCELLED.*",
    ),
    ("Slurm", "exitcode", "0:0", r"\d+:\d+"),
    ("H2O", "status", "DONE", "CREATED RUNNING CANCEL_PENDING CANCELLED FAILED"),
    ("Optuna", "state", r"(TrialState\.)?COMPLETE", r"(TrialState\.)?(RUNNING|WAITING|PRUNED|FAIL)"),
    ("Guild", "status", "completed", "error terminated pending running staged"),
)
"""Program, its column, the values of success, and its others, as regular expressions: the lists of their manuals."""
MOST, USUAL = 5, 0.8  # values of a column that a note names, and the share of rows that one of them has


def lost_values(column: str, values: Collection[str]) -> set[str]:
    """The values that say that a run did not end, in a column that a known program writes; "" is a missing one.

    It is such a column where it has the name, or `SECTION.NAME`, and every value is one of the program's own: its list
    is complete, so a value that is not on it is of something else. Nothing else is said to be a failure.
    """
    for _, name, success, others in PROGRAMS:
        good, bad = (re.compile("|".join(words.split(" "))) for words in (success, others))
        held = {*values} - {""}
        is_column = re.fullmatch(rf"(.*[./])?{re.escape(name)}", column.lower())
        if is_column and held and all(good.fullmatch(value) or bad.fullmatch(value) for value in held):
            return {value for value in values if not good.fullmatch(value)}
    return set()


def check_ended(columns: Mapping[str, pd.Series], source: str, valued: pd.Series) -> None:
    """Raise `UserError` where a known program says that rows with a value did not end: it is not their last one."""
    for column, cells in columns.items():
        texts = cells.map(cell_text)
        lost = lost_values(column, {*texts})
        rows, ended = texts[texts.isin(lost) & valued], sorted({*texts} - lost)
        if rows.empty:
            continue
        named = [f"{column}!={ended[0]}"] if len(ended) == 1 else [f"{column}={value}" for value in sorted(lost)]
        flags = " ".join(f"--failed {shlex.quote(condition)}" for condition in named)
        listed = ", ".join(value or "empty" for value in sorted({*rows}))
        raise UserError(
            f"{source}: {column}: {len(rows)} of {len(texts)} rows did not end ({listed}); count them as failed runs: "
            f"{flags}, in Python failed={named}; or, if it says something else, leave {column} out of the table"
        )


def notes_of_others(columns: Mapping[str, pd.Series]) -> list[str]:
    """A line for each column that may say so in any other words: few values, one of which most rows have.

    It gives the values and their numbers, and how they would be counted as failed; it claims nothing.
    """
    notes = []
    for column, cells in columns.items():
        counts = Counter(cells.map(cell_text))
        (_, most), *others = counts.most_common()
        if others and len(counts) <= MOST and most >= USUAL * len(cells):
            listed = ", ".join(f"{value or 'empty'} {number}" for value, number in counts.most_common())
            flags = " ".join(f"--failed {shlex.quote(f'{column}={value}')}" for value, _ in others)
            notes.append(f"{column}: {listed}; to count them as failed: {flags}.")
    return notes
