"""The tables of a report that have a row for each variant, and what a table shows."""

from analysis.report.sections import cost, differences, metrics, variants
from analysis.report.sections.claims import probe_columns


def main_table(results):
    parts = (results.variants, results.means, results.comparisons, results.cost, results.conduct, results.policy)
    return variants.variants_table(*parts, probe_columns(results.published.expected, results.means))


def baseline_table(results):
    return differences.baseline_table(results.variants, results.comparisons, results.policy)


def pairs_table(results):
    return differences.pairs_table(results.variants, results.comparisons)


def cost_table(results):
    return cost.cost_table(results.variants, results.cost)


def metrics_table(results):
    return metrics.metrics_table(results.variants, results.means, results.conduct)


def spread_table(results):
    return metrics.spread_table(results.variants, results.means)


def cells(table):
    """A row of the table -> the label of a column -> its cell. Columns without a text in any row are left out."""
    columns, rows = table.shown()
    return [{column.label: cell for column, cell in zip(columns, row, strict=True)} for row in rows]


def texts(table):
    return [{label: cell.text for label, cell in row.items()} for row in cells(table)]
