"""The spread of the runs against numpy, the means of all metrics, and the learning curves."""

import numpy as np
import pytest
from scipy import stats
from synthetic import results_of

from analysis.questions.metrics import curves, metrics_table, spread_table, study_curves

LOST = {"statuses": {("none", 0): "diverged"}}


def test_spread_against_numpy(tmp_path):
    findings = results_of(tmp_path, seeds=8)
    for row in spread_table(findings).data.to_dict("records"):
        values = sorted(findings.means.values[row["variant"]].values())
        assert row["sd"] == pytest.approx(np.std(values, ddof=1), rel=1e-12)
        assert (row["lowest"], row["highest"]) == (values[0], values[-1])


def test_the_metrics_of_the_training_images_are_details(tmp_path):
    columns = metrics_table(results_of(tmp_path, seeds=2)).shown().columns
    detail = {column.label: column.detail for column in columns}
    assert detail["training loss"] and not detail["test accuracy, %"]


def test_a_learning_curve_is_the_mean_over_the_finished_runs_with_its_t_interval(tmp_path):
    findings = results_of(tmp_path, accuracy={"none": 0.5, "cpe": 0.6}, spread=0.05, seeds=4, **LOST)
    curve = study_curves(findings)["val/acc"]["none"]
    runs = findings.study.curves.query("variant == 'none' and epoch == 2")
    finished = runs[runs["run"] != "v0-s0"]["val/acc"]
    low, high = stats.t.interval(0.95, 2, finished.mean(), stats.sem(finished))
    assert curve.mean.loc[2].tolist() == pytest.approx([finished.mean(), low, high])


def test_the_band_of_an_accuracy_ends_at_what_an_accuracy_can_be(tmp_path):
    curve = study_curves(results_of(tmp_path, accuracy={"none": 0.95, "cpe": 0.05}, spread=0.3, seeds=3))["val/acc"]
    assert curve["none"].mean["high"].max() == 1 and curve["cpe"].mean["low"].min() == 0


@pytest.mark.parametrize(("epochs", "plots"), [(1, 0), (4, 1)])
def test_a_single_epoch_has_no_curve(epochs, plots, tmp_path):
    section = curves(results_of(tmp_path, epochs=epochs, seeds=2))
    assert len(section.items) == plots and len(section.frames["curves"]) == 8 * epochs
