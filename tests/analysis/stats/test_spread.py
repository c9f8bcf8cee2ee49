"""Whether the spread of variants changes: values by hand, and tests with the right error rates."""

import numpy as np
import pytest
from simulation import at_most

from analysis import stats


def test_the_spread_of_variants_without_noise_is_the_standard_deviation_of_their_means():
    truth = np.array([0.1, 0.4, 0.5, 0.9])
    first, last = np.tile(truth[:, None], 4), np.tile(truth[:, None] / 2, 4)
    assert stats.sd_of_means(first) == pytest.approx(np.std(truth, ddof=1))
    assert stats.spread_change(first, last).change.value == pytest.approx(-0.75 * np.var(truth, ddof=1))


def test_the_spread_is_that_of_the_true_means_however_noisy_the_runs_are():
    rng = np.random.default_rng(0)
    truth = np.array([-1.0, 0.0, 1.0])[:, None]
    runs = [truth + rng.normal(0, 2, (3, 4)) + rng.normal(0, 5, (1, 4)) for _ in range(3000)]
    squares = [stats.spread_change(x, 2 * truth + np.zeros((3, 4))).change.value for x in runs]
    assert np.mean(squares) == pytest.approx(4 - 1, abs=0.15)


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
def test_a_spread_that_does_not_change_is_rarely_said_to(spread, n):
    rng = np.random.default_rng([n, int(10 * spread)])
    truth, studies = spread * np.linspace(-1, 1, 7)[:, None], 1000
    said = []
    for _ in range(studies):
        first = rng.normal(0, 1, (7, n))
        seeds = rng.normal(0, 1, (1, n))
        last = 0.3 * first + rng.normal(0, 0.5, (7, n))
        said.append(stats.spread_change(truth + first + seeds, truth[::-1] + last + seeds).p < 0.05)
    assert at_most(0.055, np.array(said))


@pytest.mark.parametrize(
    ("widest", "fails", "limit"), [(1, 0.3, 0.13), (3, 0, 0.08)], ids=["failures", "a wide variant"]
)
def test_three_seeds_of_three_variants_that_fail_or_scatter_differently_are_wrong_as_often_as_the_methods_say(
    widest, fails, limit
):
    """A failed run is as bad under both conditions.

    Three in ten runs fail, or one variant scatters three times as much.
    """
    rng = np.random.default_rng(15)
    truth, sd, said = np.array([[-2.0], [0], [2]]), np.array([[widest], [1], [1]]), []
    for _ in range(1500):
        runs, noise, seeds = *rng.normal(0, 1, (2, 3, 3)), rng.normal(0, 1, (1, 3))
        failed = rng.random((3, 3)) < fails
        first, last = truth + sd * runs + seeds, truth + sd * (0.3 * runs + 0.5 * noise) + seeds
        said.append(stats.spread_change(*(np.where(failed, -20 + 0.1 * noise, x) for x in (first, last))).p < 0.05)
    assert np.mean(said) > 0.001 and at_most(limit, np.array(said))


def test_too_few_seeds_or_variants_are_not_tested():
    for shape in ((2, 5), (3, 2), (3, 0)):
        assert np.isnan(stats.spread_change(np.zeros(shape), np.ones(shape)).p)
