"""A table for a paper: the columns that the user names, the best mean in bold, and a caption that says all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import baseline_name, difference, held_for, key_columns, mark_note, variant_fields
from analysis.findings.rows import VariantRow
from analysis.options import Spread
from analysis.questions.cost import cost_table
from analysis.questions.metrics import metrics_table
from analysis.questions.results import variants_table
from analysis.verdicts import UNKNOWN, Estimate
from analysis.verdicts.comparisons import NOT_TESTED
from analysis.write import latex, markdown
from analysis.write.table import Column, Key, Table, Value, chosen
from experiments.errors import UserError, say, writing
from experiments.files import read_bytes, write_bytes
from experiments.metric import Metric

SHORT_NAME = 11  # characters of the baseline's name up to which the head of the differences has it
VARIANT = "variant"


def table_of(
    found: Mapping[str, Findings], names: Sequence[str] | None, spread: Spread | None = None, typed: bool = True
) -> Table:
    """The table of the findings on each dataset. `typed`: with the names as they are typed."""
    shown = {name: findings.as_typed if typed else findings for name, findings in found.items()}
    if len(found) > 1:
        from analysis.outputs.across import studies_table

        return studies_table(shown, names, spread)
    (findings,) = shown.values()
    return paper_table(findings, names, spread)


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
            column, fields["metric", f"{key[1]}_sd"] = _with_deviations(column, Metric(key[1]), findings)
        mark = column.mark if key == ("metric", metric) else None
        shown.append(replace(column, link=None, mark=mark, detail=False))
    return Table("variants", _caption(findings, keys, spread), findings.rows, tuple(shown), fields)


def _columns(findings: Findings) -> dict[Key, Column]:
    """The columns of the report's tables of variants that have a name."""
    tables = [variants_table(findings), metrics_table(findings), cost_table(findings)]
    baseline = baseline_name(findings.variants)
    columns = dict[Key, Column]()
    for column in (column for table in tables for column in table.columns if column.field):
        columns.setdefault(column.field, column)

    def tested(row: VariantRow) -> Estimate:
        return UNKNOWN if row.comparison.verdict == NOT_TESTED else difference(row)

    shown = replace(columns["difference"], value=tested, math=findings.variants.labelled)
    if len(words.without_math(baseline)) > SHORT_NAME:
        shown = replace(shown, label=shown.label.replace(f" from {baseline}", ""))
    return columns | {"difference": shown}


def _with_deviations(column: Column, metric: Metric, findings: Findings) -> tuple[Column, Value]:
    """The column of means with the standard deviation of the runs for the interval, and that of a row."""
    means, deviations = findings.means.by_metric[metric], findings.means.deviations[metric]

    def both(row: VariantRow) -> tuple[float, float]:
        return means[row.variant].value, deviations[row.variant]

    show = words.deviations(metric)
    return replace(column, value=both, sort=lambda row: both(row)[0], show=show), lambda row: both(row)[1]


def _caption(findings: Findings, keys: Sequence[Key], spread: Spread | None) -> str:
    """How many seeds there are, what ± and the marks mean, and the test with its adjustment."""
    metric, variants, policy = findings.means.metric, findings.variants, findings.policy
    after = "standard deviation of the runs" if spread == "sd" else f"{words.CONFIDENCE} interval (Student's t)"
    tests = "paired t tests" if policy.variance == "paired" else "t tests with the spread of all variants"
    baseline, tested = variants.name(variants.baseline), any(c.tested for c in findings.comparisons.family.values())
    compared = tested and {"difference", "p", "verdict"} & {*keys}
    seeds = words.seeds((mean.n for mean in findings.means.of_variants.values()), findings.counted)
    parts = [f"{words.titled(metric)}: mean and {after}, {seeds}."]
    if ("metric", metric) in keys:
        parts.append(mark_note(findings))
    if compared:
        held = f"{words.CONFIDENCE} intervals for {held_for(findings)} (Bonferroni; {tests})"
        parts.append(f"Differences from {baseline} have {held}.")
    if "difference" in keys and any(row.comparison.verdict == NOT_TESTED for row in findings.rows):
        parts.append(f"Variants that are not tested against {baseline} have no difference.")
    return " ".join(filter(None, parts))


def write_table(table: Table, file: Path) -> None:
    """Write the table as the file's ending says. Raises `UserError` for a file that does not begin as a table of ours:
    a .tex by its comment, the others by their head.
    """
    if file.suffix == ".tex":
        body = latex.table(table)
    else:
        body = table.csv() if file.suffix == ".csv" else f"{markdown.table(table)}\n{markdown.escaped(table.caption)}\n"
    first, old = body.encode().partition(b"\n")[0], file.exists()
    if old and read_bytes(file).partition(b"\n")[0] != first:
        raise UserError(f"--table: {str(file)!r} does not begin as this table does; delete it, or give another file")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, body.encode())
    if old:
        say(f"vit-report: replaced {file}", error=True)
