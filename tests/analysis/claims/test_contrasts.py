"""Claims about how one setting depends on another, and about some levels only, against numbers worked out by hand
or by SciPy.
"""

import numpy as np
import pytest
import study_file
from scipy import stats as scipy_stats

from analysis.claims import literature
from analysis.claims.check import check
from analysis.stats.comparisons import Rule

KIND, STEM, POOL, LR, DEPTH = "model.pos_embed", "model.stem", "model.pool", "optim.lr", "model.depth"
SEEDS = np.array([[0.0010, -0.0004, 0.0007, -0.0011, -0.0002], [-0.0005, 0.0008, -0.0003, 0.0004, -0.0004]])


def claims(levels, means, **more):
    """Claim -> its result, where the seeds of a variant scatter about its mean by about .07 points."""
    values = {v: dict(enumerate(m + np.roll(SEEDS[i % 2], i))) for i, (v, m) in enumerate(means.items())}
    plan = study_file.plan(levels, **more)
    found = check(literature.published_claims(), plan, values, Rule(0.01, variance="paired"))
    return {result.claim.id: result for result in found}, {v: np.array([*own.values()]) for v, own in values.items()}


def stems(path, *levels):
    return {f"{stem} {level}": {STEM: stem, path: level} for stem in ("patchify", "conv") for level in levels}


@pytest.mark.parametrize(("with_conv", "verdict"), [(0.91, "holds here"), (0.96, "does not hold here")])
def test_a_gain_at_two_levels_of_another_setting(with_conv, verdict):
    means = {"patchify none": 0.80, "patchify learned-1d": 0.84, "conv none": 0.90, "conv learned-1d": with_conv}
    found, runs = claims(stems(KIND, "none", "learned-1d"), means)
    result = found["less-with-stem"]
    (tested,) = result.hypotheses
    of_seeds = (runs["patchify learned-1d"] - runs["patchify none"]) - (runs["conv learned-1d"] - runs["conv none"])
    assert tested.variants == ("patchify learned-1d", "patchify none", "conv learned-1d", "conv none")
    assert tested.moments == pytest.approx((of_seeds.mean(), of_seeds.std(ddof=1), 5))
    assert tested.p_for() == pytest.approx(scipy_stats.ttest_1samp(of_seeds, 0, alternative="greater").pvalue)
    assert result.outcome == verdict


@pytest.mark.parametrize(("scatter", "verdict"), [(0.01, "holds here"), (0.1, "does not hold here")])
def test_a_spread_over_learning_rates(scatter, verdict):
    rates = (1e-3, 1e-2, 1e-1)
    means = {f"patchify {rate}": 0.9 + step for rate, step in zip(rates, (-0.05, 0, 0.04))}
    means |= {f"conv {rate}": 0.9 + step for rate, step in zip(rates, (-scatter, 0, scatter))}
    found, runs = claims(stems(LR, *rates), means)
    tested, *without = found["stem-lr"].hypotheses
    spread = {s: np.std([runs[f"{s} {rate}"] for rate in rates], axis=0, ddof=1) for s in ("patchify", "conv")}
    assert tested.moments[0] == pytest.approx(np.mean(spread["patchify"] - spread["conv"]))
    assert len(without) == 3 and all(len(each.variants) == 4 for each in without)
    assert found["stem-lr"].outcome == verdict
    fewer = {v: own for v, own in stems(LR, *rates).items() if own[LR] != rates[0]}
    assert "stem-lr" not in claims(fewer, {v: means[v] for v in fewer})[0]  # two rates do not show a spread


def test_a_spread_that_one_rate_alone_makes_is_not_a_lower_sensitivity():
    """At the lowest rate the model without a convolutional stem fails; at the others it is the less sensitive one."""
    rates = (1e-3, 1e-2, 3e-2, 1e-1)
    means = {f"patchify {rate}": mean for rate, mean in zip(rates, (0.5, 0.900, 0.901, 0.902))}
    means |= {f"conv {rate}": mean for rate, mean in zip(rates, (0.88, 0.900, 0.91, 0.92))}
    found, _ = claims(stems(LR, *rates), means)
    assert found["stem-lr"].hypotheses[0].p_for() < 0.001 and found["stem-lr"].outcome == "does not hold here"


