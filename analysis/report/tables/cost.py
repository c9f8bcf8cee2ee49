"""What each variant costs: parameters, FLOPs, time and memory."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import variant_cells, variant_columns
from analysis.results.study_results import StudyResults

_COLUMNS = {
    "params": Column("parameters", ("params",), help="trainable values"),
    "params_fixed": Column("fixed values", ("params_fixed",), help="position values that are not trained"),
    "flops_per_image": Column(
        "FLOPs/image", ("flops_per_image",), help="one forward pass; a multiply-add counts as two"
    ),
    "device_seconds": Column("device time (s/run)", ("device_seconds",), help="median over the variant's runs"),
    "images_per_second": Column(
        "images/s", ("images_per_second",), help="training images over the time of an epoch with validation"
    ),
    "peak_memory_bytes": Column("peak memory", ("peak_memory_bytes",), help="of the GPU; not measured on a CPU"),
    "device_seconds_ratio": Column(
        "time relative to baseline",
        ("device_seconds_ratio",),
        help="median over the seeds that both variants trained on the same hardware",
    ),
}
_WHOLE = ("params", "params_fixed", "peak_memory_bytes")


def cost_table(results: StudyResults) -> Table:
    """Return the table of costs, one row for each variant."""
    rows = tuple(
        (*variant_cells(results, variant), *cost_cells(results, variant, *_COLUMNS))
        for variant in results.variants.names
    )
    caption = "Cost of each variant. Times are medians over the variant's runs."
    note = (
        "Fixed values: position values that are not trained. Time relative to baseline: the median of the ratios of runs "
        "with the same seed and hardware. It can differ from the ratio of the medians."
    )
    return Table("cost", caption, (*variant_columns(results), *_COLUMNS.values()), rows, (note,))


def cost_columns(*names: str) -> tuple[Column, ...]:
    """Return the columns with these names."""
    return tuple(_COLUMNS[name] for name in names)


def cost_cells(results: StudyResults, variant: str, *names: str) -> tuple[Cell, ...]:
    """Return a variant's cells under `cost_columns`."""
    cost = results.cost.loc[variant]
    return tuple(_cell(name, float(cost[name])) for name in names)


def _cell(name: str, value: float) -> Cell:
    known = math.isfinite(value)
    text = {
        "params": formatting.count,
        "params_fixed": formatting.count,
        "device_seconds": lambda value: formatting.number(value, 2),
        "peak_memory_bytes": lambda value: f"{formatting.magnitude(value)}B" if known else formatting.DASH,
        "device_seconds_ratio": lambda value: f"× {value:.2f}" if known else formatting.DASH,
    }.get(name, formatting.magnitude)(value)
    datum = (int(value) if known else None) if name in _WHOLE else value
    return Cell(text, (datum,), value)
