"""The results of a study in Python: what `analysis.compare` and `analysis.read` return."""

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from analysis.asked import Asked, TableOf, names_of
from analysis.figures.style import Drawing
from analysis.findings import Findings, analyze_each
from analysis.findings.columns import difference, verdict_text
from analysis.findings.conduct import record_looks
from analysis.outputs.as_json import warning_texts
from analysis.outputs.paper_table import figure_of, in_latex, table_of
from analysis.report import study_document
from analysis.runs.by_dataset import by_dataset
from analysis.runs.runs import Runs
from analysis.studies.over_studies import across_document
from analysis.verdicts import Comparison
from analysis.verdicts.comparisons import Pair
from analysis.words import places_range, plain, with_interval
from analysis.write import files
from analysis.write.document import Document
from analysis.write.table import Grid, Key, Shown, Table, Value
from experiments.errors import UserError
from experiments.metric import Metric
from vit.registry import nearest

MOST_LINES = 10  # of a text
DIGITS = "{:.5g}".format
IN_DATA = Metric("", "higher")  # shows numbers in the unit of the data
FIELDS: dict[Key, Value] = {
    "variant": "variant",
    **{"mean": "mean.value", "low": "mean.low", "high": "mean.high", "n": "mean.n"},
    **{"difference": difference, "verdict": "comparison.verdict", "rank": lambda row: places_range(row.rank)},
}
"""What the table of results holds of a variant."""


class Frame(pd.DataFrame):
    """A frame that prints few digits; its values have all."""

    @property
    def _constructor(self) -> type["Frame"]:
        return Frame

    def __repr__(self) -> str:
        with pd.option_context("display.float_format", DIGITS):
            return super().__repr__()

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.float_format", DIGITS):
            return super()._repr_html_()


@dataclass(frozen=True, kw_only=True, repr=False)
class Difference(Comparison):
    """The comparison of two variants, which its text names: `sam - adamw: +0.017 [0.004, 0.030], better`."""

    of: Pair

    def __repr__(self) -> str:
        size = with_interval(self.adjusted, IN_DATA, signed=True).replace("[+", "[").replace(", +", ", ")
        return f"{' - '.join(self.of)}: {f'{size}, ' * self.tested}{verdict_text(self)}"

    @property
    def reversed(self) -> "Difference":
        return replace(super().reversed, of=(self.of[1], self.of[0]))


class UnknownPair(UserError, KeyError):
    """Two variants that are not compared."""

    __str__ = ValueError.__str__


class Pairs(Mapping[Pair, Comparison]):
    """The comparisons of a study in either order: (a, b) -> a - b. Iteration gives each pair once."""

    def __init__(self, family: Mapping[Pair, Comparison]) -> None:
        self._family = family

    def __getitem__(self, pair: Pair) -> Difference:
        if pair in self._family:
            return Difference(**vars(self._family[pair]), of=pair)
        if isinstance(pair, tuple) and pair[::-1] in self._family:
            return self[pair[::-1]].reversed
        known = list(dict.fromkeys(variant for both in self._family for variant in both))
        unknown = [name for name in (pair if isinstance(pair, tuple) else (pair,)) if name not in known]
        why = f"{unknown[0]!r} is not a variant; {nearest(str(unknown[0]), known)}" if unknown else "is not compared"
        raise UnknownPair(f"pairs: {why}" if unknown else f"pairs: {pair} {why}")

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._family)

    def __len__(self) -> int:
        return len(self._family)

    def __repr__(self) -> str:
        more = f"... {len(self)} pairs" * (len(self) > MOST_LINES)
        return "\n".join([*(repr(self[pair]) for pair in islice(self, MOST_LINES)), more]).rstrip()


class _Shown(ABC):
    """What a notebook shows as its answer and a table.

    Two are equal where their reports have the same answer, warnings and tables.
    """

    table: Any

    @property
    @abstractmethod
    def _found(self) -> dict[str, Findings]:
        """Dataset -> its findings."""

    @abstractmethod
    def _made(self) -> Document:
        """The report."""

    @cached_property
    def _document(self) -> Document:
        return self._made()

    @cached_property
    def _said(self) -> tuple[str, ...]:
        document = self._document
        return *document.headline, *self.warnings, *(table.csv() for table in document.tables)

    @property
    def answer(self) -> str:
        """What the report says first, as text."""
        return "\n".join(self._document.headline)

    @property
    def warnings(self) -> list[str]:
        """What the report warns of."""
        return warning_texts(self._document.warnings)

    def to_latex(
        self,
        columns: Sequence[str] | None = None,
        label: str = "",
        caption: str | None = None,
        rename: Any = (),
        of: TableOf | None = None,
    ) -> str:
        """What `vit-report --table FILE.tex` writes; see its flags. `rename`: {"OLD": "NEW"}."""
        table, usual = table_of(_renamed(self._found, rename), None if columns is None else names_of(columns), of=of)
        return in_latex(table, label or usual, caption)

    def plot(self, width: float | None = None) -> Drawing:
        """The forest plot: a figure of Matplotlib, which can be changed and saved. `width`: in inches."""
        return figure_of(self._found, width).figure

    def page(self, folder: str | Path) -> Path:
        """Write the report into a new folder, as `vit-report` does, note the look, and return the path of its page."""
        page = files.write(files.make(self._made()), Path(folder))
        record_looks(findings.study for findings in self._found.values())
        return page

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    def __repr__(self) -> str:
        return _text(self.answer, self.table)

    def _repr_html_(self) -> str:
        table, _ = table_of(self._found, None, typed=False)
        above, below = (
            Markup("").join(map(Markup("<p>{}</p>").format, map(plain, texts)))
            for texts in (self._document.headline, [table.caption])
        )
        return above + _html(table.shown()) + below