@pytest.mark.parametrize(
    ("middle", "outcome"),
    [({"cls 0.01": 0.95, "gap 0.01": 0.96}, "holds here"), ({"cls 0.01": 0.95}, "not comparable")],
)
def test_the_gain_of_a_pooling_at_the_highest_and_the_lowest_rate(middle, outcome):
    """It is decided only where the best rate of each pooling lies between the ends of what was tried."""
    levels = {f"{pool} {rate}": {POOL: pool, LR: rate} for rate in (0.1, 0.001, 0.01) for pool in ("cls", "gap")}
    means = dict.fromkeys(levels, 0.9) | {"gap 0.1": 0.8, "gap 0.001": 0.955} | middle
    found, _ = claims(levels, means)
    (tested,) = found["pool-lr"].hypotheses
    assert tested.variants == ("cls 0.1", "gap 0.1", "cls 0.001", "gap 0.001")
    assert found["pool-lr"].outcome == outcome and tested.moments[0] == pytest.approx(0.155, abs=1e-3)
    reason = "" if outcome == "holds here" else "gap is best at an end of what was tried, optim.lr = 0.001"
    assert found["pool-lr"].obstacle == reason


def test_an_embedding_is_optional_only_with_the_stem_that_the_claim_names():
    """It is about leaving the embedding out, not about the difference between two embeddings."""
    levels = stems(KIND, "none", "learned-1d", "sincos-2d")
    means = dict.fromkeys(levels, 0.80) | {"conv none": 0.90, "conv learned-1d": 0.902, "conv sincos-2d": 0.898}
    found, _ = claims(levels, means)
    assert found["none-with-stem"].outcome == "holds here" and found["optional-with-stem"].outcome == "not comparable"
    pairs = [("conv learned-1d", "conv none"), ("conv sincos-2d", "conv none")]
    assert [each.variants for each in found["none-with-stem"].hypotheses] == pairs


@pytest.mark.parametrize(
    ("last", "verdict"), [(0.93, "holds here"), (0.85, "does not hold here"), (0.92, "undecided here")]
)
def test_each_more_layer_against_each_fewer(last, verdict):
    found, _ = claims({d: {DEPTH: int(d)} for d in "412"}, {"4": last, "1": 0.9, "2": 0.92})
    assert {each.variants for each in found["depth"].hypotheses} == {("4", "1"), ("4", "2"), ("2", "1")}
    assert found["depth"].outcome == verdict


@pytest.mark.parametrize(("none", "outcome"), [(0.65, "holds here"), (0.4, "does not hold here")])
def test_a_claim_about_permuted_patches_is_tested_by_the_accuracy_on_them_only(none, outcome):
    means = {"none": none, "learned-1d": 0.5}
    levels = {kind: {KIND: kind} for kind in means}
    found, _ = claims(levels, means, metric="permuted/acc")
    assert {id: result.outcome for id, result in found.items()} == {"none-permuted": outcome}
    assert "none-permuted" not in claims(levels, means)[0]


@pytest.mark.parametrize(("metric", "tested"), [("test/acc@16px", True), ("test/acc@4px", False), ("test/acc", False)])
@pytest.mark.parametrize(
    ("means", "outcome"),
    [
        ({"none": 0.22, "rope-2d": 0.5, "rope-mixed": 0.6}, "holds here"),
        ({"none": 0.22, "rope-2d": 0.6, "rope-mixed": 0.5}, "does not hold here"),
        ({"none": 0.22, "rope-2d": 0.6, "rope-mixed": 0.13}, "does not hold here"),  # the better one works
        ({"none": 0.22, "rope-2d": 0.21, "rope-mixed": 0.13}, "not comparable"),
        ({"none": 0.22, "rope-2d": 0.13, "rope-mixed": 0.26}, "not comparable"),  # one has collapsed
        ({"none": 0.22, "rope-2d": 0.225, "rope-mixed": 0.4}, "not comparable"),  # less than the margin above none
        ({"rope-2d": 0.5, "rope-mixed": 0.6}, "not comparable"),
    ],
)
def test_claims_about_larger_images_need_models_that_still_beat_none_there(metric, tested, means, outcome):
    base = {"data": {"name": "digits", "img_size": None}}  # 8 px
    found, _ = claims({kind: {KIND: kind} for kind in means}, means, base=base, metric=metric)
    assert ("rope-mixed-larger" in found) == tested
    assert found.keys() <= {"rope-mixed-larger"} if metric != "test/acc" else "any-kinds" in found
    if tested:
        result = found["rope-mixed-larger"]
        assert result.outcome == outcome and bool(result.obstacle) == (outcome == "not comparable")
