"""What a study calls its variants: their order, short names, factor levels and anchors."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from analysis.runs.runs import Runs
from analysis.words import checked_math, factor_name, level_name, quoted, without_math
from experiments.errors import UserError


@dataclass(frozen=True)
class Variants:
    """All that a table, figure or sentence needs to name a variant."""

    names: list[str]  # every planned variant, in the plan's order
    baseline: str
    brief: dict[str, str]
    """variant -> its levels, numbers with the name of the factor (`none, depth = 2`); its name if they are ambiguous"""
    typed: dict[str, str]  # the same for figures and LaTeX: math is between "$", as the user has typed it
    factors: dict[str, str]  # factor -> what the study calls it
    levels: pd.DataFrame | None
    """the grid of a study of several factors: a row for each variant, a column for each factor, levels as text; None
    where the levels are unknown or do not identify the variants"""
    labelled: bool = False  # whether the user has given them names

    @property
    def others(self) -> list[str]:
        """Every variant but the baseline."""
        return [variant for variant in self.names if variant != self.baseline]

    def name(self, variant: str) -> str:
        """The brief name of a variant in a sentence: in quotation marks if it has commas or spaces."""
        return quoted(self.brief[variant])


def study_variants(study: Runs, renamed: Mapping[str, str] = MappingProxyType({})) -> Variants:
    """The variants of a study. `renamed`: a variant or its brief name -> its name in tables and figures.

    Raises `UserError` for a name that two variants would have.
    """
    names, factors = study.variants, {factor: factor_name(factor, study.plan.names) for factor in study.factors}
    brief, own = _brief(study), own_names(study)
    labels = {**study.plan.labels, **{own[old]: new for old, new in renamed.items() if old in own}}
    labels = {variant: checked_math(label, "labels") for variant, label in labels.items() if variant in brief}
    typed = {variant: name.replace("$", r"\$") if labels else name for variant, name in brief.items()} | labels
    brief |= {variant: without_math(label) for variant, label in labels.items()}
    if len(set(brief.values())) < len(brief):
        raise UserError(f"--rename: two variants would have the same name: {', '.join(brief.values())}")
    grid = _grid(study)
    return Variants(names, study.baseline, brief, typed, factors, grid, bool(labels))


def own_names(study: Runs) -> dict[str, str]:
    """What the study itself calls a variant, in brief or in full -> the variant."""
    return {name: variant for variant, name in _brief(study).items()} | {name: name for name in study.variants}


def _brief(study: Runs) -> dict[str, str]:
    variants, factors = study.variants, {factor: factor_name(factor, study.plan.names) for factor in study.factors}
    heads = list(factors.values())
    if not heads or study.plan.one_change:
        return {variant: variant for variant in variants}
    if len(heads) == 1:
        return {variant: level_name(heads[0], variant) for variant in variants}
    levels = levels_by_variant(study)
    brief = {variant: ", ".join(map(level_name, heads, map(str, of))) for variant, *of in levels.itertuples()}
    return brief if len(set(brief.values())) == len(brief) else dict(zip(variants, variants))


def levels_by_variant(study: Runs) -> pd.DataFrame:
    """A row for each planned variant, a column for each factor."""
    return study.levels(study.factors).reindex(study.variants)


def _grid(study: Runs) -> pd.DataFrame | None:
    if len(study.factors) < 2 or study.plan.one_change:
        return None
    levels = levels_by_variant(study)
    unknown = levels.isna().any(axis=None) or (levels == "nan").any(axis=None)
    return None if unknown or levels.duplicated().any() else levels
