"""Error rates and coverage of the statistics: seeded simulations of studies whose truth is known."""

import math

import numpy as np
import pandas as pd
import pytest
import simulation
import study_file
from scipy import stats as scipy_stats
from simulation import ALPHA, MARGIN, NEVER, SD, all_pairs, at_most

from analysis import stats
from analysis.claims.check import check
from analysis.claims.claim import Hypothesis
from analysis.claims.literature import LITERATURE
from analysis.stats import Rule
from analysis.stats.differences import paired_differences
from analysis.stats.estimates import moments, t_interval, t_test
from analysis.stats.power import detectable

SEEDS = (3, 5, 10)


def families(n: int, truth: list[float], studies: int = 20_000, seed: int = 0, sd: float = SD) -> np.ndarray:
    """Differences (studies, variants, seeds) of variants to one shared baseline; a seed lifts all its runs alike."""
    rng = np.random.default_rng([seed, n])
    runs = rng.normal(0, sd / np.sqrt(2), (studies, len(truth) + 1, n)) + rng.normal(0, sd, (studies, 1, n))
    return runs[:, 1:] - runs[:, :1] + np.array(truth)[:, None]


def signs(diffs: np.ndarray, margin: float = MARGIN, floor: float = 0.0) -> np.ndarray:
    return simulation.signs(diffs, Rule(margin, floor=floor))


# intervals


@pytest.mark.parametrize("n", SEEDS)
def test_intervals_of_paired_differences_cover_at_their_level(n):
    truth, variants = 0.004, [f"v{i}" for i in range(4000)]
    gains = np.random.default_rng(n).normal(truth, SD, (len(variants), n))
    values = {"base": dict.fromkeys(range(n), 0.9)}
    values |= {variant: dict(enumerate(0.9 + row)) for variant, row in zip(variants, gains, strict=True)}
    compared = stats.compare(values, [(variant, "base") for variant in variants], Rule(MARGIN, variance="paired"))
    assert 0.94 <= np.mean([c.diff.low <= truth <= c.diff.high for c in compared.values()]) <= 0.96


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("draw", ["normal", "uniform", "few images"])
def test_intervals_of_a_mean_cover_even_where_seeds_are_not_quite_normal(n, draw):
    rng = np.random.default_rng([n, 1])
    shape = (20_000, n)
    x = {
        "normal": lambda: rng.normal(0, 1, shape),
        "uniform": lambda: rng.uniform(-1, 1, shape),
        "few images": lambda: np.rint(rng.normal(0, 2, shape)),
    }[draw]()
    centre, spread, counts = moments(x, 0.5 if draw == "few images" else 0.0)
    low, high = t_interval(centre, spread / np.sqrt(n), counts - 1)
    assert 0.92 <= np.mean((low <= 0) & (high >= 0)) <= 0.97


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("spread", [0.1, 0.3, 1])
def test_intervals_cover_where_runs_agree_to_the_image(n, spread):
    """Accuracies in steps of one image, that mostly agree: without a floor the interval has no width."""
    rng = np.random.default_rng([n, 11])
    true = rng.uniform(-0.5, 0.5, (20_000, 1))
    centre, deviation, counts = moments(np.rint(true + rng.normal(0, spread, (20_000, n))), 0.5)
    low, high = t_interval(centre, deviation / np.sqrt(n), counts - 1)
    images = np.arange(-8, 9)
    cdf = scipy_stats.norm.cdf
    share = cdf((images + 0.5 - true) / spread) - cdf((images - 0.5 - true) / spread)
    expected = share @ images
    assert np.mean((low <= expected) & (high >= expected)) >= 0.945


# verdicts


@pytest.mark.parametrize("n", (2, *SEEDS))
@pytest.mark.parametrize("variants", [1, 3, 10])
def test_false_differences_in_at_most_alpha_of_all_families(n, variants):
    diffs = families(n, [0.0] * variants)
    for margin in (NEVER, MARGIN):
        assert at_most(ALPHA, np.any(np.abs(signs(diffs, margin)) == 1, axis=-1))


@pytest.mark.parametrize("n", SEEDS)
def test_true_differences_beside_them_do_not_make_false_ones_likelier(n):
    found = signs(families(n, [0.3, 0.2, 0.0, 0.0]), NEVER)
    assert at_most(ALPHA, np.any(np.abs(found[:, 2:]) == 1, axis=-1))
    assert found[:, :2].min() == 1


