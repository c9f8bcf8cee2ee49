"""A table for a paper: the columns that the user names, the best mean in bold, and a caption that says all of it."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import words
from analysis.asked import Spread
from analysis.findings import Findings
from analysis.findings.columns import baseline_name, mark, mark_note, variant_columns
from analysis.questions.cost import cost_table
from analysis.questions.metrics import metrics_table
from analysis.questions.results import variants_table
from analysis.verdicts import UNKNOWN
from analysis.verdicts.comparisons import NOT_TESTED
from analysis.write import latex, markdown
from analysis.write.table import Column, Table
from experiments.errors import UserError, writing
from experiments.files import reading, write_text
from experiments.metric import Metric

ENDINGS = (".tex", ".md", ".csv")
SHORT_NAME = 11  # characters of the baseline's name up to which the head of the differences has it
LABEL = re.compile(r"[^A-Za-z0-9:._-]+")  # what a label of LaTeX does not have
VARIANT = "variant"
SHARED = "t tests with a spread shared by all variants"
TESTS = {"shared": SHARED, "Welch": "Welch's t tests", "paired": "paired t tests"}
"""Where standard errors come from -> the tests with them."""
PUBLIC = {"_diff": "difference", "_pair_p_adjusted": "p"}
"""Fields of the report's tables -> what the user calls them, where that is not their name without "_pair_"."""


def paper_table(findings: Findings, names: Sequence[str] | None, spread: Spread | None = None) -> Table:
    """The columns with these names, one row for each variant; None: what compares the variants.

    `spread`: what stands after ± of a mean. Raises `UserError` naming a column that there is none of, and those that
    there are.
    """
    variants, metric = findings.variants, findings.means.metric
    known = _known(findings)
    names = [VARIANT, "n", metric, "difference", "p", "verdict"] if names is None else names
    for name in names:
        if name != VARIANT and name not in known:
            raise UserError(f"--columns: {name!r} is not allowed: expected {', '.join([VARIANT, *known])}")
    base = variants_table(findings).frame
    frame, columns = base[[VARIANT]].copy(), list[Column]()
    for name in dict.fromkeys(names):
        if name == VARIANT:
            keys = [replace(column, link="", sort="") for column in variant_columns(variants)]
            columns += keys
            frame = frame.join(base[[key.field for key in keys if key.field not in frame]])
            continue
        column, source = known[name]
        frame[name] = source[column.field].reindex(variants.names).astype(object).to_numpy()
        if name == "difference":
            untested = [findings.comparisons.versus[variant].verdict == NOT_TESTED for variant in variants.names]
            frame[name] = [UNKNOWN if lost else shown for lost, shown in zip(untested, frame[name], strict=True)]
        column = replace(column, field=name, sort="", link="", mark="", detail=False)
        measured = next((metric for metric in findings.study.metrics if metric == name), None)
        if spread == "sd" and measured:
            column = _with_deviations(frame, column, measured, findings)
        columns.append(replace(column, mark="_mark") if name == metric else column)
    frame["_mark"] = [mark(variant, findings) for variant in variants.names]
    return Table("variants", _caption(findings, names, spread), frame, tuple(columns))


def _known(findings: Findings) -> dict[str, tuple[Column, pd.DataFrame]]:
    """What a user calls a column -> the column of the report's tables, and the frame of its table."""
    tables = [variants_table(findings), metrics_table(findings), cost_table(findings)]
    known, baseline = dict[str, tuple[Column, pd.DataFrame]](), baseline_name(findings.variants)
    for table in tables:
        for column in table.columns:
            name = PUBLIC.get(column.field, column.field.removeprefix("_pair_"))
            if name == "difference" and len(words.without_math(baseline)) > SHORT_NAME:
                column = replace(column, label=column.label.replace(f" from {baseline}", ""))
            if not column.key and column.field != "diff" and not name.startswith("_"):
                known.setdefault(name, (column, table.frame.set_index(VARIANT)))
    return known


def _with_deviations(frame: pd.DataFrame, column: Column, metric: Metric, findings: Findings) -> Column:
    """The column of a metric with the standard deviation of the runs, which the frame gets, for the interval."""
    finished = findings.study.of("finished")
    deviation = finished.groupby("variant")[metric].std().reindex(findings.variants.names)
    frame[column.field] = [mean.value for mean in frame[column.field]]
    frame[f"{column.field}_sd"] = deviation.to_numpy()
    frame[f"_{column.field}"] = list(zip(frame[column.field], deviation))
    return replace(column, field=f"_{column.field}", sort=column.field, show=words.deviations(metric))


def _caption(findings: Findings, names: Sequence[str], spread: Spread | None) -> str:
    """How many seeds there are, what ± and the marks mean, and the test with its adjustment."""
    metric, variants, policy = findings.means.metric, findings.variants, findings.policy
    after = "standard deviation of the runs" if spread == "sd" else f"{words.CONFIDENCE} interval (Student's t)"
    tests = words.listing([TESTS[method] for method in sorted(findings.comparisons.methods)])
    look = ", at the level of the planned look" * policy.several_looks
    baseline, compared = (variants.name(variants.baseline), bool(tests and {"difference", "p", "verdict"} & {*names}))
    seeds = words.seeds((mean.n for mean in findings.means.of_variants.values()), policy.unit)
    lost = any(one.verdict == NOT_TESTED for one in findings.comparisons.versus.values())
    parts = [
        f"{words.capital(metric.label)}: mean and {after}, {seeds}.",
        mark_note(findings) * (metric in names),
        f"Differences from {baseline} have {words.CONFIDENCE} intervals for all pairs together (Bonferroni{look}; "
        f"{tests})." * compared,
        f"Variants that are not tested against {baseline} have no difference." * (lost and "difference" in names),
    ]
    return " ".join(filter(None, parts))


def check_file(file: Path, label: str | None, caption: str | None) -> None:
    """Raise `UserError` for a file of another type, and a label that LaTeX or the table does not take."""
    if file.suffix not in ENDINGS:
        raise UserError(f"--table: {str(file)!r} is not allowed: expected a file that ends with {', '.join(ENDINGS)}")
    if label is not None and (file.suffix != ".tex" or caption == ""):
        raise UserError(f"--label: {label!r} is not allowed: only a .tex file with a caption has a label")
    if label is not None and (not label or LABEL.search(label)):
        raise UserError(f"--label: {label!r} is not allowed: expected letters, digits and any of : . _ -")


def in_latex(table: Table, label: str, caption: str | None) -> str:
    """The table as LaTeX. `label`: without characters that LaTeX does not take. `caption`: see `latex.table`."""
    return latex.table(table, LABEL.sub("-", label), caption)


def write_table(table: Table, file: Path, label: str, caption: str | None = None) -> None:
    """Write the table as the file's ending says, in place of one with the same first line. Raises `UserError`.

    `label` and `caption`: see `in_latex`.
    """
    if file.suffix == ".tex":
        body = in_latex(table, label, caption)
    else:
        said = table.caption if caption is None else caption
        body = table.csv() if file.suffix == ".csv" else f"{markdown.table(table)}\n{markdown.escaped(said)}\n"
    with reading(file):
        old = file.read_bytes().splitlines() if file.exists() else []
    if old and old[0] != body.encode().splitlines()[0]:
        raise UserError(f"--table: {str(file)!r} does not begin as this table does; delete it, or give another file")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, body)
    if old:
        print(f"vit-report: replaced {file}", file=sys.stderr)
