"""The results of a study in Python: what `analysis.compare` and `analysis.read` return."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape

from analysis.as_json import as_dict
from analysis.findings import Findings, analyze
from analysis.questions.results import variants_table
from analysis.report import headline, study_sections
from analysis.runs.runs import Runs
from analysis.words import plain
from analysis.write.table import Grid


@dataclass(frozen=True)
class Results(Findings):
    """The findings of a study, which a notebook shows as its answer and the table of variants."""

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: its variant, seed, status, metrics, cost and settings."""
        return self.study.runs

    @property
    def answer(self) -> str:
        """What the report says first, as text."""
        return "\n".join(headline(study_sections(self)))

    def as_dict(self) -> dict[str, object]:
        """What `vit-report --json` prints."""
        return as_dict(self)

    def _repr_html_(self) -> str:
        said = Markup("").join(Markup("<p>{}</p>").format(plain(text)) for text in headline(study_sections(self)))
        return f"{said}{_html(variants_table(self).shown().main)}"


def results(study: Runs) -> Results:
    """The results of a study. Raises `UserError` where no run has ended."""
    return Results(**vars(analyze(study)))


def _html(grid: Grid) -> Markup:
    """A table without styles: names to the left, numbers to the right."""
    align = ["right" if column.numeric else "left" for column in grid.columns]

    def row(tag: str, texts: Sequence[object]) -> Markup:
        cells = (f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>' for side, text in zip(align, texts))
        return Markup(f"<tr>{''.join(cells)}</tr>")

    bold = Markup("<b>{}</b>").format
    lines = [[(bold(cell.text) if cell.bold else cell.text) + cell.dagger for cell in line] for line in grid.rows]
    head = row("th", [column.label for column in grid.columns])
    return Markup("<table>{}{}</table>").format(head, Markup("").join(row("td", line) for line in lines))
