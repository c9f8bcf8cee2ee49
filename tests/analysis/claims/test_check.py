"""Published statements against studies whose answer is plain to see, and by the intervals of their pairs."""

import math
from itertools import combinations

import numpy as np
import pytest
import study_file
from scipy import stats as scipy_stats

from analysis.claims import literature
from analysis.claims.check import ClaimResult, check
from analysis.claims.claim import Evidence, Hypothesis, Published
from analysis.verdicts.comparisons import Rule, compare, with_failed
from analysis.verdicts.estimates import Estimate
from experiments.presets import PRESETS, preset

RULE = Rule(0.01, variance="paired")
KIND, SITE, HEAD = "model.pos_embed", "model.pos_site", "model.head"
NOISE = np.array([0.0010, -0.0004, 0.0007, -0.0011, -0.0002, 0.0005, -0.0008, 0.0003, 0.0004, -0.0004])


def values(means: dict[str, float], n: int = 5, spread: float = 1.0) -> dict[str, dict[int, float]]:
    """Each variant's seeds scatter about its mean in their own way, by about .07 points times `spread`."""
    return {v: dict(enumerate(mean + spread * np.roll(NOISE, 3 * i)[:n])) for i, (v, mean) in enumerate(means.items())}


def evidence(plan, runs: dict[str, dict[int, float]], rule: Rule = RULE, counted: dict | None = None) -> Evidence:
    """What a study of these runs shows of all its pairs."""
    compared = compare(runs, list(combinations(runs, 2)), rule)
    if counted is not None:
        compared = with_failed(compared, compare(counted, list(combinations(runs, 2)), rule), rule)
    return Evidence(plan, runs, compared, rule, counted)


def outcome(levels: dict[str, dict], means: dict[str, float], **more) -> dict[str, ClaimResult]:
    results = check(literature.published_claims(), evidence(study_file.plan(levels, **more), values(means)))
    return {result.claim.id: result for result in results}


def kinds(*names: str) -> dict[str, dict]:
    """Variants that differ in the kind of embedding; their labels say nothing."""
    return {f"variant {i}": {KIND: name} for i, name in enumerate(names)}


@pytest.mark.parametrize("metric", ["test/loss", "shift/1", "test/acc@16px", "train/acc", "val/acc"])
def test_other_metrics_say_nothing_about_published_accuracies(metric):
    levels, means = kinds("none", "learned-1d", "learned-2d"), {f"variant {i}": 0.6 + 0.1 * i for i in range(3)}
    assert outcome(levels, means, metric="fewshot/mnist/5").keys() == outcome(levels, means).keys() != set()
    assert outcome(levels, means, metric=metric) == {}


def test_the_papers_table_is_as_printed():
    printed = """
        No Pos. Emb.   0.61382 N/A     N/A
        1-D Pos. Emb.  0.64206 0.63964 0.64292
        2-D Pos. Emb.  0.64001 0.64046 0.64022
        Rel. Pos. Emb. 0.64032 N/A     N/A
    """
    rows = [line.split()[-3:] for line in printed.strip().splitlines()]
    for kind, row in zip(("none", "learned-1d", "learned-2d", "relative"), rows):
        for site, figure in zip(("stem", "every-layer", "every-layer-shared"), row):
            assert literature.PAPER_TABLE_8.get((kind, site), "N/A") == (float(figure) if figure != "N/A" else "N/A")


def test_the_paper_bears_out_its_own_claims():
    """With the paper's figures, a little noise and a margin of half a point, its claims hold."""
    levels = {
        f"{kind} at {site}": {KIND: kind, SITE: site} for kind, site in literature.PAPER_TABLE_8 if kind != "relative"
    }
    means = {f"{kind} at {site}": mean for (kind, site), mean in literature.PAPER_TABLE_8.items() if kind != "relative"}
    found = outcome(levels, means, margin=0.005)
    assert {k: r.outcome for k, r in found.items()} == dict.fromkeys(
        ("paper-none", "paper-kinds", "paper-sites"), "holds here"
    )


@pytest.mark.parametrize(("patch", "verdict"), [(4, "holds here"), (8, "not comparable")])
def test_cpe_on_larger_images_needs_a_grid_with_tokens_away_from_its_border(patch, verdict):
    base = {"data": {"name": "cifar10"}, "model": {"patch_size": patch}}
    means = {"variant 0": 0.3, "variant 1": 0.6, "variant 2": 0.7}
    found = outcome(kinds("none", "learned-1d", "cpe"), means, base=base, metric="test/acc@64px")
    assert found["cpe-larger"].outcome == verdict
    assert bool(found["cpe-larger"].obstacle) == (verdict == "not comparable")


