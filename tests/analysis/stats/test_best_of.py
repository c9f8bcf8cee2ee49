"""The expected best of n trials against all choices of n, and against a simulation."""

import itertools

import numpy as np
import pytest

from analysis.stats import expected_best


@pytest.mark.parametrize("values", [[0.5], [0.2, 0.9], [0.1, 0.4, 0.4, 0.8, 0.3, 0.0, 0.7], [0.3] * 5])
def test_it_is_the_mean_over_all_choices(values):
    brute = [np.mean([max(chosen) for chosen in itertools.combinations(values, n)]) for n in range(1, len(values) + 1)]
    np.testing.assert_allclose(expected_best(values), brute, rtol=1e-12)


def test_many_trials_agree_with_a_simulation():
    rng = np.random.default_rng(0)
    values = rng.beta(2, 3, size=400)
    found = expected_best(values)
    assert found[0] == pytest.approx(values.mean()) and found[-1] == values.max()
    assert (np.diff(found) > 0).all()
    for n in (3, 50):
        drawn = [rng.choice(values, n, replace=False).max() for _ in range(20_000)]
        assert found[n - 1] == pytest.approx(np.mean(drawn), abs=5 * np.std(drawn) / np.sqrt(len(drawn)))
