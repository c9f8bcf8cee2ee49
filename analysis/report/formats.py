"""How a column becomes text. A format gets all values of the column, because some columns share a number of decimals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from analysis import formatting
from analysis.stats import Estimate
from experiments.metric import Metric

Format = Callable[[Sequence[Any]], list[str]]
"""The values of a column -> their texts."""


def each(show: Callable[[Any], str]) -> Format:
    """Every value by itself."""
    return lambda values: [show(value) for value in values]


def number(places: int = 2, scale: float = 1.0, signed: bool = False) -> Format:
    """`0.71`: a fixed number of decimals."""
    return each(lambda value: formatting.number(value * scale, places, signed))


def interval(metric: Metric, signed: bool = False, least: float | None = None) -> Format:
    """`97.12 ± 0.43`: estimates with their intervals. A column shares its number of decimals.

    `signed`: differences, which have a sign and no limits; means are cut at what the metric can be. `least`: where means
    are cut instead.
    """

    def show(estimates: Sequence[Estimate]) -> list[str]:
        places = formatting.shared_places(estimates, metric)
        return [formatting.with_interval(estimate, metric, signed, places, least) for estimate in estimates]

    return show


def bounds(metric: Metric) -> Format:
    """`[−0.30, +1.21]`: the intervals of differences alone, with the decimals of `interval`."""

    def show(estimates: Sequence[Estimate]) -> list[str]:
        places = formatting.shared_places(estimates, metric)
        return [formatting.bounds(estimate, metric, places) for estimate in estimates]

    return show


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


text = each(_text)
"""The text as it is, aligned to the left; empty where there is none."""
digits = each(_text)
"""The same, aligned to the right."""
count = each(formatting.count)
"""`12,345`"""
p = each(formatting.p_value)
"""`0.032`, `< 0.001`"""