def test_a_model_without_embedding_shows_nothing_on_permuted_patches():
    means = {"variant 0": 0.7, "variant 1": 0.4}
    found = outcome(kinds("none", "learned-1d"), means, metric="permuted/acc")
    assert found["none-permuted"].outcome == "not comparable" and "construction" in found["none-permuted"].obstacle


def test_kinds_beyond_the_papers_are_a_claim_of_their_own():
    levels = kinds("none", "learned-1d", "learned-2d", "rope-2d", "alibi-2d")
    means = {"variant 0": 0.72, "variant 1": 0.95, "variant 2": 0.951, "variant 3": 0.99, "variant 4": 0.715}
    found = outcome(levels, means)
    verdicts = {claim: result.outcome for claim, result in found.items()}
    assert verdicts == {
        "paper-none": "holds here",
        "any-none": "does not hold here",  # alibi is no better than none
        "paper-kinds": "holds here",
        "any-kinds": "does not hold here",
        "rival-rope-2d": "holds here",
        "rope-table": "holds here",
        "alibi-table": "not comparable",  # it ranks two kinds that both beat none
    }
    assert found["any-none"].decisive.variants == ("variant 4", "variant 0")
    works = {**means, "variant 4": 0.75}
    assert outcome(levels, works)["alibi-table"].outcome == "does not hold here"


def test_the_interval_of_a_claim_is_that_of_the_weakest_pair_of_the_study():
    levels = kinds("none", "learned-1d", "learned-2d", "rope-2d")
    means = {"variant 0": 0.72, "variant 1": 0.95, "variant 2": 0.94, "variant 3": 0.99}
    found = outcome(levels, means)["any-none"]
    assert (found.outcome, found.hits, found.decisive.variants) == ("holds here", 3, ("variant 2", "variant 0"))
    runs = values(means)
    diffs = np.subtract([*runs["variant 2"].values()], [*runs["variant 0"].values()])
    low, high = scipy_stats.ttest_1samp(diffs, 0).confidence_interval(1 - 0.05 / 6)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high), rel=1e-6)


def test_labels_do_not_matter_and_other_settings_do():
    for depth, claims in ((6, set()), (2, {"paper-none"})):  # they differ in depth as well
        levels = {"none": {KIND: "learned-1d", "model.depth": 2}, "rope": {KIND: "none", "model.depth": depth}}
        assert {*outcome(levels, {"none": 0.9, "rope": 0.7})} == claims


def test_sites_are_compared_within_a_kind_and_kinds_at_their_natural_sites():
    levels = {
        "a": {KIND: "learned-1d", SITE: "stem"},
        "b": {KIND: "learned-1d", SITE: "every-layer"},
        "c": {KIND: "relative", SITE: "natural"},
        "d": {KIND: "learned-1d", SITE: "natural"},  # the stem again: no other site than a's
        "e": {KIND: "learned-2d", SITE: "every-layer"},  # no hypothesis with a or d: kind and site would differ
    }
    found = outcome(levels, {"a": 0.900, "b": 0.9015, "c": 0.97, "d": 0.900, "e": 0.900})
    assert {each.variants for each in found["paper-sites"].hypotheses} == {("b", "a"), ("d", "b")}
    assert {frozenset(each.variants) for each in found["paper-kinds"].hypotheses} == {
        frozenset(pair) for pair in ("ac", "dc", "bc", "be", "ce")
    }  # b, c and e act in every layer
    assert found["paper-sites"].outcome == "holds here"
    assert found["paper-kinds"].outcome == "does not hold here"
    assert "rival-relative-2d-kv" not in found  # the other table's "relative" is not the paper's


def test_a_setting_that_no_factor_moves_is_read_from_the_base():
    base = {"model": {"pos_embed": "learned-2d", "pos_site": "natural", "head": "logits"}}
    levels = {"stem": {SITE: "stem"}, "every": {SITE: "every-layer"}}
    assert outcome(levels, {"stem": 0.9, "every": 0.95}, base=base)["paper-sites"].outcome == "does not hold here"


