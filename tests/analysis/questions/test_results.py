"""The main table, against numbers computed by hand, and its marks; the answer of a study of one variant."""

import itertools

import numpy as np
import pytest
import shown
from synthetic import exact, results_of, write_factorial

from analysis.findings import analyze
from analysis.questions.results import question, variants_table
from analysis.runs.folder import read_folder
from analysis.runs.runs import factor_levels


def marks(table):
    """The marks of the accuracies, the best first."""
    columns, rows = table.shown()
    place = [column.label for column in columns].index("test accuracy, %")
    return [row[place].mark for row in rows]


def test_main_table_against_a_case_by_hand(tmp_path):
    # none .70 .72 .74: mean .72, sd .02, half = 4.3027 * .02 / sqrt 3 = .04968
    # other - none .20 .21 .22: mean .21, sd .01, half = 4.3027 * .01 / sqrt 3 = .02484
    table = variants_table(exact(tmp_path, {"none": [0.70, 0.72, 0.74], "learned-1d": [0.90, 0.93, 0.96]}))
    other, none = shown.texts(table)  # the best first
    assert none[:5] == ["none", "3", "72.0 ± 5.0", "–", "baseline"]
    assert other[:5] == ["learned-1d", "3", "93.0 ± 7.5", "+21.0 [+18.5, +23.5]", "better"]
    assert marks(table) == ["best", ""]


NONE = [0.700, 0.702, 0.704, 0.698, 0.700]
RUNS = [0.953, 0.957, 0.955, 0.954, 0.956]
CLOSE = [0.952, 0.955, 0.956, 0.953, 0.954]  # .001 below on average, with a spread of .0016: within the margin of .01


@pytest.mark.parametrize(
    ("values", "expected", "notes"),
    [
        (
            {"none": [0.70, 0.72, 0.74], "learned-1d": [0.71, 0.73, 0.71]},
            ["best", "tied"],
            "not shown to be worse than it.",
        ),
        # learned-2d is 1 point below learned-1d, but the differences scatter by 5 points: t = -0.45, p = 0.68
        (
            {"none": NONE, "learned-1d": [0.95] * 5, "learned-2d": [0.90, 1.00, 0.90, 0.99, 0.91]},
            ["best", "tied", ""],
            "Bold: the best mean. †: not shown to be worse than it.",
        ),
        (
            {"none": NONE, "learned-1d": CLOSE, "learned-2d": RUNS},
            ["best", "tied", ""],
            "equivalent to it (within ±1 point), or not shown to be worse than it.",
        ),
        (
            {"none": [0.5] * 3, "cpe": [1.0] * 3, "relative": [1.0] * 3},
            ["best", "best", "untested"],
            "Bold: the best mean",
        ),
    ],
    ids=["nothing is worse", "not shown to be worse", "equivalent", "the same mean"],
)
def test_the_best_means_are_marked(values, expected, notes, tmp_path):
    table = variants_table(exact(tmp_path, values))
    assert marks(table) == expected
    assert notes in table.caption


def test_a_rank_is_every_place_that_no_shown_difference_excludes(tmp_path):
    """The places of a variant in all orders in which each variant that is shown to be better comes first."""
    rng = np.random.default_rng(3)
    means = {"none": 0.70, "learned-1d": 0.80, "sinusoidal": 0.806, "rope-2d": 0.812, "cpe": 0.90}
    findings = exact(tmp_path, {name: [*(mean + 0.004 * rng.normal(size=5))] for name, mean in means.items()})
    shown_better = {
        (a, b) if one.verdict == "better" else (b, a)
        for (a, b), one in findings.comparisons.pairs.items()
        if one.verdict in ("better", "worse")
    }
    places = {name: set() for name in means}
    for order in itertools.permutations(means):
        if all(order.index(better) < order.index(worse) for better, worse in shown_better):
            for place, name in enumerate(order, 1):
                places[name].add(place)
    ranks = {row["variant"]: row["rank"] for row in shown.rows(variants_table(findings))}
    assert ranks["cpe"] == "1" and ranks["none"] == "5" and "2 to " in ranks["rope-2d"]
    assert ranks == {name: " to ".join(map(str, sorted({min(found), max(found)}))) for name, found in places.items()}


def test_every_excluded_run_is_counted_and_the_share_of_diverged_runs_has_its_interval(tmp_path):
    lost = {("learned-1d", 1): "diverged", ("learned-1d", 6): "incomplete", ("learned-1d", 7): "pruned"}
    table = variants_table(results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, statuses=lost, seeds=8))
    row = shown.rows(table)[0]
    assert row["diverged"] == "17 % (0.4 to 64.1)"  # Clopper and Pearson for 1 of the 6 that ended
    assert table.data["verdict"][0] == "not shown (finished runs alone: better)"
    assert row["verdict"] == "undecided (finished runs alone: better)"
    counted = table.notes[-1]
    assert counted.startswith("13 of 16 runs finished. ") and ": learned-1d, seed 1." in counted
    assert "1 diverged (" in counted and "1 incomplete (" in counted and "1 pruned (" in counted


def test_the_data_are_in_full(tmp_path):
    findings = results_of(tmp_path)
    table = variants_table(findings).data
    for row in table.to_dict("records"):
        values = findings.means.values[row["variant"]].to_numpy()
        assert row["test/acc"] == pytest.approx(values.mean(), rel=1e-14) and row["n"] == 5
    flops = dict(zip(table["variant"], table["flops_per_image"]))
    assert [flops[name] for name in findings.variants.names] == [9.1e5, 9.2e5, 9.3e5, 9.4e5]
    assert not [name for name in table if name.startswith("_")]


def test_a_study_of_two_factors_has_a_column_for_each(tmp_path):
    findings = analyze(read_folder(write_factorial(tmp_path, seeds=3)))
    table = variants_table(findings)
    assert list(shown.rows(table)[0])[:3] == ["depth", "head", "n"]
    levels = [("1", "logits"), ("1", "softmax"), ("2", "logits"), ("2", "softmax")]
    assert sorted((row["depth"], row["head"]) for row in shown.rows(table)) == levels
    data = table.data.set_index("variant").loc[findings.variants.names]
    assert list(data["model.head"]) == ["logits", "softmax"] * 2


def test_a_level_that_is_a_number_has_the_name_of_its_factor(tmp_path):
    rates = ["0.001", "1e+06"]
    findings = results_of(
        tmp_path,
        accuracy=dict(zip(rates, (0.8, 0.9))),
        factors={"optim.lr": [0.001, 1e6]},
        levels=lambda v: {"optim.lr": float(v)},
    )
    assert [row["variant"] for row in shown.rows(variants_table(findings))] == ["lr = 1e+06", "lr = 0.001"]
    assert factor_levels(findings.study.runs, "optim.lr").unique().tolist() == rates  # as the variants' names


def test_a_single_variant_has_its_interval_or_without_a_finished_run_no_mean(tmp_path):
    findings = results_of(tmp_path, accuracy={"none": 0.7}, seeds=3)
    mean, (said,) = findings.means.of("none"), question(findings).answer
    half = 50 * (mean.high - mean.low)
    assert f"{100 * mean.value:.2f} ± {half:.2f} % (3 seeds, 95 % interval). There is no other variant" in said
    lost = {("none", seed): "diverged" for seed in range(3)}
    findings = results_of(tmp_path / "lost", accuracy={"none": 0.5}, seeds=3, statuses=lost)
    assert shown.answer(findings) == "No run of “none” has a test accuracy. Its runs: 3 diverged."
