"""Error rates and coverage of the statistics: seeded simulations of studies whose truth is known."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import study_file
from scipy import stats as scipy_stats
from simulation import ALPHA, MARGIN, NEVER, SD, at_most

from analysis import stats
from analysis.claims.check import check
from analysis.claims.claim import Evidence
from analysis.claims.literature import LITERATURE, published_claims
from analysis.stats import Looks, Rule
from analysis.stats.comparisons import compare
from analysis.stats.estimates import moments, t_interval, t_test
from analysis.stats.power import detectable
from experiments.presets import preset

SEEDS = (3, 5, 10)


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


# power


@pytest.mark.parametrize("n", SEEDS)
def test_detectable_difference_is_found_in_four_of_five_studies(n):
    difference = detectable(SD, n)
    found = t_test(np.random.default_rng(n).normal(difference, SD, (20_000, n))) <= ALPHA
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
        false.append("shown" in set(found.terms.set_index("term").loc[["site", "kind+site"], "verdict"]))
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
        shown = found.contrasts["verdict"].to_numpy() == "shown"
        true = np.diff(np.array(levels)[found.contrasts[["reference", "level"]].to_numpy(dtype=int)])[:, 0] != 0
        false.append(any(shown & ~true) or "shown" in set(found.interactions["verdict"]))
        power.append(np.mean(shown[true]))
    assert at_most(ALPHA, np.array(false))
    assert np.mean(power) > (0.98 if len(levels) == 3 else 0.75)


# claims


@pytest.mark.parametrize("n", SEEDS)
def test_a_true_figure_from_one_lucky_run_is_rarely_refuted(n):
    """The published figure is itself one run of the configuration, with a run's spread."""
    rng, refuted = np.random.default_rng([n, 8]), []
    base = preset("pulfer-mnist").model_dump(mode="json")
    kind = base["model"]["pos_embed"]
    plan = study_file.plan({"a": {"model.pos_embed": kind}}, base=base, preset="pulfer-mnist")
    for row in 0.7885 + rng.normal(0, SD, (400, n)) - rng.normal(0, SD, (400, 1)):
        (found,) = check(published_claims(), Evidence(plan, {"a": dict(enumerate(row))}, {}, Rule(NEVER)))
        refuted.append(found.outcome == "does not hold here")
    assert at_most(ALPHA, np.array(refuted))
    assert np.mean(refuted) > 0.02  # without a margin that is the interval for one more run, at its level


@pytest.mark.parametrize("sd", [0.002, SD])
@pytest.mark.parametrize("plan", [(), (5, 10)])
def test_false_outcomes_of_all_claims_together_in_at_most_alpha_of_all_studies(sd, plan):
    """Every kind is a margin above none, so no claim of "far below" holds, but that of "below"; all alike, so every
    claim of "alike" does, and none of "better".
    """
    rng = np.random.default_rng(9)
    kinds = {"none": 0.900, "learned-1d": 0.910, "learned-2d": 0.910, "relative": 0.910, "rope-2d": 0.910}
    study = study_file.plan({kind: {"model.pos_embed": kind} for kind in kinds}, seeds=10, margin=MARGIN)
    pairs, false = list(combinations(kinds, 2)), []
    for _ in range(100):
        runs = {kind: rng.normal(mean, sd, plan[-1] if plan else 5) for kind, mean in kinds.items()}
        wrong = []
        for n in plan or (5,):
            rule = Rule(MARGIN, looks=Looks(plan, tuple(range(n))))
            values = {kind: dict(enumerate(row[:n])) for kind, row in runs.items()}
            evidence = Evidence(study, values, compare(values, pairs, rule), rule)
            outcomes = {result.claim.id: result.outcome for result in check(LITERATURE, evidence)}
            opposite = ("kinds", "relative-none")
            wrong += [
                verdict == ("does not hold here" if claim.endswith(opposite) else "holds here")
                for claim, verdict in outcomes.items()
            ]
        false.append(any(wrong))
    assert at_most(ALPHA, np.array(false))