@pytest.mark.parametrize("data", [{"shuffle_patches": True}, {"name": "probe-where"}], ids=str)
def test_controls_are_no_evidence(data):
    base = {"data": data}
    assert outcome(kinds("none", "learned-1d"), {"variant 0": 0.7, "variant 1": 0.7}, base=base) == {}


@pytest.mark.parametrize(
    ("softmax", "verdict"),
    [(0.90, "holds here"), (0.947, "holds here"), (0.96, "does not hold here"), (0.9501, "undecided here")],
)
def test_softmax_before_the_loss(softmax, verdict):
    found = outcome({"l": {HEAD: "logits"}, "s": {HEAD: "softmax"}}, {"l": 0.95, "s": softmax})
    assert {claim: result.outcome for claim, result in found.items()} == {"softmax-head": verdict}


# headlines


def headline(mean: float, change: dict | None = None, spread: float = 1.0, n: int = 5, **more):
    base = preset("pulfer-mnist").model_dump(mode="json")
    for path, value in (change or {}).items():
        section, field = path.split(".")
        base[section][field] = value
    levels = {"sin": {KIND: "sinusoidal"}, "flat": {KIND: "none"}}
    plan = study_file.plan(levels, base=base, **{"preset": "pulfer-mnist", **more})
    results = check(literature.published_claims(), evidence(plan, values({"sin": mean, "flat": 0.5}, n, spread)))
    return next((result for result in results if isinstance(result.claim, Published)), None)


def test_a_figure_whose_source_leaves_the_system_open_cannot_be_compared():
    base = preset("owen-cifar10").model_dump(mode="json")
    plan = study_file.plan({"a": {KIND: base["model"]["pos_embed"]}}, base=base, preset="owen-cifar10")
    results = check(literature.published_claims(), evidence(plan, values({"a": 0.71})))
    (found,) = [result for result in results if isinstance(result.claim, Published)]
    assert found.outcome == "not comparable" and found.obstacle.startswith("the source does not state depth")


def test_every_published_figure_is_a_claim_with_its_source():
    headlines = {c.preset: c for c in literature.published_claims() if isinstance(c, Published)}
    assert {name: claim.accuracy for name, claim in headlines.items()} == {
        "pulfer-mnist": 0.7885,
        "tintn-cifar10": 0.755,
        "lodha-cifar10": 0.556,
        "owen-cifar10": 0.64,
        "vit-lite-6-4": 0.9094,
        "vit-lite-7-4": 0.9138,
    }
    assert all(PRESETS[name].source in claim.source for name, claim in headlines.items())
    assert all(bool(claim.quote) == bool(claim.source) for claim in literature.published_claims())


HOLDS, FAILS, OPEN = "holds here", "does not hold here", "undecided here"


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"), [(0.788, 1, HOLDS), (0.75, 1, FAILS), (0.79, 30, OPEN), (0.81, 30, OPEN)]
)
def test_headline_of_the_presets_own_variant(mean, spread, verdict):
    found = headline(mean, spread=spread)
    assert found.outcome == verdict
    assert [each.variants for each in found.hypotheses] == [("sin",)]


@pytest.mark.parametrize(
    "change", [{"train.epochs": 6}, {"model.depth": 3}, {"data.train_limit": 100}, "metric", "preset"], ids=str
)
def test_another_system_says_nothing_of_a_headline(change):
    """The published figures are of test sets and of one preset each."""
    other = {"metric": "val/acc", "preset": "digits"}
    other = {change: other[change]} if isinstance(change, str) else {"change": change}
    assert headline(0.788, **other) is None
    elsewhere = {"data.root": "/elsewhere", "data.download": True}  # where files lie changes nothing
    assert headline(0.788, elsewhere).outcome == "holds here"


@pytest.mark.parametrize(
    ("n", "spread", "outcome"), [(9, 15, "undecided here"), (1, 1, "not tested"), (0, 1, "not tested")]
)
def test_few_seeds_leave_a_claim_undecided_or_not_tested(n, spread, outcome):
    runs = values({"variant 0": 0.950, "variant 1": 0.954}, n, spread)
    plan = study_file.plan(kinds("learned-1d", "learned-2d"))
    (found,) = check(literature.LITERATURE, evidence(plan, runs))
    assert (found.outcome, found.n) == (outcome, n)


