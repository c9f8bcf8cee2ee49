"""A table for a paper: the columns that the user names, the best mean in bold, and a caption that says all of it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import verdicts, words
from analysis.asked import Spread, TableOf
from analysis.figures.style import Plot
from analysis.findings import Findings
from analysis.findings.columns import baseline_name, difference, key_columns, mark_note, signed_column, variant_fields
from analysis.findings.rows import VariantRow
from analysis.questions.cost import cost_table
from analysis.questions.metrics import metrics_table
from analysis.questions.results import forest_plot, variants_table
from analysis.studies.over_studies import studies_table
from analysis.verdicts import UNKNOWN, Estimate
from analysis.verdicts.comparisons import NOT_TESTED
from analysis.verdicts.estimates import moments
from analysis.write import files, latex, markdown
from analysis.write.table import Column, Key, Table, Value, chosen
from experiments.errors import UserError, say, writing
from experiments.files import read_bytes, write_bytes
from experiments.metric import Metric

ENDINGS = {"table": (".tex", ".md", ".csv"), "figure": (".pdf", ".svg", ".png")}
CREATOR = "vit-report --figure"  # what a figure says of itself
SHORT_NAME = 11  # characters of the baseline's name up to which the head of the differences has it
LABEL = re.compile(r"[^A-Za-z0-9:._-]+")  # what a label of LaTeX does not have
VARIANT = "variant"


def is_across(found: Mapping[str, Findings]) -> bool:
    """Whether the findings are of several datasets, if only one of them may have runs."""
    return any(findings.policy.strictness > 1 for findings in found.values())


def table_of(
    found: Mapping[str, Findings],
    names: Sequence[str] | None,
    spread: Spread | None = None,
    typed: bool = True,
    of: TableOf | None = None,
) -> tuple[Table, str]:
    """The table of the findings on each dataset, and its label in LaTeX. `typed`: with the names as they are typed."""
    shown = {name: findings.for_latex if typed else findings for name, findings in found.items()}
    if is_across(found):
        return studies_table(shown, names, spread), "tab:across"
    (one,) = shown.values()
    table = effects_table(one, names) if of == "effects" else paper_table(one, names, spread)
    return table, f"tab:{one.study.name}"


def figure_of(found: Mapping[str, Findings], width: float | None) -> Plot:
    """The forest plot of the findings on each dataset. `width`: in inches."""
    return forest_plot(found if is_across(found) else {"": next(iter(found.values()))}, width)


def paper_table(findings: Findings, names: Sequence[str] | None, spread: Spread | None = None) -> Table:
    """The columns with these names, one row for each variant; None: what compares the variants.

    `spread`: what stands after ± of a mean. Raises `UserError` naming a column that there is none of, and those that
    there are.
    """
    metric, columns = findings.means.metric, _columns(findings)
    usual: list[Key] = [VARIANT, "n", ("metric", metric), "difference", "p", "verdict"]
    keys = chosen([VARIANT, *columns], names, usual)
    shown, fields = list[Column](), dict[Key, Value]({VARIANT: VARIANT})
    for key in keys:
        if key == VARIANT:
            shown += key_columns(findings.variants, link=False)
            fields |= variant_fields(findings.variants)
            continue
        column = columns[key]
        fields[key] = column.value
        if spread == "sd" and isinstance(key, tuple):
            column, more = _with_deviations(column, key, findings)
            fields |= more
        mark = column.mark if key == ("metric", metric) else None
        shown.append(replace(column, link=None, mark=mark, detail=False))
    notes = [f"{column.label}: {column.note}." for column in shown if column.field == "p_target"]
    return Table("variants", " ".join([_caption(findings, keys, spread), *notes]), findings.rows, tuple(shown), fields)


def effects_table(findings: Findings, names: Sequence[str] | None) -> Table:
    """A row for each difference of two levels of a factor. Raises `UserError` where effects are not tested."""
    model, metric, factors = findings.factors.model, findings.means.metric, findings.variants.factors
    if model is None:
        reason = findings.factors.skipped_reason.replace("factors: ", "") or "it needs a grid of two factors or more"
        raise UserError(f"--of: effects of factors are not tested: {reason}")
    columns: dict[Key, Column] = {
        "factor": Column("factor", lambda row: factors[row["factor"]], key=True),
        "from": Column("from", "reference", key=True),
        "to": Column("to", "level", key=True),
        "difference": signed_column(metric, "difference [interval]", "adjusted"),
        "verdict": Column("verdict", "verdict"),
        "p": Column("p (adjusted)", "p_adjusted", words.p_values),
    }
    keys = chosen(columns, names, [*columns][:-1])
    seeds = words.seeds((mean.n for mean in findings.means.of_variants.values()), findings.counted)
    caption = (
        f"{words.titled(metric)}: effect of each factor, averaged over the other factors, {seeds}. Differences have "
        f"{words.CONFIDENCE} intervals for all effects and all pairs of variants together (Bonferroni)."
    )
    fields: dict[Key, Value] = {key: columns[key].value for key in keys}
    return Table("effects", caption, model.contrasts.to_dict("records"), tuple(columns[key] for key in keys), fields)


def _columns(findings: Findings) -> dict[Key, Column]:
    """The columns of the report's tables of variants that have a name."""
    tables = [variants_table(findings), metrics_table(findings), cost_table(findings)]
    baseline = baseline_name(findings.variants)
    known = dict[Key, Column]()
    for column in (column for table in tables for column in table.columns if column.field):
        known.setdefault(column.field, column)
    shown = replace(known["difference"], value=_tested_difference)
    if len(words.without_math(baseline)) > SHORT_NAME:
        shown = replace(shown, label=shown.label.replace(f" from {baseline}", ""))
    return known | {"difference": shown} | _of_others(findings)


