"""The spread of the runs against numpy, the means of all metrics, and the learning curves."""

import numpy as np
import pytest
from synthetic import results_of

from analysis.questions.metrics import curve_rows, curves, metrics_table

LOST = {"statuses": {("none", 0): "diverged"}}


def test_spread_against_numpy(tmp_path):
    findings = results_of(tmp_path, seeds=8)
    for row in metrics_table(findings).data.to_dict("records"):
        values = [*findings.means.values[row["variant"]]]
        assert row["sd"] == pytest.approx(np.std(values, ddof=1), rel=1e-12)


def test_the_metrics_of_the_training_images_are_details(tmp_path):
    columns = metrics_table(results_of(tmp_path, seeds=2)).shown().columns
    detail = {column.label: column.detail for column in columns}
    assert detail["training loss"] and not detail["test accuracy, %"]


def test_a_learning_curve_is_of_the_finished_runs_and_its_line_is_their_mean(tmp_path):
    findings = results_of(tmp_path, accuracy={"none": 0.5, "cpe": 0.6}, spread=0.05, seeds=6, **LOST)
    rows = curve_rows(findings).query("metric == 'val/acc' and variant == 'none'")
    runs = findings.study.curves.query("variant == 'none' and run != 'v0-s0'")
    assert len(rows) == len(runs) == 5 * 4 and sorted(rows["value"]) == pytest.approx(sorted(runs["val/acc"]))
    (plot,) = curves(findings).items
    colour = findings.styles.by_variant["none"].colour
    line = next(line for line in plot.figure.axes[0].lines if line.get_color() == colour)
    assert list(line.get_ydata()) == pytest.approx(100 * runs.groupby("epoch")["val/acc"].mean())


@pytest.mark.parametrize(("epochs", "plots"), [(1, 0), (4, 1)])
def test_a_single_epoch_has_no_curve(epochs, plots, tmp_path):
    section = curves(results_of(tmp_path, epochs=epochs, seeds=2))
    assert len(section.items) == plots and len(section.frames["curves"]) == 8 * epochs
