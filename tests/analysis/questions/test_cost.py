"""Costs: medians over runs, ratios to the baseline on the same hardware, and the warning on uneven times."""

from dataclasses import replace

import pytest
import shown
from synthetic import results_of, write_study

from analysis.findings import analyze
from analysis.questions.cost import cost_table, question
from analysis.runs.folder import read_folder


def test_cost_against_the_baseline(tmp_path):
    rows = shown.rows(cost_table(results_of(tmp_path)))
    assert rows[0]["time relative to baseline"] == "× 1.00"
    assert rows[3]["time relative to baseline"] == "× 1.07"  # 4.3 s over 4.0 s: 1.075, which binary rounds down
    assert (rows[2]["parameters"], rows[2]["FLOPs/image"]) == ("26,000", "930 k")


def test_a_single_slow_run_gives_a_warning_and_leaves_the_median(tmp_path):
    study = read_folder(write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=5))
    runs = study.runs.set_index(["variant", "seed"])  # none takes 4.0 s, learned-1d 4.1 s
    runs.loc[[("none", 0), ("learned-1d", 3), ("learned-1d", 4)], "device_seconds"] = [400.0, 1.0, 1.0]
    runs.loc[[("learned-1d", 3), ("learned-1d", 4)], "hardware"] = "fast"
    findings = analyze(replace(study, runs=runs.reset_index()))
    assert findings.cost["device_seconds"].to_dict() == {"none": 4.0, "learned-1d": 4.1}
    # on the same hardware, of seeds 0, 1, 2: 0.01025, 1.025, 1.025
    assert findings.cost.loc["learned-1d", "device_seconds_ratio"] == pytest.approx(4.1 / 4.0)
    (warning,) = question(findings).warnings
    assert warning.line == "Times are uneven: one run of “none” took 100.0 times the median of its variant."
