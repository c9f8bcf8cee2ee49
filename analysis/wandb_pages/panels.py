"""The plots that the workspace and the report share. Runs are grouped by variant, which is W&B's group."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import wandb_workspaces.reports.v2 as wr

from analysis.wandb_pages.content import Content
from experiments.metric import Metric

NOTE = (
    "The statistics on this page come from the tables of vit-report, which use every run. The plots of W&B are for "
    "watching: W&B draws a group from a sample of at most 100 runs, and its bands are standard deviations, not "
    "confidence intervals."
)
CURVES = ("val/acc", "train/loss", "val/loss", "train/acc")
BAND = "mean of each variant, band: ± 1 standard deviation over its runs"
MOST_SHOWN = 1000  # runs and bars of a plot, the limit of W&B; its default is 10


def curves() -> list[wr.LinePlot]:
    """Learning curves."""
    return [curve(name, f"{_label(name)}: {BAND}", _label(name)) for name in CURVES]


def curve(name: str, title: str, axis: str) -> wr.LinePlot:
    """What was logged under a name, over the epochs, a line for each variant."""
    return wr.LinePlot(
        title=title,
        x="epoch",
        y=[name],
        title_x="epoch",
        title_y=axis,
        groupby=wr.Metric("Group"),
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
        smoothing_type="none",
        max_runs_to_show=MOST_SHOWN,
    )


def final_metric(content: Content) -> wr.BarPlot:
    """The study's metric at the end of training."""
    return wr.BarPlot(
        title=f"{_label(content.metric)} at the end: {BAND.replace('band', 'line')}",
        metrics=[content.summary_key],
        orientation="h",
        title_x=_label(content.metric),
        groupby=wr.Metric("Group"),
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
        max_runs_to_show=MOST_SHOWN,
        max_bars_to_show=MOST_SHOWN,
    )


def parallel_coordinates(content: Content) -> wr.ParallelCoordinatesPlot:
    """A line for each run over its levels, its seed and the study's metric."""
    columns = [wr.ParallelCoordinatesPlotColumn(wr.Config(path), display_name=label) for path, label in content.axes]
    return wr.ParallelCoordinatesPlot(
        title=f"{_label(content.metric)} by factor, a line for each run",
        columns=[
            *columns,
            wr.ParallelCoordinatesPlotColumn(wr.Config("seed"), display_name="seed"),
            wr.ParallelCoordinatesPlotColumn(
                wr.SummaryMetric(content.summary_key), display_name=_label(content.metric)
            ),
        ],
    )


def against_cost(content: Content) -> list[wr.ScatterPlot]:
    """The study's metric against parameters and FLOPs, a point for each run."""
    costs = {"params": "trainable parameters", "flops_per_image": "FLOPs per image"}
    return [
        wr.ScatterPlot(
            title=f"{_label(content.metric)} against {label}, a point for each run",
            x=wr.Config(name),
            y=wr.SummaryMetric(content.summary_key),
            log_x=True,
        )
        for name, label in costs.items()
    ]


def with_fixed_ids(things: Iterable[Any], name: str) -> None:
    """Give panels and sets of runs ids that depend on their place only; by default the ids are random.

    So the same study gives the same specification, and a link to a panel stays valid.
    """
    for index, thing in enumerate(things):
        thing._id = fixed_id(f"{name}/{index}")


def fixed_id(name: str) -> str:
    """An id as W&B's own look."""
    return hashlib.sha256(name.encode()).hexdigest()[:11]


def _label(name: str) -> str:
    return Metric(name).label
