"""Numbers as text: rounding that follows the interval, limits, units."""

import math

import pytest

from analysis import words
from analysis.verdicts.estimates import Estimate
from experiments.errors import UserError, duration_text
from experiments.metric import Metric, metric_of_column

ACCURACY, LOSS = Metric("test/acc"), Metric("test/loss")


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (97.1234, 0.4321, "97.12 ± 0.43"),
        (97.1234, 4.321, "97.1 ± 4.3"),
        (97.1234, 43.21, "97 ± 43"),
        (0.5, 0.000123, "0.50000 ± 0.00012"),
        (97.1234, 9.96, "97 ± 10"),
        (97.1234, 0.0996, "97.12 ± 0.10"),
        (2.5e-9, 1e-9, "2.5e−09 ± 1e−09"),
        (0.5, 3e-9, "0.5000000000 ± 3e−09"),
        (1e12, 0.8, "1,000,000,000,000.00 ± 0.80"),
        (-2e8, 3e2, "−200,000,000 [−200,000,300, −199,999,700]"),
        (3e20, 1e19, "3e+20 ± 1e+19"),
        (-0.04, 3.2, "0.0 [−3.2, +3.2]"),
        (-1.25, 3.2, "−1.2 [−4.5, +2.0]"),
    ],
)
def test_rounding_follows_the_interval(value, half, text):
    assert words.with_interval(Estimate(value, value - half, value + half, 5), LOSS, signed=value < 0) == text


def test_a_value_without_interval_claims_none():
    assert words.with_interval(Estimate(0.9712, math.nan, math.nan, 1), ACCURACY) == "97.12"
    assert words.with_interval(Estimate(math.nan, math.nan, math.nan, 0), ACCURACY) == "–"
    assert words.interval(Estimate(1.0, math.nan, math.nan, 1), ACCURACY) == "no interval"


@pytest.mark.parametrize(
    ("value", "text"),
    [(910_000, "910 k"), (999_999, "1 M"), (1.234e9, "1.23 G"), (12.34, "12.3"), (0, "0"), (math.nan, "–")],
)
def test_magnitudes(value, text):
    assert words.magnitude(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4.12, "4.12 s"), (119, "119 s"), (720, "12 min"), (12_240, "3.4 h"), (432_000, "5 d")]
)
def test_durations(value, text):
    assert duration_text(value) == text


@pytest.mark.parametrize(("metric", "text"), [("test/acc", "1 point"), ("test/loss", "0.01")])
def test_a_margin_has_the_unit_of_a_difference(metric, text):
    assert words.margin(0.01, Metric(metric)) == text


@pytest.mark.parametrize(
    ("halves", "places"), [((3.4, 2.4, 7.7, 0.80), 1), ((3.4, 2.4, 7.7, 0.08), 2), ((math.nan, 0.0), 2), ((), 2)]
)
def test_shared_decimals_show_the_median_with_two_digits_and_the_smallest_with_one(halves, places):
    estimates = [Estimate(0.5, 0.5 - half / 100, 0.5 + half / 100, 5) for half in halves]
    assert words.shared_places(estimates, ACCURACY) == places


@pytest.mark.parametrize(("signed", "text"), [(False, "95 % CI 5.0 to 17.0"), (True, "95 % CI −17.0 to −5.0")])
def test_the_interval_of_a_negative_difference_rises(signed, text):
    assert words.interval(Estimate(-0.11, -0.17, -0.05, 5), ACCURACY, signed) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.04, 2.0, "[+0.04, +2.0]"),
        (-2.0, -0.003, "[−2.0, −0.003]"),
        (-0.0004, 2.0, "[−0.0004, +2.0]"),
        (1e-9, 2.0, "[+1e−09, +2.0]"),
        (0.0, 2.0, "[0.0, +2.0]"),
        (1e-17, 2.0, "[0.0, +2.0]"),
    ],
)
def test_the_end_of_an_interval_shows_on_which_side_of_zero_it_is(low, high, text):
    assert words.with_interval(Estimate(1.0, low, high, 5), metric_of_column("score"), True, places=1) == f"+1.0 {text}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (r"cost \$5 and \$10", ["cost $5 and $10"]),
        ("cost $5", ["cost $5"]),
        (r"$\theta$ and \$5", ["", r"\theta", " and $5"]),
        ("$$", ["$$"]),
        (r"a $x$ b $y$", ["a ", "x", " b ", "y", ""]),
        ("plain", ["plain"]),
    ],
)
def test_dollars_and_math(text, parts):
    assert words.math_parts(text) == parts
    assert words.math_parts(words.checked_math(text, "caption")) == parts


@pytest.mark.parametrize("text", [r"$\theta", r"a $x_1", "costs $5 and $x_1$", r"\$5 for $\alpha"])
def test_math_that_does_not_end_is_one_line(text):
    with pytest.raises(UserError, match="caption: .* has math that does not end"):
        words.checked_math(text, "caption")
