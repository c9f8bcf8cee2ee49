"""The results of a study in Python: what `analysis.compare` and `analysis.read` return."""

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.asked import Asked, names_of
from analysis.figures.style import Axes
from analysis.findings import Findings, analyze_each
from analysis.findings.columns import difference
from analysis.findings.conduct import record_looks
from analysis.outputs.as_json import across_dict, as_dict, warning_texts
from analysis.outputs.paper_table import table_of
from analysis.questions.results import forest_plot
from analysis.report import study_document
from analysis.runs.by_dataset import by_dataset
from analysis.runs.runs import Runs
from analysis.studies.over_studies import across_document
from analysis.words import places_range
from analysis.write import files, latex
from analysis.write.document import Document
from analysis.write.table import Key, Table, Value

FIELDS: dict[Key, Value] = {
    "variant": "variant",
    **{"mean": "mean.value", "low": "mean.low", "high": "mean.high", "n": "mean.n"},
    **{"difference": difference, "verdict": "comparison.verdict", "rank": lambda row: places_range(row.rank)},
}
"""What the table of results holds of a variant."""
PAIR_FIELDS: dict[Key, Value] = {
    **{"variant": "a.variant", "reference": "b.variant", "difference": "comparison.adjusted", "n": "comparison.n"},
    **{"p": "comparison.p_adjusted", "verdict": "comparison.verdict", "reason": "comparison.reason"},
}
"""What the table of pairs holds."""


EFFECT_FIELDS: dict[Key, Value] = {
    **{"factor": "term", "level": "level", "reference": "reference"},
    **{end: f"adjusted.{end}" for end in ("value", "low", "high")},
    **{"p": "p_adjusted", "verdict": "verdict"},
}
"""What the table of effects holds."""


class _Results(ABC):
    """What results on one dataset and on several have."""

    table: pd.DataFrame

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

    @property
    def answer(self) -> str:
        """What the report says first, as text."""
        return "\n".join(self._document.headline)

    @property
    def warnings(self) -> list[str]:
        """What the report warns of."""
        return warning_texts(self._document.warnings)

    def to_latex(self, columns: Sequence[str] | None = None, rename: Any = ()) -> str:
        """What `vit-report --table FILE.tex` writes; see its flags. `rename`: {"OLD": "NEW"}."""
        return latex.table(table_of(_renamed(self._found, rename), None if columns is None else names_of(columns)))

    def plot(self, ax: Axes | None = None, width: float = 6.5) -> Axes:
        """Draw the forest plot and return its axes. `ax`: the axes to draw on; `width`: of a new figure, in inches."""
        return forest_plot(self._found, width).drawn_on(ax)

    def page(self, folder: str | Path) -> Path:
        """Write the report into a new folder, as `vit-report` does, note the look, and return the path of its page."""
        page = files.write(files.make(self._made()), Path(folder))
        record_looks(findings.study for findings in self._found.values())
        return page

    def __repr__(self) -> str:
        return f"{self.answer}\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<p>{files.escape(self.answer)}</p>{self.table.to_html()}"


@dataclass(frozen=True, repr=False)
class Results(_Results):
    """The results of a study."""

    findings: Findings

    @property
    def _found(self) -> dict[str, Findings]:
        return {"": self.findings}

    def _made(self) -> Document:
        return study_document(self.findings)

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: what is known of its variant, seed, status, metrics, cost and settings."""
        runs = self.findings.runs
        return runs.loc[:, (runs.notna() & (runs != "")).any()]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each variant, in the unit of the metric: its mean, and its difference from the baseline.

        The intervals of differences hold for all pairs together. `rank`: the possible places, such as "1 to 2".
        """
        return Table("variants", "", self.findings.rows, (), FIELDS).data.set_index("variant")

    @property
    def pairs(self) -> pd.DataFrame:
        """A row for each pair (variant, reference) in both orders: the difference variant - reference, its adjusted
        interval, n, adjusted p, verdict and reason.
        """
        turned = [replace(row, a=row.b, b=row.a, comparison=row.comparison.reversed) for row in self.findings.pairs]
        rows = Table("pairs", "", [*self.findings.pairs, *turned], (), PAIR_FIELDS).data
        return rows.set_index(["variant", "reference"])

    @property
    def effects(self) -> pd.DataFrame:
        """A row for each effect of the factors of a grid, with its adjusted interval; empty without a grid."""
        model = self.findings.factors.model
        if model is None:
            return pd.DataFrame()
        return Table("effects", "", model.effects, (), EFFECT_FIELDS).data

    def as_dict(self) -> dict[str, Any]:
        """What `vit-report --json` prints."""
        return as_dict(self.findings)


@dataclass(frozen=True, repr=False)
class ResultsByDataset(_Results):
    """The results on each dataset, whose pairs are one family."""

    studies: dict[str, Results]
    sources: tuple[Runs, ...]

    @property
    def _found(self) -> dict[str, Findings]:
        return {name: part.findings for name, part in self.studies.items()}

    def _made(self) -> Document:
        return across_document(self._found, self.sources)

    def _frames(self, name: str) -> pd.DataFrame:
        return pd.concat({dataset: getattr(part, name) for dataset, part in self.studies.items()}, names=["dataset"])

    @property
    def table(self) -> pd.DataFrame:
        """The table of each dataset, see `Results`."""
        return self._frames("table")

    @property
    def runs(self) -> pd.DataFrame:
        """The runs of each dataset, see `Results`."""
        return self._frames("runs")

    @property
    def pairs(self) -> pd.DataFrame:
        """The pairs of each dataset, see `Results`."""
        return self._frames("pairs")

    def as_dict(self) -> dict[str, Any]:
        """What `vit-report --json` prints."""
        return across_dict(self._found)


def results(studies: Sequence[Runs]) -> Results | ResultsByDataset:
    """The results of studies, or of one on several datasets. Raises `UserError` where no run has ended."""
    parts = by_dataset(studies)
    found = {name: Results(findings) for name, findings in analyze_each(parts).items()}
    return found.popitem()[1] if len(parts) == 1 else ResultsByDataset(found, tuple(studies))


def _renamed(found: Mapping[str, Findings], rename: Any) -> Mapping[str, Findings]:
    """The findings on each dataset with other names, see the flag --rename."""
    if not rename:
        return found
    asked = Asked.of_flags(Namespace(rename=rename), "")
    datasets = max(findings.policy.datasets for findings in found.values())
    return analyze_each({name: findings.study for name, findings in found.items()}, asked, datasets)
