"""The seeds that a margin takes, against simulated studies of equal variants."""

import numpy as np
import pytest
from scipy import stats

from sweeps.commands.show import seeds_for_equivalence


@pytest.mark.parametrize(("variants", "spread"), [(2, 0.5), (3, 0.5), (8, 0.3)])
def test_four_of_five_studies_show_equivalence_with_them_and_fewer_with_fewer(variants, spread):
    pairs, rng = variants * (variants - 1) // 2, np.random.default_rng(variants)

    def shown(n: int) -> float:
        a, b = rng.normal(0, spread, (2, 40_000, n))
        found = stats.ttest_ind(a, b, axis=1).confidence_interval(1 - 0.05 / pairs)
        return np.mean((found.low > -1) & (found.high < 1))

    n = seeds_for_equivalence(spread, variants)
    assert shown(n) >= 0.79 and shown(n - 1) < 0.8
