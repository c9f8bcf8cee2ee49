"""Effects over studies: statsmodels is the oracle."""

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from analysis.verdicts.pooling import over_seeds, random_effects


@pytest.mark.filterwarnings("ignore:`use_t=True` requires", "ignore:invalid value encountered in sqrt")
@pytest.mark.parametrize("between", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("studies", [3, 4, 7])
def test_mean_interval_and_tau_are_those_of_statsmodels(studies, between):
    generator = np.random.default_rng(studies)
    for _ in range(20):
        variances = generator.uniform(0.05, 1, studies)
        effects = generator.normal(1, np.sqrt(variances + between**2))
        found, tau = random_effects(effects, variances)
        oracle = combine_effects(effects, variances, method_re="chi2", use_t=True)
        effect = "random" if oracle.tau2 > 0 else "fixed"  # statsmodels does not cut a negative estimate at 0
        row = oracle.summary_frame().loc[f"{effect} effect wls"]  # Hartung and Knapp's
        assert (found.value, found.low, found.high) == pytest.approx(
            (row["eff"], row["ci_low"], row["ci_upp"]), abs=1e-9
        )
        assert tau**2 == pytest.approx(max(oracle.tau2, 0), abs=1e-9)


def test_two_studies_and_an_unknown_spread_have_no_mean_over_studies():
    assert random_effects([1.0, 2.0], [0.1, 0.1])[0].n == 0
    assert random_effects([1.0, 2.0, 3.0], [0.1, 0.1, np.nan])[0].n == 0
    assert random_effects([1.0, 2.0, 3.0], [0.1, 0.1, 0.0])[0].n == 0


def test_one_seed_has_no_variance():
    assert np.isnan(over_seeds([0.3])[1])