@pytest.mark.parametrize("n", SEEDS)
def test_a_wild_baseline_does_not_make_false_differences(n):
    rng = np.random.default_rng([n, 4])
    runs = rng.normal(0, 1, (20_000, 4, n)) * np.array([5, 1, 0.2, 1])[:, None]
    assert at_most(ALPHA, np.any(np.abs(signs(runs[:, 1:] - runs[:, :1], NEVER)) == 1, axis=-1))


@pytest.mark.parametrize("n", (2, 3, 4, 5, 10))
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.5, 0.7, 1, 2])
def test_accuracies_in_steps_of_one_image_make_no_false_verdicts(n, spread):
    """Equal differences come about by chance there; they must not pass for certainty."""
    rng = np.random.default_rng([n, 5])
    true = rng.uniform(-0.5, 0.5, (20_000, 1, 1))
    runs = np.rint(true + rng.normal(0, spread, (20_000, 2, n)))
    diffs = (runs[:, :1] - runs[:, 1:]) / 100
    floor = math.sqrt(2) * 0.005
    assert at_most(ALPHA, np.abs(signs(diffs, NEVER, floor)) == 1)
    assert at_most(ALPHA, signs(diffs + MARGIN, MARGIN, floor) == 0)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("sd", [0.001, 0.003, 0.006])
def test_each_kind_of_false_verdict_in_at_most_alpha_of_all_studies(n, sd):
    """Two groups of variants, a margin apart: pairs within a group do not differ, pairs across are not equivalent."""
    means = np.array([0, 0, MARGIN, MARGIN])
    rng = np.random.default_rng([n, 12])
    runs = rng.normal(0, sd, (20_000, 4, n)) + rng.normal(0, sd, (20_000, 1, n)) + means[:, None]
    found = signs(all_pairs(runs))
    across = np.abs(all_pairs(means[None, :, None])[0, :, 0]) > 0
    equivalence, difference = across & (found == 0), ~across & (np.abs(found) == 1)
    assert at_most(ALPHA, np.any(equivalence, axis=-1)) and at_most(ALPHA, np.any(difference, axis=-1))
    assert at_most(0.06, np.any(equivalence | difference, axis=-1))  # two families: Methods says so


def test_equivalence_is_tested_at_its_level_and_not_far_below():
    p = paired_differences(families(5, [MARGIN], sd=0.002)[:, 0]).tost(MARGIN)
    assert 0.045 <= np.mean(p <= ALPHA) <= 0.055


@pytest.mark.parametrize("n", SEEDS)
def test_hardly_ever_the_wrong_sign(n):
    assert at_most(ALPHA / 2, signs(families(n, [0.002]), NEVER) == -1)


# power


@pytest.mark.parametrize("n", SEEDS)
def test_detectable_difference_is_found_in_four_of_five_studies(n):
    difference = detectable(SD, n)
    found = t_test(families(n, [difference])[:, 0]) <= ALPHA
    assert found.mean() == pytest.approx(0.8, abs=0.01)


# factors


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("crossed", [0, 3])
def test_factors_keep_their_level_whatever_varies_with_the_seed(n, crossed):
    """`crossed` is the factor x seed variation relative to that of runs, which an error pooled over cells leaves
    out.
    """
    rng = np.random.default_rng([n, 6])
    cells = pd.MultiIndex.from_product([["a", "b", "c"], ["x", "y"], range(n)], names=["kind", "site", "seed"])
    frame = cells.to_frame(index=False)
    true = {("b", "a"): 0.01, ("c", "a"): 0.03, ("c", "b"): 0.02, ("y", "x"): 0.0}
    shift = {"a": 0.0, "b": 0.01, "c": 0.03}
    covered, cell_covered, false = [], [], []
    for _ in range(200):
        noise = rng.normal(0, SD, (3, 2, n)) + rng.normal(0, 0.02, n)
        noise += crossed * (rng.normal(0, SD, (3, 1, n)) + rng.normal(0, SD, (1, 2, n)))
        frame["acc"] = frame["kind"].map(shift) + noise.ravel()
        found = stats.factorial(frame, "acc", ["kind", "site"])
        contrasts = found.contrasts[["level", "reference", "diff"]].itertuples(index=False)
        covered += [diff.low <= true[level, reference] <= diff.high for level, reference, diff in contrasts]
        cell_covered += [m.low <= shift[kind] <= m.high for (kind, _), m in found.means["kind", "site"].items()]
        false.append(any(found.terms.set_index("term").loc[["site", "kind+site"], "p_holm"] <= ALPHA))
    assert np.mean(covered) >= 0.93 and np.mean(cell_covered) >= 0.92
    assert at_most(ALPHA, np.array(false))


