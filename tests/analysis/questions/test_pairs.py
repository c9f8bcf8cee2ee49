"""Which variants differ: what the answer says of clear and undecided pairs, and the tables of differences."""

import itertools
import re

import numpy as np
import pytest
import shown
from scipy import stats
from synthetic import ACCURACY, results_of, write_factorial, write_study

from analysis.findings import analyze
from analysis.outputs.as_json import as_dict
from analysis.questions.pairs import baseline_table, pairs_table, question
from analysis.questions.results import variants_table
from analysis.runs.folder import read_folder
from analysis.runs.read import read
from experiments.errors import UserError

TWO = {"none": 0.7, "learned-1d": 0.9}


def paragraphs(findings):
    """What the question contributes to the answer."""
    return [said for said in question(findings).answer if said]


def answer(findings):
    return " ".join(paragraphs(findings))


def by_hand(values, a, b, pairs):
    """The mean of a - b over seeds, and its t interval for so many pairs together (Bonferroni), in points."""
    diffs = [100 * (values[a][seed] - values[b][seed]) for seed in values.index]
    low, high = stats.t.interval(1 - 0.05 / pairs, len(diffs) - 1, np.mean(diffs), stats.sem(diffs))
    return np.mean(diffs), low, high


def test_the_answer_compares_with_the_baseline_names_the_best_and_says_what_such_a_study_finds(tmp_path):
    findings = results_of(tmp_path, spread=0.01, variance="paired")
    first, second = paragraphs(findings)
    (third,) = question(findings).paragraphs
    diff, _, _ = by_hand(findings.means.values, "sinusoidal", "none", pairs=6)
    mean = f"{100 * findings.means.of('none').value:.2f}"
    assert first.startswith(f"Higher test accuracy than “none” ({mean} %): sinusoidal by {diff:.1f} points, ")
    assert ", learned-1d by" in first and "CI" not in first  # which would be more than 30 words
    pair = results_of(tmp_path / "pair", accuracy=dict(list(ACCURACY.items())[:2]), spread=0.01, variance="paired")
    diff, low, high = by_hand(pair.means.values, "sinusoidal", "none", pairs=1)
    assert f"sinusoidal by {diff:.2f} points (95 % CI {low:.2f} to {high:.2f})." in paragraphs(pair)[0]
    among = [findings.comparisons.pairs[pair] for pair in itertools.combinations(findings.variants.others, 2)]
    assert {one.verdict for one in among} == {"not shown"}
    best = "Best, or not shown to be worse than the best: sinusoidal, learned-2d and learned-1d"
    assert second == f"{best}; of all 6 pairs: 3 differ, 3 undecided."
    typical = 100 * np.quantile([one.detectable for one in among], 0.5, method="lower")  # of those that are undecided
    said = f"By the spread of these runs, a difference of about {typical:.1f} points would be noticed in four of"
    assert third.startswith(said)


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_means_and_differences_in_sentences_are_those_of_the_table(seeds, tmp_path):
    findings = results_of(tmp_path, spread=0.01, seeds=seeds)
    said, table = answer(findings), variants_table(findings)
    means = {row[0]: row[2].split()[0] for row in shown.texts(table)}
    assert f"“none” ({means['none']} %)" in said or f"“none” {means['none']} %" in said
    sizes = {row[3].split()[0].lstrip("+") for row in shown.texts(table) if row[4:5] == ["better"]}
    assert set(re.findall(r" by ([\d.]+) points", said)) == sizes


def test_a_mixed_result_has_each_variant_in_one_sentence(tmp_path):
    accuracy = {"none": 0.8, "cpe": 0.9, "relative": 0.7, "rope-2d": 0.8005}
    first = paragraphs(results_of(tmp_path, accuracy=accuracy, spread=0.01))[0]
    higher, lower, neither = first.split("; ")
    assert higher.startswith("Higher") and "cpe by 10.0 points" in higher and "relative" not in higher
    assert lower.startswith("lower: ") and "relative by 9.4 points" in lower and "cpe" not in lower
    assert re.fullmatch(r"undecided: rope-2d \(\S+ points\)\.", neither)


def test_lower_is_better_for_a_loss(tmp_path):
    findings = results_of(tmp_path, metric="test/loss", margin=0.05)
    assert findings.means.best == "sinusoidal" and findings.comparisons.versus["sinusoidal"].verdict == "better"
    assert answer(findings).startswith("Lower test loss than “none” (")


def test_the_section_on_a_grid_of_factors_names_the_best_combination(tmp_path):
    """depth=1, logits is the baseline; both levels of the head differ by 10 points at depth 2 only."""
    section = question(analyze(read_folder(write_factorial(tmp_path, (0.80, 0.80, 0.90, 0.80)))))
    against, said = section.answer  # the effects are those of another section
    assert against.startswith("Higher test accuracy than") and said.startswith("Best: “depth = 2, logits”")


