"""The results of a study in Python: what `analysis.compare` and `analysis.read` return."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape

from analysis.findings import Findings, analyze_each
from analysis.outputs.as_json import across_dict, as_dict
from analysis.questions.results import variants_table
from analysis.report import headline, study_sections
from analysis.runs.by_dataset import by_dataset
from analysis.runs.runs import Runs
from analysis.studies.over_studies import answer, studies_table
from analysis.words import plain
from analysis.write.table import Grid, Table


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
        return _shown(headline(study_sections(self)), variants_table(self))


@dataclass(frozen=True)
class ResultsByDataset:
    """The results on each dataset, whose pairs are one family; a notebook shows the answer and the table over them."""

    studies: dict[str, Results]

    @property
    def answer(self) -> str:
        """On how many datasets each variant is shown to differ from the baseline, as text."""
        return "\n".join(answer(self.studies))

    def as_dict(self) -> dict[str, object]:
        """What `vit-report --json` prints."""
        return across_dict(self.studies)

    def _repr_html_(self) -> str:
        return _shown(answer(self.studies), studies_table(self.studies))


def results(studies: Sequence[Runs]) -> Results | ResultsByDataset:
    """The results of studies, or of one on several datasets. Raises `UserError` where no run has ended."""
    parts = by_dataset(studies)
    found = {name: Results(**vars(findings)) for name, findings in analyze_each(parts).items()}
    return found.popitem()[1] if len(parts) == 1 else ResultsByDataset(found)


def _shown(said: Sequence[str], table: Table) -> str:
    """The answer and a table."""
    return Markup("").join(Markup("<p>{}</p>").format(plain(text)) for text in said) + _html(table.shown().main)


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