@dataclass(frozen=True, eq=False, repr=False)
class Results(_Shown):
    """The results of a study."""

    findings: Findings

    @property
    def _found(self) -> dict[str, Findings]:
        return {self.findings.dataset: self.findings}

    def _made(self) -> Document:
        return study_document(self.findings)

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: what is known of its variant, seed, status, metrics, cost and settings."""
        runs = Frame(self.findings.runs)
        return runs.loc[:, (runs.notna() & (runs != "")).any()]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each variant, in the unit of the metric: its mean, and its difference from the baseline.

        The intervals of differences hold for all pairs together. `rank`: the possible places, such as "1 to 2".
        """
        return Frame(Table("variants", "", self.findings.rows, (), FIELDS).data).set_index("variant")

    @property
    def pairs(self) -> Pairs:
        """(a, b) -> the comparison a - b, in either order."""
        return Pairs(self.findings.comparisons.family)


@dataclass(frozen=True, eq=False, repr=False)
class ResultsByDataset(_Shown):
    """The results on each dataset, whose pairs are one family."""

    studies: dict[str, Results]
    sources: tuple[Runs, ...]

    @property
    def _found(self) -> dict[str, Findings]:
        return {name: part.findings for name, part in self.studies.items()}

    def _made(self) -> Document:
        return across_document(self._found, self.sources)

    @property
    def table(self) -> pd.DataFrame:
        """The table of each dataset, see `Results`."""
        return pd.concat({name: part.table for name, part in self.studies.items()}, names=["dataset"])

    @property
    def runs(self) -> pd.DataFrame:
        """The runs of each dataset, see `Results`."""
        return pd.concat({name: part.runs for name, part in self.studies.items()}, names=["dataset"])

    @property
    def pairs(self) -> dict[str, Pairs]:
        """Dataset -> (a, b) -> the comparison a - b, in either order."""
        return {name: part.pairs for name, part in self.studies.items()}


def results(studies: Sequence[Runs]) -> Results | ResultsByDataset:
    """The results of studies, or of one on several datasets. Raises `UserError` where no run has ended."""
    parts = by_dataset(studies)
    found = {name: Results(findings) for name, findings in analyze_each(parts).items()}
    return found.popitem()[1] if len(parts) == 1 else ResultsByDataset(found, tuple(studies))


def _renamed(found: dict[str, Findings], rename: Any) -> dict[str, Findings]:
    """The findings on each dataset with other names, see the flag --rename."""
    if not rename:
        return found
    asked = Asked.of_flags(Namespace(rename=rename), "")
    datasets = max(findings.policy.strictness for findings in found.values())
    return analyze_each({name: findings.study for name, findings in found.items()}, asked, datasets)


def _text(answer: str, table: pd.DataFrame) -> str:
    """The answer, and as many rows of the table as fit in `MOST_LINES`."""
    rows = max(MOST_LINES - len(answer.splitlines()) - 2, 2)
    shown = table.reset_index().to_string(index=False, max_rows=rows, float_format=DIGITS, na_rep="")
    return f"{answer}\n{shown}"


def _html(grid: Grid) -> Markup:
    """A table without styles: names to the left, numbers to the right."""
    align = ["right" if column.numeric else "left" for column in grid.columns]

    def row(tag: str, texts: Sequence[object]) -> Markup:
        cells = (f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>' for side, text in zip(align, texts))
        return Markup(f"<tr>{''.join(cells)}</tr>")

    bold = Markup("<b>{}</b>").format

    def text(cell: Shown) -> Markup:
        return Markup(" ").join(filter(None, [(bold(cell.text) if cell.bold else cell.text) + cell.dagger, cell.sign]))

    lines = [[*map(text, line)] for line in grid.rows]
    head = row("th", [column.label for column in grid.columns])
    return Markup("<table>{}{}</table>").format(head, Markup("").join(row("td", line) for line in lines))