@pytest.mark.parametrize("levels", [[0, 0, 3], [0, 0, 3, 3]], ids=["3 x 3 x 3", "4 x 4"])
def test_levels_that_do_not_differ_are_rarely_told_apart_beside_levels_that_do(levels):
    """True effects make every factor significant; its other contrasts, and all interactions, must stay at the level
    of the study.
    """
    rng = np.random.default_rng([len(levels), 15])
    factors = ["kind", "site", "depth"][: 6 - len(levels)]
    frame = pd.MultiIndex.from_product([range(len(levels))] * len(factors) + [range(5)], names=[*factors, "seed"])
    frame = frame.to_frame(index=False)
    shift, false, power = np.array(levels)[frame[factors]].sum(axis=1), [], []
    for _ in range(250):
        frame["acc"] = shift + rng.normal(0, 1, len(frame))
        found = stats.factorial(frame, "acc", factors, families=2)
        shown = found.contrasts["p_holm"].to_numpy() <= ALPHA
        true = np.diff(np.array(levels)[found.contrasts[["reference", "level"]].to_numpy(dtype=int)])[:, 0] != 0
        false.append(any(shown & ~true) or any(found.interactions["p_holm"] <= ALPHA))
        power.append(np.mean(shown[true]))
    assert at_most(ALPHA, np.array(false))
    assert np.mean(power) > (0.98 if len(levels) == 3 else 0.8)


# claims


def hypotheses(variants: tuple, relation: str, truth: float, bound: float, n: int, studies: int = 3000) -> list:
    """One hypothesis in each of many studies, tested against `bound`."""
    draws = np.random.default_rng([n, 7]).normal(truth, SD, (studies, n))
    return [hypothesis(variants, diffs, relation, bound) for diffs in draws]


def hypothesis(variants: tuple, diffs: np.ndarray, relation: str, bound: float) -> Hypothesis:
    return Hypothesis(variants, [paired_differences(diffs[None])], relation, bound)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize(
    ("variants", "relation"), [(("a", "b"), "above"), (("a", "b"), "within"), (("published",), "within")]
)
def test_at_its_bound_a_hypothesis_is_rarely_shown_and_rarely_refuted(n, variants, relation):
    found = hypotheses(variants, relation, truth=MARGIN, bound=MARGIN, n=n)
    assert at_most(ALPHA, np.array([each.p_for() <= ALPHA for each in found]))
    assert at_most(ALPHA, np.array([each.p_against() <= ALPHA for each in found]))


@pytest.mark.parametrize("n", SEEDS)
def test_a_true_figure_from_one_lucky_run_is_rarely_refuted(n):
    """The published figure is itself one run of the configuration, with a run's spread."""
    rng = np.random.default_rng([n, 8])
    diffs = rng.normal(0, SD, (3000, n)) - rng.normal(0, SD, (3000, 1))
    refuted = [hypothesis(("a",), row, "within", NEVER).p_against() <= ALPHA for row in diffs]
    assert at_most(ALPHA, np.array(refuted))
    assert np.mean(refuted) > 0.03  # without a margin that is the prediction interval of one run, at its level


@pytest.mark.parametrize("sd", [0.002, SD])
def test_false_outcomes_of_all_claims_together_in_at_most_alpha_of_all_studies(sd):
    """Every kind is a margin above none, so no claim of "far below" holds, but that of "below"; all alike, so every
    claim of "alike" does, and none of "better".
    """
    rng = np.random.default_rng(9)
    kinds = {"none": 0.900, "learned-1d": 0.910, "learned-2d": 0.910, "relative": 0.910, "rope-2d": 0.910}
    study = study_file.plan({kind: {"model.pos_embed": kind} for kind in kinds}, margin=MARGIN)
    false = []
    for _ in range(200):
        values = {kind: dict(enumerate(rng.normal(mean, sd, 5))) for kind, mean in kinds.items()}
        found = {result.claim.id: result.outcome for result in check(LITERATURE, study, values, Rule(MARGIN))}
        false.append(
            any(
                verdict == ("does not hold here" if claim.endswith(("kinds", "relative-none")) else "holds here")
                for claim, verdict in found.items()
            )
        )
    assert at_most(ALPHA, np.array(false))
