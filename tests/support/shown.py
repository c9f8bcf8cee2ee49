"""What a table shows, for tests."""

from __future__ import annotations

from analysis.report.table import Table


def texts(table: Table) -> list[list[str]]:
    """The texts of the cells, row by row; columns that hold no text are left out."""
    return [[cell.text for cell in row] for row in table.shown().rows]


def rows(table: Table) -> list[dict[str, str]]:
    """The rows of a table: label of the column -> text of the cell."""
    columns, rows = table.shown()
    return [{column.label: cell.text for column, cell in zip(columns, row)} for row in rows]


def marks(table: Table, label: str) -> list[str]:
    """The marks in a column."""
    columns, rows = table.shown()
    place = [column.label for column in columns].index(label)
    return [row[place].mark for row in rows]
