"""A margin is in the unit of the metric, or in points; what is on another scale is refused or noted."""

import math

import pandas as pd
import pytest
from commands import refusal

import analysis
from analysis.runs.tables.scales import margin_of, rounding_note, scales_note
from experiments.errors import UserError
from experiments.metric import Metric

SHARE, PERCENT, LOSS = [0.91, 0.9, math.nan], [91.0, 90, math.inf], [0.3, 0.9]


@pytest.mark.parametrize(
    ("given", "values", "metric", "margin"),
    [
        (0.005, SHARE, "acc", 0.005),
        ("0.5 points", SHARE, "acc", 0.005),
        ("1 point", SHARE, "acc", 0.01),
        ("0.5%", SHARE, "f1", 0.005),
        ("10 points", SHARE, "acc", 0.1),
        ("0.5 points", PERCENT, "acc", 0.5),
        ("0.5 %", PERCENT, "acc", 0.5),
        (0.5, PERCENT, "acc", 0.5),
        (0.1, LOSS, "val_loss", 0.1),
        ("0.5 points", SHARE, "test/acc", 0.005),
        (5, [-100.0, 20], "return", 5),
        (0.05, [0.0, 0.0], "acc", 0.05),
    ],
)
def test_a_margin_in_the_unit_of_the_metric(given, values, metric, margin):
    assert margin_of(given, values, Metric(metric), "t") == pytest.approx(margin)


@pytest.mark.parametrize(
    ("given", "values", "metric", "said"),
    [
        (0.5, SHARE, "acc", "acc is from 0 to 1, so this is 50 points; write '0.5 points' (0.005) or '50 points'"),
        (0.1, SHARE, "acc", "so this is 10 points"),
        (0.5, SHARE, "test/acc", "so this is 50 points"),
        (1, SHARE, "auc", "so this is 100 points; write '1 points' (0.01)"),
        (91, PERCENT, "acc", "acc has no value as large, 91 at most, so all would be equivalent"),
        ("95 points", SHARE, "acc", "no value as large"),
        (120, [-100.0, 20], "return", "no value as large, 100 at most"),
        (1.0, LOSS, "val_loss", "no value as large, 0.9 at most"),
        ("0.5 points", LOSS, "val_loss", "points are of a share"),
        ("0.5 %", [250.0, 300], "ms", "points are of a share"),
        ("1 point", [-3.0, 20], "gain", "points are of a share"),
        ("1 point", [0.5, 1.2], "score", "points are of a share"),
    ],
)
def test_a_margin_of_another_scale(given, values, metric, said):
    error = refusal(margin_of, given, values, Metric(metric), "t")
    assert said in error and error.startswith(f"t: margin: {given} is not allowed")


def test_the_margin_of_the_guide_on_fractions_is_no_equivalence():
    frame = pd.DataFrame({"m": list("aaabbb"), "seed": [0, 1, 2] * 2, "acc": [0.91, 0.92, 0.9, 0.71, 0.7, 0.73]})
    with pytest.raises(UserError, match="margin: 0.5 is not allowed"):
        analysis.compare(frame, "acc", "m", margin=0.5)
    assert analysis.compare(frame, "acc", "m", margin="0.5 points").findings.comparisons.versus["b"].verdict == "worse"


def test_scales_of_parts_and_rounding():
    assert scales_note({"mnist": [0.91, 0.9], "svhn": [91.0]}, "acc") == [
        "acc is at most 0.91 on mnist and 91 on svhn: check that both have the same unit."
    ]
    assert scales_note({"mnist": [99.0], "imagenet": [math.nan, 31]}, "acc") == scales_note({}, "acc") == []
    said = ["The runs of each variant differ by at most 0.1, to which acc is rounded: use more digits."]
    assert rounding_note([[90.1, 90.2], [91.0, 91.0]], "acc") == said
    assert rounding_note([[90.1, 90.3], [91.0, 91.0]], "acc") == rounding_note([[90.1], [91.0]], "acc") == []
