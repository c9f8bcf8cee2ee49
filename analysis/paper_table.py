"""A table for a paper: the columns that the user names, a short caption, and no notes or marks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import words
from analysis.columns import variant_columns
from analysis.findings import Findings
from analysis.questions.cost import cost_table
from analysis.questions.metrics import metrics_table
from analysis.questions.pairs import baseline_table
from analysis.questions.results import variants_table
from analysis.write import latex, markdown
from analysis.write.table import Column, Table
from experiments.errors import UserError, writing
from experiments.files import reading, write_text

FORMATS: dict[str, Callable[[Table], str]] = {
    ".tex": latex.table,
    ".md": lambda table: str(markdown.table(table)),
    ".csv": Table.csv,
}
VARIANT = "variant"
PUBLIC = {"_diff": "difference", "p_adjusted": "p"}
"""Fields of the report's tables that the user calls something else."""


def paper_table(findings: Findings, names: Sequence[str] | None) -> Table:
    """The columns with these names, one row for each variant; None: what compares the variants.

    Raises `UserError` naming a column that there is none of, and those that there are.
    """
    variants, metric = findings.variants, findings.means.metric
    tables = [
        variants_table(findings),
        *([baseline_table(findings)] if variants.others else []),
        metrics_table(findings),
        cost_table(findings),
    ]
    known: dict[str, tuple[Column, pd.DataFrame]] = {}
    for table in tables:
        for column in table.columns:
            name = PUBLIC.get(column.field, _bare(column.field))
            if not column.key and column.field != "diff" and not name.startswith("_"):
                known.setdefault(name, (column, table.frame.set_index(VARIANT)))
    names = [VARIANT, "n", _bare(variants.metric), "difference", "p", "verdict"] if names is None else names
    for name in names:
        if name != VARIANT and name not in known:
            raise UserError(f"--columns: {name!r} is not allowed: expected {', '.join([VARIANT, *known])}")
    frame, columns = tables[0].frame[[VARIANT]].copy(), list[Column]()
    for name in dict.fromkeys(names):
        if name == VARIANT:
            keys = [replace(column, link="", sort="") for column in variant_columns(variants)]
            columns += keys
            frame = frame.join(tables[0].frame[[key.field for key in keys if key.field not in frame]])
        else:
            column, source = known[name]
            frame[name] = source[column.field].reindex(variants.names).astype(object).to_numpy()
            columns.append(replace(column, field=name, sort="", link="", mark="", detail=False))
    seeds = words.seeds(mean.n for mean in findings.means.of_variants.values())
    caption = f"{words.capital(metric.label)} and differences: mean and {words.CONFIDENCE} interval over {seeds}."
    return Table("variants", caption, frame, tuple(columns))


def _bare(metric: str) -> str:
    """The name of a metric, or of a column of a table of runs without what is better."""
    return metric.partition(" (")[0]


def check_file(file: Path) -> None:
    """Raise `UserError` for a file of another type."""
    if file.suffix not in FORMATS:
        raise UserError(f"--table: {str(file)!r} is not allowed: expected a file that ends with {', '.join(FORMATS)}")


def write_table(table: Table, file: Path) -> None:
    """Write the table as the file's ending says, in place of one with the same first line. Raises `UserError`."""
    body = FORMATS[file.suffix](table)
    with reading(file):
        old = file.read_bytes().splitlines() if file.exists() else []
    if old and old[0] != body.encode().splitlines()[0]:
        raise UserError(f"--table: {str(file)!r} does not begin as this table does; delete it, or give another file")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, body)
