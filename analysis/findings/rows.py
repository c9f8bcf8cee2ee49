"""What is known of a variant and of a pair, made once: pages, papers, CSV, JSON and Python show parts of these rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.findings.comparisons import Comparisons
from analysis.findings.means import Means
from analysis.findings.variants import Variants
from analysis.verdicts import Comparison, Estimate
from analysis.verdicts.comparisons import NOT_TESTED

COUNTED = ("params", "params_fixed", "peak_memory_bytes")  # costs that are whole numbers
Mark = Literal["best", "tied", "untested", ""]
"""The best mean of those that are tested; not shown by a test to be worse than it; not tested against it; none."""


@dataclass(frozen=True)
class VariantRow:
    """What is known of a variant on a dataset."""

    variant: str
    name: str  # its brief name
    place: int  # in the plan's order
    dataset: str  # what a report on several calls it
    levels: Mapping[str, str]  # factor -> its level; empty where `Variants.levels` are unknown
    mean: Estimate
    comparison: Comparison  # with the baseline
    rank: tuple[int, int] | None  # the first and the last possible one; None where not all pairs are compared
    mark: Mark
    cost: Mapping[str, float]  # NaN where it is not known; see `study_cost`

    @property
    def anchor(self) -> str:
        """The link to its runs. It holds the place, since the name is the user's text."""
        return f"#runs-v{self.place}"


@dataclass(frozen=True)
class PairRow:
    """A pair that is tested: `comparison` is a - b."""

    a: VariantRow
    b: VariantRow
    comparison: Comparison


def variant_rows(
    dataset: str, variants: Variants, means: Means, comparisons: Comparisons, cost: pd.DataFrame
) -> list[VariantRow]:
    """A row for each variant, in the plan's order."""
    levels = {} if variants.levels is None else variants.levels.to_dict("index")
    costs, ranks = cost.to_dict("index"), comparisons.ranks
    best = means.best_of(set(variants.names) - set(comparisons.untested)) if variants.others else []
    return [
        VariantRow(
            variant=variant,
            name=variants.brief[variant],
            place=place,
            dataset=dataset,
            levels=levels.get(variant, {}),
            mean=means.of(variant),
            comparison=comparisons.versus[variant],
            rank=ranks.get(variant),
            mark=_mark(variant, best, comparisons) if means.of(variant).n else "",
            cost={
                name: int(value) if name in COUNTED and math.isfinite(value) else float(value)
                for name, value in costs[variant].items()
            },
        )
        for place, variant in enumerate(variants.names)
    ]


def _mark(variant: str, best: Sequence[str], comparisons: Comparisons) -> Mark:
    if not best or variant in best:
        return "best" if best else ""
    for pair, lost in (((variant, best[0]), "worse"), ((best[0], variant), "better")):
        compared = comparisons.family.get(pair)
        if compared and compared.verdict != NOT_TESTED:
            return "" if compared.verdict == lost else "tied"
    return "untested"
