"""The minimum detectable difference against statsmodels."""

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from analysis.verdicts.power import detectable, needed_seeds

CLOSE = {"rel": 1e-9, "abs": 1e-12}


@pytest.mark.parametrize("n", [2, 3, 5, 10, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_detectable_difference_is_where_statsmodels_finds_80_percent_power(n, alpha):
    difference = detectable(0.02, n, alpha, n - 1)
    found = TTestPower().power(difference / 0.02, n, alpha)
    if math.isnan(found):  # statsmodels adds the wrong side's power, which underflows there
        found = TTestPower().power(difference / 0.02, n, alpha / 2, alternative="larger")
    assert found == pytest.approx(0.8, **CLOSE)


@pytest.mark.parametrize("df", [4.0, 12.0])
def test_the_needed_seeds_are_those_whose_smallest_difference_is_the_size(df):
    needed = needed_seeds(0.01, [0.02, 0.05], 5, 0.01, df)
    assert detectable([0.02, 0.05], needed, 0.01, df * (needed - 1) / 4) == pytest.approx(0.01, rel=0.01)
    assert np.isnan([needed_seeds(size, [0.02], 5, 0.05, 4) for size in (math.nan, 0.0)]).all()


def test_the_edges():
    assert detectable(0.0, 5, 0.05, 4) == 0.0
    assert math.isnan(detectable(0.02, 1, 0.05, 4))
