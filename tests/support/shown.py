"""What a table shows, for tests."""

from analysis.write.table import Table


def texts(table: Table) -> list[list[str]]:
    """The texts of the cells, row by row; columns that hold no text are left out."""
    return [[cell.text for cell in row] for row in table.shown().rows]


def rows(table: Table) -> list[dict[str, str]]:
    """The rows of a table: label of the column -> text of the cell."""
    labels = [column.label for column in table.shown().columns]
    return [dict(zip(labels, row, strict=True)) for row in texts(table)]
