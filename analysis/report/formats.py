"""How the columns of a table become text: functions that return a `Format`. Fields are those of the table's frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.report.table import Format
from analysis.stats.estimates import Estimate
from experiments.metric import Metric


def text(field: str) -> Format:
    """The text as it is; empty where there is none."""
    return each(field, lambda value: "" if value is None or value != value else str(value))


def count(field: str) -> Format:
    """`12,345`"""
    return each(field, formatting.count)


def p(field: str) -> Format:
    """`0.032`, `< 0.001`"""
    return each(field, formatting.p_value)


def number(field: str, places: int = 2, scale: float = 1.0, signed: bool = False) -> Format:
    """`0.71`: a fixed number of decimals."""
    return each(field, lambda value: formatting.number(value * scale, places, signed))


def each(field: str, show: Callable[[Any], str]) -> Format:
    """Every value by itself."""
    return lambda frame: [show(value) for value in frame[field]]


def rows(show: Callable[[Any], str]) -> Format:
    """A text made from several fields: `show` gets the row as a Series."""
    return lambda frame: [show(row) for _, row in frame.iterrows()]


def interval(
    field: str,
    metric: Metric,
    *,
    signed: bool = False,
    low: str = "",
    high: str = "",
    blank: str = "",
    least: float | None = None,
) -> Format:
    """`97.12 ± 0.43`: an estimate with its interval in FIELD_low and FIELD_high. A column shares its number of decimals.

    `signed`: a difference, which has a sign and no limits; a mean is cut at what the metric can be. `low`, `high`: other
    fields of the bounds. `blank`: a field that is true where the text is empty. `least`: where a mean is cut instead.
    """
    limits = formatting.UNBOUNDED if signed else formatting.limits(metric)
    limits = limits if least is None else (least, limits[1])

    def show(frame: pd.DataFrame) -> list[str]:
        estimates, places = _estimates(frame, field, metric, low, high)
        texts = [formatting.with_interval(e, metric.scale, signed, limits=limits, places=places) for e in estimates]
        return texts if not blank else ["" if hidden else shown for shown, hidden in zip(texts, frame[blank])]

    return show


def bounds(field: str, metric: Metric) -> Format:
    """`[−0.30, +1.21]`: the interval alone, with the decimals of `interval`."""

    def show(frame: pd.DataFrame) -> list[str]:
        estimates, places = _estimates(frame, field, metric)
        return [formatting.bounds(estimate, metric.scale, places=places) for estimate in estimates]

    return show


def like_interval(field: str, metric: Metric, of: str) -> Format:
    """A number with the decimals that the column `interval(of)` has."""
    return lambda frame: [
        formatting.number(value * metric.scale, _estimates(frame, of, metric)[1]) for value in frame[field]
    ]


def _estimates(
    frame: pd.DataFrame, field: str, metric: Metric, low: str = "", high: str = ""
) -> tuple[list[Estimate], int]:
    """The estimates of a column, and the decimals that they share."""
    columns = frame[field], frame[low or f"{field}_low"], frame[high or f"{field}_high"]
    estimates = [Estimate(value, lowest, highest, n=0) for value, lowest, highest in zip(*columns, strict=True)]
    places = formatting.shared_decimals([formatting.half_width(estimate) * metric.scale for estimate in estimates])
    return estimates, (2 if metric.is_share else 4) if places is None else places