@pytest.mark.parametrize(("third", "outcome"), [(0.9504, "undecided here"), (0.99, "does not hold here")])
def test_a_claim_of_which_one_pair_is_not_tested_does_not_hold_by_the_others(third, outcome):
    """The pairs of the second variant, which has one seed, are not tested; the other pair is shown to be alike."""
    runs = values({"variant 0": 0.95, "variant 1": 0.9502, "variant 2": third}, 9)
    runs["variant 1"] = {0: runs["variant 1"][0]}
    plan = study_file.plan(kinds("learned-1d", "learned-2d", "relative"))
    results = check(literature.published_claims(), evidence(plan, runs))
    (found,) = (result for result in results if result.claim.id == "paper-kinds")
    assert (found.outcome, found.n, [h.tested for h in found.hypotheses].count(True)) == (outcome, 1, 1)


@pytest.mark.parametrize("order", [("variant 0", "variant 1"), ("variant 1", "variant 0")])
def test_a_claim_does_not_hold_on_the_surviving_runs_alone(order):
    """Whichever variant comes first, and so is the first of the pair."""
    runs = values({"variant 0": 0.7, "variant 1": 0.9})
    runs = {variant: runs[variant] for variant in order}
    at_chance, nearly = (
        {**runs, "variant 1": runs["variant 1"] | lost} for lost in ({0: 0.1, 1: 0.1}, {0: 0.89, 1: 0.88})
    )
    runs["variant 1"] = runs["variant 1"] | {0: math.nan, 1: math.nan}
    plan = study_file.plan(kinds("none", "learned-1d"))
    for counted, outcome in ((None, "holds here"), (at_chance, "undecided here"), (nearly, "holds here")):
        (found,) = check(literature.LITERATURE, evidence(plan, runs, counted=counted))
        assert (found.outcome, found.n) == (outcome, 3)


@pytest.mark.parametrize(
    ("relation", "low", "high", "shown", "contradicted"),
    [
        *(("above", 0.011, 0.03, True, False), ("above", 0.005, 0.03, False, False)),
        *(("above", -0.03, 0.009, False, True), ("above", math.nan, math.nan, False, False)),
        *(("within", -0.01, 0.009, True, False), ("within", -0.02, 0.009, False, False)),
        *(("within", 0.011, 0.02, False, True), ("within", -0.03, -0.011, False, True)),
        ("within", math.nan, math.nan, False, False),
    ],
)
def test_a_hypothesis_is_read_from_its_interval(relation, low, high, shown, contradicted):
    found = Hypothesis(("a", "b"), Estimate((low + high) / 2, low, high, 5), relation, 0.01)
    assert (found.shown, found.contradicted) == (shown, contradicted)


def test_a_published_figure_is_compared_with_the_interval_for_one_more_run():
    found = headline(0.789, spread=3, n=9)
    runs = np.array([*values({"sin": 0.789, "flat": 0.5}, 9, 3)["sin"].values()])
    half = scipy_stats.t.ppf(0.975, 8) * runs.std(ddof=1) * math.sqrt(1 + 1 / 9)
    expected = (runs.mean() - 0.7885 - half, runs.mean() - 0.7885 + half)
    assert (found.estimate.low, found.estimate.high) == pytest.approx(expected, rel=1e-9)


def test_kinds_whose_runs_all_agree_are_not_shown_to_be_alike():
    """A failure in 5 % of the runs passes unseen in five of them more often than not."""
    equal = {variant: dict.fromkeys(range(5), 1.0) for variant in ("variant 0", "variant 1")}
    (found,) = check(literature.LITERATURE, evidence(study_file.plan(kinds("learned-1d", "learned-2d")), equal))
    assert found.outcome == "not tested"


def test_settings_tuned_for_each_variant_count():
    """A preset with another learning rate is not the published system; kinds tuned alike can still be compared."""
    base = preset("pulfer-mnist").model_dump(mode="json")
    at = base["model"]["pos_embed"]
    means = {"variant 0": 0.7885}

    def found(settings: dict) -> set[str]:
        tuned = study_file.tuned(kinds(at), {"variant 0": settings})
        return set(outcome(kinds(at), means, base=base, preset="pulfer-mnist", tuned=tuned))

    assert found({"optim.lr": base["optim"]["lr"]}) == {"headline-pulfer-mnist"} and found({"optim.lr": 0.5}) == set()
    levels = kinds("none", "cpe")
    tuned = study_file.tuned(levels, {variant: {"optim.lr": place} for place, variant in enumerate(levels)})
    assert "any-none" in outcome(levels, {"variant 0": 0.6, "variant 1": 0.8}, tuned=tuned)