def _of_others(findings: Findings) -> dict[Key, Column]:
    """The means of the columns of numbers that a user's table has beside its metric."""
    return {("column", name): _mean_of(name, findings) for name in findings.study.others}


def _mean_of(name: str, findings: Findings) -> Column:
    means = {variant: verdicts.means([own])[0] for variant, own in _values(("column", name), findings).items()}
    show = words.intervals(Metric(name, "higher"))
    return Column(name, lambda row: means.get(row.variant, UNKNOWN), show, ("column", name))


def _values(key: tuple[str, str], findings: Findings) -> dict[str, list[float]]:
    """Variant -> what its finished runs have in a column."""
    runs, (kind, name) = findings.study.of("finished"), key
    values = runs[name].to_numpy() if kind == "metric" else findings.study.others[name].reindex(runs["run"]).to_numpy()
    return pd.Series(values, dtype=float).groupby(runs["variant"].to_numpy()).agg(list).to_dict()


def _tested_difference(row: VariantRow) -> Estimate:
    return UNKNOWN if row.comparison.verdict == NOT_TESTED else difference(row)


def _with_deviations(column: Column, key: tuple[str, str], findings: Findings) -> tuple[Column, dict[Key, Value]]:
    """The column of means with the standard deviation of the runs for the interval, and its fields in CSV."""
    kind, name = key
    deviations = {variant: float(moments(own)[1]) for variant, own in _values(key, findings).items()}

    def mean(row: VariantRow) -> float:
        return float(column.value(row).value) if callable(column.value) else math.nan

    def sd(row: VariantRow) -> float:
        return deviations.get(row.variant, math.nan)

    metric = Metric(name, "higher" * (kind == "column"))
    shown = replace(column, value=lambda row: (mean(row), sd(row)), sort=mean, show=words.deviations(metric))
    return shown, {key: mean, (kind, f"{name}_sd"): sd}


