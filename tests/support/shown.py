"""What a report shows, for tests: the texts of a table, the answer, the warnings, a section."""

from collections.abc import Sequence

from analysis.findings import Findings
from analysis.report import headline, study_sections
from analysis.report import warnings as all_warnings
from analysis.write.document import Section
from analysis.write.table import Table


def texts(table: Table) -> list[list[str]]:
    """The texts of the cells, row by row; columns that hold no text are left out."""
    return [[cell.text for cell in row] for row in table.shown().rows]


def rows(table: Table) -> list[dict[str, str]]:
    """The rows of a table: label of the column -> text of the cell."""
    labels = [column.label for column in table.shown().columns]
    return [dict(zip(labels, row, strict=True)) for row in texts(table)]


def answer(findings: Findings) -> str:
    """The answer of a study's report, its paragraphs after each other."""
    return " ".join(headline(study_sections(findings)))


def warnings(findings: Findings) -> list[str]:
    """The warnings of a study's report, each with its detail."""
    return [f"{warning.line} {warning.detail}".strip() for warning in all_warnings(study_sections(findings))]


def section(findings: Findings, id: str) -> Section:
    """The section of a study's report with this id."""
    (section,) = (section for section in study_sections(findings) if section.id == id)
    return section


def contrast(a: Sequence[float], b: Sequence[float]) -> float:
    """WCAG 2's contrast ratio of two colours (red, green and blue from 0 to 1)."""

    def luminance(colour: Sequence[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, bright = sorted((luminance(a), luminance(b)))
    return (bright + 0.05) / (dark + 0.05)
