"""What a study calls its variants: their order, short names, factor levels and anchors."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.runs.runs import Runs, factor_levels
from analysis.words import factor_name, level_name
from experiments.metric import Metric


@dataclass(frozen=True)
class Variants:
    """All that a table, figure or sentence needs to name a variant."""

    names: list[str]
    """every planned variant, in the plan's order"""
    baseline: str
    metric: Metric
    margin: float | None
    brief: dict[str, str]
    """variant -> its levels, numbers with the name of the factor (`none, depth = 2`); its name where these are
    ambiguous
    """
    factors: dict[str, str]
    """factor -> what the study calls it"""
    levels: pd.DataFrame | None
    """the grid of a study of several factors: a row for each variant, a column for each factor, levels as text; None
    where the levels are unknown or do not identify the variants"""

    @property
    def others(self) -> list[str]:
        """Every variant but the baseline."""
        return [variant for variant in self.names if variant != self.baseline]

    def anchor(self, variant: str) -> str:
        """The link to a variant's runs. It holds the variant's number, since the name is the user's text."""
        return f"#runs-v{self.names.index(variant)}"


def study_variants(study: Runs) -> Variants:
    """The variants of a study."""
    names, factors = study.variants, {factor: factor_name(factor, study.names) for factor in study.factors}
    levels = _grid(study)
    return Variants(names, study.baseline, study.metric, study.margin, _brief(study, names, factors), factors, levels)


def _brief(study: Runs, variants: list[str], factors: dict[str, str]) -> dict[str, str]:
    heads = list(factors.values())
    if not heads:
        return {variant: variant for variant in variants}
    if len(heads) == 1:
        return {variant: level_name(heads[0], variant) for variant in variants}
    brief = names_by_levels(levels_by_variant(study), factors)
    return brief if len(set(brief.values())) == len(brief) else dict(zip(variants, variants))


def levels_by_variant(study: Runs) -> pd.DataFrame:
    """A row for each variant, a column for each factor."""
    runs = study.runs.drop_duplicates("variant").set_index("variant").reindex(study.variants)
    return pd.DataFrame({factor: factor_levels(runs, factor) for factor in study.factors}, index=study.variants)


def names_by_levels(levels: pd.DataFrame, factors: Mapping[str, str]) -> dict[str, str]:
    """Variant -> its levels as a name, by a row of levels for each variant.

    `factors`: factor -> what the study calls it.
    """
    heads = [factors[factor] for factor in levels]
    names = (", ".join(map(level_name, heads, map(str, row))) for row in levels.itertuples(index=False))
    return dict(zip(levels.index, names))


def has_grid(study: Runs) -> bool:
    """Whether the study plans every combination of two levels or more of two factors or more."""
    levels = levels_by_variant(study).fillna("none")
    numbers = levels.nunique()
    return len(numbers) > 1 and numbers.min() > 1 and len(levels.drop_duplicates()) == numbers.prod()


def _grid(study: Runs) -> pd.DataFrame | None:
    if len(study.factors) < 2:
        return None
    levels = levels_by_variant(study)
    unknown = levels.isna().any(axis=None) or (levels == "nan").any(axis=None)
    return None if unknown or levels.duplicated().any() else levels
