"""The results of a study in Python: what `analysis.compare` and `analysis.read` return."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape

from analysis.findings import Findings, analyze_each
from analysis.outputs.as_json import across_dict, as_dict
from analysis.outputs.paper_table import in_latex, paper_table
from analysis.questions.results import variants_table
from analysis.report import headline, study_sections
from analysis.runs.by_dataset import by_dataset
from analysis.runs.runs import Runs
from analysis.studies.over_studies import answer, studies_table
from analysis.verdicts import UNKNOWN, Comparison
from analysis.verdicts.comparisons import Pair
from analysis.words import places_range, plain
from analysis.write.table import Grid, Table

MOST_LINES = 10  # of a text


class Pairs(Mapping[Pair, Comparison]):
    """The comparisons of a study in either order: (a, b) -> a - b. Iteration gives each pair once."""

    def __init__(self, family: Mapping[Pair, Comparison]) -> None:
        self._family = family

    def __getitem__(self, pair: Pair) -> Comparison:
        turned = pair[::-1]
        return self._family[turned].reversed if turned in self._family else self._family[pair]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._family)

    def __len__(self) -> int:
        return len(self._family)


@dataclass(frozen=True, repr=False)
class Results(Findings):
    """The findings of a study, which a notebook shows as its answer and the table of variants."""

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: what is known of its variant, seed, status, metrics, cost and settings."""
        runs = super().runs
        return runs.loc[:, (runs.notna() & (runs != "")).any()]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each variant, in the unit of the metric: its mean, and its difference from the baseline.

        The intervals of differences hold for all pairs together. `rank`: the possible places, such as "1-2".
        """
        ranks, rows = self.comparisons.ranks, {}
        for variant, mean in self.means.of_variants.items():
            one = self.comparisons.versus[variant]
            diff = UNKNOWN if one.verdict == "baseline" else one.adjusted
            rows[variant] = {
                **{"mean": mean.value, "low": mean.low, "high": mean.high, "n": mean.n, "difference": diff.value},
                **{"difference_low": diff.low, "difference_high": diff.high, "verdict": one.verdict},
                "rank": places_range(ranks.get(variant, ())),
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")

    @property
    def pairs(self) -> Pairs:
        """(a, b) -> the comparison a - b, in either order."""
        return Pairs(self.comparisons.family)

    def to_latex(self, columns: Sequence[str] | None = None, label: str = "", caption: str | None = None) -> str:
        """What `vit-report --table FILE.tex` writes; see its flags."""
        return in_latex(paper_table(self.for_latex, columns), label or f"tab:{self.study.name}", caption)

    def __repr__(self) -> str:
        return _text(self.answer, self.table)

    @property
    def answer(self) -> str:
        """What the report says first, as text."""
        return "\n".join(headline(study_sections(self)))

    def as_dict(self) -> dict[str, object]:
        """What `vit-report --json` prints."""
        return as_dict(self)

    def _repr_html_(self) -> str:
        return _shown(headline(study_sections(self)), variants_table(self))


@dataclass(frozen=True, repr=False)
class ResultsByDataset:
    """The results on each dataset, whose pairs are one family; a notebook shows the answer and the table over them."""

    studies: dict[str, Results]

    @property
    def answer(self) -> str:
        """On how many datasets each variant is shown to differ from the baseline, as text."""
        return "\n".join(answer(self.studies))

    @property
    def table(self) -> pd.DataFrame:
        """The table of each dataset, see `Results`."""
        return pd.concat({name: part.table for name, part in self.studies.items()}, names=["dataset"])

    def to_latex(self, label: str = "", caption: str | None = None) -> str:
        """What `vit-report --table FILE.tex` writes."""
        parts = {name: part.for_latex for name, part in self.studies.items()}
        return in_latex(studies_table(parts), label or "tab:across", caption)

    def __repr__(self) -> str:
        return _text(self.answer, self.table)

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


def _text(answer: str, table: pd.DataFrame) -> str:
    """The answer, and as many rows of the table as fit in `MOST_LINES`."""
    rows = max(MOST_LINES - len(answer.splitlines()) - 2, 2)
    shown = table.reset_index().to_string(index=False, max_rows=rows, float_format="{:.5g}".format, na_rep="")
    return f"{answer}\n{shown}"


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
