"""What a study calls its variants: their order, short names, factor levels and anchors."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.formatting import factor_name, level_name
from analysis.sources.runs_table import RunsTable, factor_levels
from experiments.metric import Metric


@dataclass(frozen=True)
class Variants:
    """All that a table, figure or sentence needs to name a variant."""

    names: list[str]
    """every planned variant, in the plan's order"""
    baseline: str
    metric: Metric
    margin: float
    brief: dict[str, str]
    """variant -> its levels, numbers with the name of the factor (`none, depth = 2`); its name where these are ambiguous"""
    factors: dict[str, str]
    """factor -> what the study calls it"""
    levels: pd.DataFrame | None
    """the grid of a study of several factors: a row for each variant, a column for each factor, levels as text; None where
    the levels are unknown or do not identify the variants"""

    @property
    def others(self) -> list[str]:
        """Every variant but the baseline."""
        return [variant for variant in self.names if variant != self.baseline]

    def brief_names(self, variants: list[str]) -> list[str]:
        """The brief names of these variants."""
        return [self.brief[variant] for variant in variants]

    def anchor(self, variant: str) -> str:
        """The link to a variant's runs. It holds the variant's number, since the name is the user's text."""
        return f"#runs-v{self.names.index(variant)}"


def study_variants(study: RunsTable) -> Variants:
    """The variants of a study."""
    names, factors = study.variants, {factor: factor_name(factor, study.names) for factor in study.factors}
    levels = _grid(study, names)
    return Variants(names, study.baseline, study.metric, study.margin, _brief(study, names, factors), factors, levels)


def _brief(study: RunsTable, variants: list[str], factors: dict[str, str]) -> dict[str, str]:
    heads = list(factors.values())
    if not heads:
        return {variant: variant for variant in variants}
    if len(heads) == 1:
        return {variant: level_name(heads[0], variant) for variant in variants}
    rows = _levels(study, variants).itertuples(index=False)
    brief = [", ".join(level_name(head, str(level)) for head, level in zip(heads, row)) for row in rows]
    return dict(zip(variants, brief if len(set(brief)) == len(brief) else variants))


def _levels(study: RunsTable, variants: list[str]) -> pd.DataFrame:
    """A row for each variant, a column for each factor."""
    runs = study.runs.drop_duplicates("variant").set_index("variant").reindex(variants)
    return pd.DataFrame({factor: factor_levels(runs, factor) for factor in study.factors}, index=variants)


def _grid(study: RunsTable, variants: list[str]) -> pd.DataFrame | None:
    if len(study.factors) < 2:
        return None
    levels = _levels(study, variants)
    unknown = levels.isna().any(axis=None) or (levels == "nan").any(axis=None)
    return None if unknown or levels.duplicated().any() else levels