def _caption(findings: Findings, keys: Sequence[Key], spread: Spread | None) -> str:
    """How many seeds there are, what ± and the marks mean, and the test with its adjustment."""
    metric, variants, policy = findings.means.metric, findings.variants, findings.policy
    after = "standard deviation of the runs" if spread == "sd" else f"{words.CONFIDENCE} interval (Student's t)"
    tests = "paired t tests" if policy.variance == "paired" else "t tests with the spread of all variants"
    look = ", at the level of the planned look" if policy.looks.several else ""
    baseline, tested = variants.name(variants.baseline), any(c.tested for c in findings.comparisons.family.values())
    compared = tested and {"difference", "p", "verdict"} & {*keys}
    seeds = words.seeds((mean.n for mean in findings.means.of_variants.values()), findings.counted)
    parts = [f"{words.titled(metric)}: mean and {after}, {seeds}."]
    if ("metric", metric) in keys:
        parts.append(mark_note(findings))
    if compared:
        held = f"{words.CONFIDENCE} intervals for all pairs together (Bonferroni{look}; {tests})"
        parts.append(f"Differences from {baseline} have {held}.")
    if "difference" in keys and any(row.comparison.verdict == NOT_TESTED for row in findings.rows):
        parts.append(f"Variants that are not tested against {baseline} have no difference.")
    return " ".join(filter(None, parts))


def check_files(table: Path | None, figure: Path | None, label: str | None, caption: str | None) -> None:
    """Raise `UserError` for a file of another type, and a label that LaTeX or the table does not take."""
    for flag, file in (("table", table), ("figure", figure)):
        if file and file.suffix not in (endings := ENDINGS[flag]):
            allowed = f"expected a file that ends with {', '.join(endings)}"
            raise UserError(f"--{flag}: {str(file)!r} is not allowed: {allowed}")
    if table and label is not None and (table.suffix != ".tex" or caption == ""):
        raise UserError(f"--label: {label!r} is not allowed: only a .tex file with a caption has a label")
    if label is not None and (not label or LABEL.search(label)):
        raise UserError(f"--label: {label!r} is not allowed: expected letters, digits and any of : . _ -")


def in_latex(table: Table, label: str, caption: str | None) -> str:
    """The table as LaTeX. `label`: without characters that LaTeX does not take. `caption`: see `latex.table`."""
    caption = caption and words.checked_math(caption, "caption")
    return latex.table(table, LABEL.sub("-", label), caption)


def write_table(table: Table, file: Path, label: str, caption: str | None = None) -> None:
    """Write the table as the file's ending says, in place of one with the same first line. Raises `UserError`.

    `label` and `caption`: see `in_latex`.
    """
    if file.suffix == ".tex":
        body = in_latex(table, label, caption)
        if (inches := latex.laid_out(table)[1]) > max(latex.LINES):
            say(f"vit-report: {file} needs a line of {inches:.1f} inches; name fewer --columns", error=True)
    else:
        said = table.caption if caption is None else words.without_math(words.checked_math(caption, "caption"))
        body = table.csv() if file.suffix == ".csv" else f"{markdown.table(table)}\n{markdown.escaped(said)}\n"
    first = body.encode().partition(b"\n")[0]
    if file.exists() and read_bytes(file).partition(b"\n")[0] != first:
        raise UserError(f"--table: {str(file)!r} does not begin as this table does; delete it, or give another file")
    _write(file, body.encode())


def write_figure(plot: Plot, file: Path) -> None:
    """Write the figure as the file's ending says, in place of one that this program wrote. Raises `UserError`."""
    if file.exists() and CREATOR.encode() not in read_bytes(file):
        raise UserError(f"--figure: {str(file)!r} is no figure of vit-report; delete it, or give another file")
    _write(file, files.saved(plot, file.suffix[1:], CREATOR))


def _write(file: Path, body: bytes) -> None:
    old = file.exists()
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, body)
    if old:
        say(f"vit-report: replaced {file}", error=True)
