"""Do the statistics keep their word? Seeded simulations of studies whose truth is known; no other kind of test."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from analysis import stats
from analysis.claims.check import check
from analysis.claims.hypotheses import AboveHypothesis, AlikeHypothesis, PublishedHypothesis
from analysis.claims.literature import LITERATURE
from analysis.stats.comparisons import verdicts
from analysis.stats.estimates import moments, t_interval
from analysis.stats.power import power_of_equivalence

MARGIN, ALPHA, SD = 0.01, 0.05, 0.006
SEEDS = (3, 5, 10)


def at_most(rate: float, hits: np.ndarray) -> bool:
    """Whether the share of hits is compatible with a true rate of at most `rate`: within three standard errors."""
    return hits.mean() <= rate + 3 * np.sqrt(rate * (1 - rate) / hits.size)


def families(n: int, truth: list[float], studies: int = 20_000, seed: int = 0, sd: float = SD) -> np.ndarray:
    """Differences (studies, variants, seeds) of variants to one shared baseline; a seed lifts all its runs alike."""
    rng = np.random.default_rng([seed, n])
    runs = rng.normal(0, sd / np.sqrt(2), (studies, len(truth) + 1, n)) + rng.normal(0, sd, (studies, 1, n))
    return runs[:, 1:] - runs[:, :1] + np.array(truth)[:, None]


@pytest.mark.parametrize("n", SEEDS)
def test_intervals_of_paired_differences_cover_at_their_level(n):
    truth, variants = 0.004, 4000
    rng = np.random.default_rng(n)
    gains = rng.normal(truth, SD, (variants, n))
    values = {"base": dict.fromkeys(range(n), 0.9)}
    values |= {f"v{i}": {seed: 0.9 + gain for seed, gain in enumerate(row)} for i, row in enumerate(gains)}
    compared = [c for c in stats.compare(values, "base", MARGIN).values() if c.verdict != "baseline"]
    diff = np.mean([c.diff.low <= truth <= c.diff.high for c in compared])
    equivalence = np.mean([c.equivalence.low <= truth <= c.equivalence.high for c in compared])
    assert 0.94 <= diff <= 0.96
    assert 0.885 <= equivalence <= 0.915


@pytest.mark.parametrize(
    ("n", "draw"), [(3, "normal"), *((n, draw) for n in (5, 10) for draw in ("normal", "uniform", "few images"))]
)
def test_intervals_of_a_mean_cover_even_where_seeds_are_not_quite_normal(n, draw):
    rng = np.random.default_rng([n, 1])
    shape = (20_000, n)
    x = {
        "normal": lambda: rng.normal(0, 1, shape),
        "uniform": lambda: rng.uniform(-1, 1, shape),
        "few images": lambda: np.rint(
            rng.normal(0, 2, shape)
        ),  # accuracies in steps of one image, two images of spread
    }[draw]()
    centre, spread, counts = moments(x)
    low, high = t_interval(centre, spread / np.sqrt(n), counts - 1)
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.97


@pytest.mark.parametrize("n", [5, 10])  # at three seeds nothing is cut: that is the mean
def test_interval_of_the_interquartile_mean_covers(n):
    x = np.random.default_rng([n, 2]).normal(0, 1, (12_000, n))
    covered = [e.low <= 0 <= e.high for e in map(stats.iqm_interval, x)]
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("statistic", [np.mean, stats.iqm])
def test_bootstrap_covers_at_ten_seeds(statistic):
    x = np.random.default_rng(3).normal(0, 1, (600, 10))
    covered = [e.low <= 0 <= e.high for e in (stats.bootstrap(row, statistic, resamples=999) for row in x)]
    assert 0.92 <= np.mean(covered) <= 0.98  # 93 to 97 %, and one standard error of 600 studies


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_probability_of_improvement_covers_at_least_at_its_level(n, share):
    intervals = [stats.improvement([1] * k + [0] * (n - k), [0.5] * n) for k in range(n + 1)]
    covering = [k for k, e in enumerate(intervals) if e.low <= share <= e.high]
    assert scipy_stats.binom.pmf(covering, n, share).sum() >= 0.95  # exact: no simulation is needed


@pytest.mark.parametrize("n", (2, *SEEDS))
@pytest.mark.parametrize("variants", [1, 3, 10])
def test_false_differences_in_at_most_alpha_of_all_families(n, variants):
    diffs = families(n, [0.0] * variants)
    for margin in (1e-9, MARGIN):  # with a margin nobody can show, and with one that is shown at times
        signs = verdicts(diffs, margin, ALPHA)[2]
        assert at_most(ALPHA, np.any(np.abs(signs) == 1, axis=-1))


@pytest.mark.parametrize("n", SEEDS)
def test_true_differences_beside_them_do_not_make_false_ones_likelier(n):
    signs = verdicts(families(n, [0.3, 0.2, 0.0, 0.0]), 1e-9, ALPHA)[2]
    assert at_most(ALPHA, np.any(np.abs(signs[:, 2:]) == 1, axis=-1))
    assert signs[:, :2].min() == 1


@pytest.mark.parametrize("n", SEEDS)
def test_a_wild_baseline_does_not_make_false_differences(n):
    rng = np.random.default_rng([n, 4])
    runs = rng.normal(0, 1, (20_000, 4, n)) * np.array([5, 1, 0.2, 1])[:, None]
    assert at_most(ALPHA, np.any(np.abs(verdicts(runs[:, 1:] - runs[:, :1], 1e-9, ALPHA)[2]) == 1, axis=-1))


@pytest.mark.parametrize("n", (2, *SEEDS))
@pytest.mark.parametrize("spread", [0.5, 1, 2, 5])
def test_accuracies_in_steps_of_one_image_make_no_false_differences(n, spread):
    """Equal differences come about by chance there; two of them must not pass for certainty."""
    diffs = np.rint(np.random.default_rng([n, 5]).normal(0, spread, (20_000, 1, n))) / 100
    assert at_most(ALPHA, np.abs(verdicts(diffs, 1e-9, ALPHA)[2][:, 0]) == 1)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("variants", [1, 3])
def test_false_equivalence_in_at_most_alpha_of_all_families(n, variants):
    for truth in (MARGIN, -MARGIN, 1.5 * MARGIN):
        signs = verdicts(families(n, [truth] * variants, sd=0.002), MARGIN, ALPHA)[2]
        assert at_most(ALPHA, np.any(signs == 0, axis=-1))


def test_equivalence_is_tested_at_its_level_and_not_far_below():
    p = stats.tost(families(5, [MARGIN], sd=0.002)[:, 0], MARGIN)
    assert 0.045 <= np.mean(p <= ALPHA) <= 0.055


@pytest.mark.parametrize("n", SEEDS)
def test_hardly_ever_the_wrong_sign(n):
    signs = verdicts(families(n, [0.002]), 1e-9, ALPHA)[2]
    assert at_most(ALPHA / 2, signs == -1)


@pytest.mark.parametrize("n", SEEDS)
def test_detectable_difference_is_found_in_four_of_five_studies(n):
    difference = stats.detectable(SD, n)
    found = stats.t_test(families(n, [difference])[:, 0]) <= ALPHA
    assert found.mean() == pytest.approx(0.8, abs=0.01)


def test_seeds_needed_are_enough_and_one_fewer_is_not():
    n = stats.seeds_needed(SD, 0.005)
    power = [np.mean(stats.t_test(families(k, [0.005], 100_000)[:, 0]) <= ALPHA) for k in (n - 1, n)]
    assert power[0] < 0.8 <= power[1] + 0.004


@pytest.mark.parametrize("truth", [0.0, 0.004, -0.007])
def test_seeds_to_decide_show_equivalence_in_four_of_five_studies(truth):
    (n,) = stats.seeds_to_decide(SD, truth, MARGIN)
    decided = verdicts(families(n, [truth]), MARGIN, ALPHA)[2]
    assert np.mean(~np.isnan(decided)) >= 0.79
    equivalent = np.mean(stats.tost(families(n, [truth])[:, 0], MARGIN) <= ALPHA)
    assert equivalent >= power_of_equivalence(SD, truth, MARGIN, n) - 0.01


def test_factorial_contrasts_and_interactions_cover_and_keep_their_level():
    rng = np.random.default_rng(6)
    cells = pd.MultiIndex.from_product([["a", "b", "c"], ["x", "y"], range(5)], names=["kind", "site", "seed"])
    frame = cells.to_frame(index=False)
    truth = frame["kind"].map({"a": 0.0, "b": 0.01, "c": 0.03}) + frame["site"].map({"x": 0.0, "y": 0.02})
    covered, interaction = [], []
    for _ in range(200):
        seeds = dict(enumerate(rng.normal(0, 0.02, 5)))
        frame["acc"] = truth + frame["seed"].map(seeds) + rng.normal(0, SD, len(frame))
        fitted = stats.factorial(frame, "acc", ["kind", "site"])
        true = {("b", "a"): 0.01, ("c", "a"): 0.03, ("c", "b"): 0.02, ("y", "x"): 0.02}
        covered += [c.diff.low <= true[c.high, c.low] <= c.diff.high for c in fitted.contrasts]
        interaction.append(next(row.p for row in fitted.anova if row.term == ("kind", "site")) <= ALPHA)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert at_most(ALPHA, np.array(interaction))


def cases(kind: type, truth: float, bound: float, n: int, studies: int = 3000) -> list:
    """One case of a claim in each of many studies; what it is held against is `bound`."""
    draws = np.random.default_rng([n, 7]).normal(truth, SD, (studies, n))
    return [kind(("a", "b"), diffs, bound) for diffs in draws]


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("kind", [AboveHypothesis, AlikeHypothesis, PublishedHypothesis])
def test_at_its_bound_a_case_is_rarely_shown_and_rarely_refuted(n, kind):
    found = cases(kind, truth=MARGIN, bound=MARGIN, n=n)
    assert at_most(ALPHA, np.array([case.p_for() <= ALPHA for case in found]))
    assert at_most(ALPHA, np.array([case.p_against() <= ALPHA for case in found]))


@pytest.mark.parametrize("n", SEEDS)
def test_a_true_headline_from_one_lucky_run_is_rarely_refuted(n):
    """The published figure is itself one run of the configuration, with a run's spread."""
    rng = np.random.default_rng([n, 8])
    diffs = rng.normal(0, SD, (3000, n)) - rng.normal(0, SD, (3000, 1))
    refuted = [PublishedHypothesis(("a",), row, 1e-9).p_against() <= ALPHA for row in diffs]
    assert at_most(ALPHA, np.array(refuted))
    assert np.mean(refuted) > 0.03  # without a margin that is the prediction interval of one run, at its level


def test_claims_with_many_cases_keep_both_errors():
    rng = np.random.default_rng(9)
    kinds = {
        "none": 0.900,
        "learned-1d": 0.910,
        "learned-2d": 0.910,
        "relative": 0.910,
    }  # a margin above none, all alike
    runs = [{"variant": kind, "levels": {"model.pos_embed": kind}, "seed": seed} for kind in kinds for seed in range(5)]
    study = {"metric": "test/acc", "margin": MARGIN, "base": {}, "runs": runs}
    found = []
    for _ in range(200):
        values = {kind: dict(enumerate(rng.normal(mean, SD, 5))) for kind, mean in kinds.items()}
        found.append({r.claim.id: r.verdict for r in check(LITERATURE, study, values)})
    verdict = pd.DataFrame(found)
    assert at_most(ALPHA, verdict["paper-none"] == "reproduced")
    assert at_most(ALPHA, verdict["paper-none"] == "contradicted")
    assert at_most(ALPHA, verdict["paper-kinds"] == "contradicted")
