"""The minimum detectable difference against statsmodels."""

import math

import pytest
from statsmodels.stats.power import TTestPower

from analysis.verdicts.power import detectable

CLOSE = {"rel": 1e-9, "abs": 1e-12}


@pytest.mark.parametrize("n", [2, 3, 5, 10, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_detectable_difference_is_where_statsmodels_finds_80_percent_power(n, alpha):
    difference = detectable(0.02, n, alpha)
    found = TTestPower().power(difference / 0.02, n, alpha)
    if math.isnan(found):  # statsmodels adds the wrong side's power, which underflows there
        found = TTestPower().power(difference / 0.02, n, alpha / 2, alternative="larger")
    assert found == pytest.approx(0.8, **CLOSE)


def test_the_edges():
    assert detectable(0.0, 5) == 0.0
    assert math.isnan(detectable(0.02, 1))