@pytest.mark.parametrize("far", [False, True])
def test_variants_of_which_none_is_shown_to_differ_differ_by_at_most_the_larger_end_of_an_interval(far, tmp_path):
    accuracy = dict.fromkeys(("none", "learned-1d", "cpe"), 0.7) | {"rope-2d": 0.9 if far else 0.7}
    findings = results_of(tmp_path, accuracy=accuracy, spread=0.02)
    found = re.search(r"any two of the 4 differ by at most (\S+) points\.", answer(findings))
    assert (found is None) == far
    pairs = findings.comparisons.pairs
    ends = {pair: max(-one.adjusted.low, one.adjusted.high) for pair, one in pairs.items()}
    assert [one.at_most for one in pairs.values()] == pytest.approx([*ends.values()])
    if found:
        assert 100 * max(ends.values()) <= float(found[1]) < 100 * max(ends.values()) + 0.1
    frame = pairs_table(findings).data
    assert frame["at_most"].tolist() == pytest.approx([ends[a, b] for a, b in findings.comparisons.other_pairs])


def test_a_detectable_difference_above_100_points_is_more_than_the_scale(tmp_path):
    findings = results_of(tmp_path, accuracy={"none": 0.3, "learned-1d": 0.6}, spread=0.8, seeds=2, variance="paired")
    assert findings.comparisons.versus["learned-1d"].detectable > 1
    row, _ = shown.rows(variants_table(findings))
    assert row["minimum detectable difference, points"] == "more than the scale"


def test_pairs_are_tested_where_the_baseline_cannot_be(tmp_path):
    """The baseline has one seed, the two others have five and differ by 20 points."""
    lost = {("none", seed): "absent" for seed in (1, 2, 3, 4)}
    accuracy = {"none": 0.7, "cpe": 0.9, "relative": 0.7}
    first, second = paragraphs(results_of(tmp_path, accuracy=accuracy, spread=0.01, statuses=lost))
    assert first.startswith("Test accuracy: cpe ") and "no statistical test against “none” is possible" in first
    assert (
        second
        == "Best, of the variants that are tested: cpe; of all 3 pairs: 1 differs, 2 not tested (one common seed)."
    )


def test_variants_of_which_no_run_finished_keep_their_share_of_the_level(tmp_path):
    kinds = {"none": 0.700, "cpe": 0.707, "rope-2d": 0.8, "relative": 0.8}
    lost = {(kind, seed): "diverged" for kind in ("rope-2d", "relative") for seed in range(5)}
    findings = results_of(tmp_path, accuracy=kinds, statuses=lost, spread=0.012)
    compared = findings.comparisons.versus["cpe"]
    assert compared.p_adjusted == pytest.approx(6 * compared.p) and not compared.depends_on_failed  # as planned
    assert {findings.comparisons.versus[kind].verdict for kind in ("rope-2d", "relative")} == {"not tested"}
    assert "; not tested (failed runs): rope-2d and relative." in answer(findings)


def test_nothing_finished_is_an_error(tmp_path):
    statuses = {(variant, seed): "absent" for variant in TWO for seed in range(2)}
    with pytest.raises(UserError, match="no run has finished yet"):
        results_of(tmp_path, accuracy=TWO, seeds=2, statuses=statuses)


def test_too_many_variants_are_compared_with_the_baseline_only(tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.findings.policy.MOST_PAIRS", 3)
    findings = results_of(tmp_path, seeds=3)
    assert findings.comparisons.pairs == {} and list(findings.comparisons.versus) == findings.variants.names
    assert "With so many variants, pairs without the baseline are not compared." in answer(findings)
    assert {compared.verdict for compared in findings.comparisons.versus.values()} == {"baseline", "better"}


def test_a_study_that_states_the_baseline_as_its_only_reference_says_nothing_on_other_pairs(tmp_path):
    folder = write_study(tmp_path, family="baseline")
    findings, every = analyze(read_folder(folder)), results_of(tmp_path / "all")
    assert findings.comparisons.pairs == {} and pairs_table(findings) is None
    assert "Best" in answer(every) and "Best" not in answer(findings)
    notes = " ".join(variants_table(findings).notes)
    assert "Intervals of differences hold for all pairs with the baseline together (pairs: 3)" in notes
    assert [(as_dict(f)["family"], len(as_dict(f)["comparisons"])) for f in (findings, every)] == [
        ("baseline", 3), ("all", 6)
    ]  # fmt: skip
    other = analyze(read(str(folder), baseline="learned-1d"))  # not said before the runs
    assert other.policy.family == "all" and len(other.comparisons.pairs) == 6


def test_two_tables_have_every_pair_once(tmp_path):
    findings = results_of(tmp_path, seeds=3)
    data, versus = pairs_table(findings).data, baseline_table(findings).data
    assert list(versus["variant"]) == findings.variants.others and len(data) == 3
    pairs = [frozenset(pair) for pair in itertools.combinations(findings.variants.others, 2)]
    assert [frozenset(pair) for pair in zip(data["variant"], data["reference"])] == pairs
    means = dict(zip(versus["variant"], versus["diff"]))
    for row in data.itertuples():
        assert row.diff == pytest.approx(means[row.variant] - means[row.reference])


def test_the_seeds_that_a_difference_takes_at_an_early_look_are_those_of_the_last(tmp_path):
    """The level of the first of two looks is an eighth of 5 %."""
    plans = {"early": [5, 10], "single": [5]}
    found = {}
    for name, looks in plans.items():
        accuracy = {"none": 0.5, "cpe": 0.502, "rope-2d": 0.51}
        found[name] = results_of(tmp_path / name, accuracy=accuracy, spread=0.02, looks=looks).comparisons
    early, single = (found[name].versus["cpe"] for name in plans)
    assert early.detectable > single.detectable
    assert single.needed(0.01) < early.needed(0.01) < 1.1 * single.needed(0.01)
