"""The results of a study in Python: what `analysis.compare` and `analysis.read` return."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.forest import plot_forest
from analysis.figures.style import Axes
from analysis.findings import Findings, analyze_each
from analysis.findings.columns import difference
from analysis.findings.conduct import record_looks
from analysis.options import ReportOptions, names_of
from analysis.outputs.across import document_of
from analysis.outputs.as_json import across_dict, as_dict
from analysis.outputs.paper_table import table_of
from analysis.questions.results import forests
from analysis.runs.by_dataset import by_dataset
from analysis.runs.runs import Runs
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


@dataclass(frozen=True, repr=False)
class Results:
    """The results of a study. Those on several datasets, whose pairs are one family, have the dataset in each frame."""

    found: dict[str, Findings]  # dataset -> its findings
    sources: tuple[Runs, ...]

    @property
    def studies(self) -> dict[str, "Results"]:
        """Dataset -> its results."""
        return {name: Results({name: findings}, (findings.study,)) for name, findings in self.found.items()}

    @property
    def findings(self) -> Findings:
        """Those of the study, or on the first dataset."""
        return next(iter(self.found.values()))

    @cached_property
    def _document(self) -> Document:
        return document_of(self.found, self.sources)

    @property
    def answer(self) -> str:
        """What the report says first, as text."""
        return "\n".join(self._document.headline)

    @property
    def warnings(self) -> list[str]:
        """What the report warns of."""
        return [warning.text for warning in self._document.warnings]

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: what is known of its variant, seed, status, metrics, cost and settings."""
        return self._frame(lambda findings: findings.runs.loc[:, (findings.runs.notna() & (findings.runs != "")).any()])

    @property
    def table(self) -> pd.DataFrame:
        """A row for each variant, in the unit of the metric: its mean, and its difference from the baseline.

        The intervals of differences hold for all pairs together. `rank`: the possible places, such as "1 to 2".
        """
        return self._frame(lambda findings: _data(findings.rows, FIELDS).set_index("variant"))

    @property
    def pairs(self) -> pd.DataFrame:
        """A row for each pair (variant, reference) in both orders: the difference variant - reference, its adjusted
        interval, n, adjusted p, verdict and reason.
        """

        def both(findings: Findings) -> pd.DataFrame:
            turned = [replace(row, a=row.b, b=row.a, comparison=row.comparison.reversed) for row in findings.pairs]
            return _data([*findings.pairs, *turned], PAIR_FIELDS).set_index(["variant", "reference"])

        return self._frame(both)

    @property
    def effects(self) -> pd.DataFrame:
        """A row for each effect of the factors of a grid, with its adjusted interval; empty without a grid."""

        def of_factors(findings: Findings) -> pd.DataFrame:
            model = findings.factors.model
            return _data(model.effects, EFFECT_FIELDS) if model else pd.DataFrame()

        return self._frame(of_factors)

    def _frame(self, of: Callable[[Findings], pd.DataFrame]) -> pd.DataFrame:
        frames = {name: of(findings) for name, findings in self.found.items()}
        return pd.concat(frames, names=["dataset"]) if len(frames) > 1 else next(iter(frames.values()))

    def to_latex(self, columns: Sequence[str] | None = None, rename: Any = ()) -> str:
        """What `vit-report --table FILE.tex` writes; see its flags. `rename`: {"OLD": "NEW"}."""
        options = ReportOptions.of_flags(Namespace(rename=rename or None), "")
        datasets = self.findings.policy.datasets
        found = analyze_each({name: findings.study for name, findings in self.found.items()}, options, datasets)
        return latex.table(table_of(found, None if columns is None else names_of(columns)))

    def plot(self, ax: Axes | None = None, width: float = 6.5) -> Axes:
        """Draw the forest plot and return its axes. `ax`: the axes to draw on; `width`: of a new figure, in inches."""
        return plot_forest(forests(self.found if len(self.found) > 1 else {"": self.findings}), width, ax)

    def page(self, folder: str | Path) -> Path:
        """Write the report into a new folder, as `vit-report` does, note the look, and return the path of its page."""
        page = files.write(files.make(document_of(self.found, self.sources)), Path(folder))
        record_looks(self.sources)
        return page

    def as_dict(self) -> dict[str, Any]:
        """What `vit-report --json` prints."""
        return across_dict(self.found) if len(self.found) > 1 else as_dict(self.findings)

    def __repr__(self) -> str:
        return f"{self.answer}\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<p>{files.escape(self.answer)}</p>{self.table.to_html()}"


def results(studies: Sequence[Runs]) -> Results:
    """The results of studies, or of one on several datasets. Raises `UserError` where no run has ended."""
    return Results(analyze_each(by_dataset(studies)), tuple(studies))


def _data(rows: Sequence[Any], fields: Mapping[Key, Value]) -> pd.DataFrame:
    return Table("", "", rows, (), fields).data
