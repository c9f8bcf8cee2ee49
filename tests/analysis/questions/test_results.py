"""The tables with a row for each variant or pair: their numbers against numbers computed by hand, and their marks."""

import itertools

import numpy as np
import pytest
import shown
from scipy import stats as scipy_stats
from synthetic import change_summary, results_of, write_factorial, write_study

from analysis.answers.cost.show import cost_table
from analysis.answers.metrics.show import metrics_table, runs_table, spread_table
from analysis.answers.pairs.show import baseline_table, pairs_table
from analysis.answers.study_report import study_document
from analysis.answers.study_results import analyze
from analysis.answers.variants.show import variants_table
from analysis.runs.folder import read_folder
from analysis.runs.runs import factor_levels


def exact(tmp_path, values):
    """Results of a study in which variant v's seed s reached exactly values[v][s]."""
    folder = write_study(tmp_path, accuracy=dict.fromkeys(values, 0.5), seeds=len(next(iter(values.values()))))
    for index, runs in enumerate(values.values()):
        for seed, value in enumerate(runs):
            change_summary(folder / f"v{index}-s{seed}", **{"test/acc": value})
    return analyze(read_folder(folder))


def versus_baseline(results):
    """The rows of the table of differences from the baseline: variant -> label of the column -> text."""
    table = baseline_table(results.variants, results.comparisons, results.policy)
    return {row["variant"]: row for row in shown.rows(table)}


def marks(table):
    """The marks of the accuracies."""
    columns, rows = table.shown()
    place = [column.label for column in columns].index("test accuracy, %")
    return [row[place].mark for row in rows]


def test_main_table_against_a_case_by_hand(tmp_path):
    # none .70 .72 .74: mean .72, sd .02, half = 4.3027 * .02 / sqrt 3 = .04968
    # other .90 .93 .96, sd .03: by Welch, error sqrt(.0013 / 3) = .02082, df 2 * .0013^2 / (.0004^2 + .0009^2) = 3.485,
    # t 2.945, half = .06130
    table = variants_table(exact(tmp_path, {"none": [0.70, 0.72, 0.74], "learned-1d": [0.90, 0.93, 0.96]}))
    none, other = shown.texts(table)
    assert none[:5] == ["none", "3", "72.0 (67.0 to 77.0)", "–", "baseline"]  # one form for the whole column
    assert other[:5] == ["learned-1d", "3", "93.0 (85.5 to 100)", "+21.0 [+14.9, +27.1]", "better"]
    assert marks(table) == ["", "best"]


def test_nothing_is_bold_where_nothing_is_worse(tmp_path):
    table = variants_table(exact(tmp_path, {"none": [0.70, 0.72, 0.74], "learned-1d": [0.71, 0.73, 0.71]}))
    assert marks(table) == ["", ""] and not any(note.startswith("Bold") for note in table.notes)


def test_variants_not_shown_to_be_worse_than_the_best_are_bold(tmp_path):
    # learned-2d is 1 point below learned-1d, but the differences scatter by 5 points: t = -0.45, p = 0.68
    best = [0.95, 0.95, 0.95, 0.95, 0.95]
    open_ = [0.90, 1.00, 0.90, 0.99, 0.91]
    results = exact(tmp_path, {"none": [0.7, 0.71, 0.72, 0.69, 0.7], "learned-1d": best, "learned-2d": open_})
    assert marks(variants_table(results)) == ["", "best", "best"]


def test_variants_equivalent_to_the_best_are_marked(tmp_path):
    # learned-1d is .001 below on average, and never more than .003 off: well within the margin of .01
    runs = [0.950, 0.960, 0.955, 0.952, 0.958]
    close = [value - lower for value, lower in zip(runs, [0.001, 0.002, 0.0, 0.003, -0.001])]
    table = variants_table(
        exact(tmp_path, {"none": [0.7, 0.71, 0.72, 0.69, 0.7], "learned-1d": close, "learned-2d": runs})
    )
    assert marks(table) == ["", "equal", "best"] and "†" in table.notes[0]


def test_variants_that_share_the_highest_mean_are_all_bold(tmp_path):
    kinds = ("none", "learned-1d", "learned-2d", "sinusoidal")
    results = results_of(tmp_path, accuracy={kind: 0.5 if kind == "none" else 1.0 for kind in kinds}, spread=0, seeds=3)
    assert marks(variants_table(results)) == ["", "best", "best", "best"]


def test_every_excluded_run_is_counted_and_named(tmp_path):
    statuses = {("none", 3): "diverged", ("none", 4): "incomplete", ("learned-1d", 2): "absent"}
    conduct = results_of(tmp_path, statuses=statuses).conduct
    assert (conduct.finished, conduct.planned) == (17, 20)
    assert conduct.excluded == {"diverged": ["none, seed 3"], "incomplete": ["learned-1d, seed 2", "none, seed 4"]}


def test_a_diverged_run_is_excluded_and_counts_as_dropped(tmp_path):
    results = results_of(tmp_path, statuses={("learned-1d", 0): "diverged"})
    rows = versus_baseline(results)
    assert rows["learned-1d"]["n"] == "4 (1)" and rows["sinusoidal"]["n"] == "5"
    assert results.means.of("learned-1d").n == 4


def test_the_share_of_diverged_runs_has_its_interval(tmp_path):
    lost = {("learned-1d", 1): "diverged"}
    table = variants_table(results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, statuses=lost, seeds=6))
    row = shown.rows(table)[1]
    assert row["diverged"] == "17 % (0.4 to 64.1)"  # Clopper and Pearson for 1 of 6
    assert row["verdict"] == table.data["verdict"][1] == "not shown (finished runs alone: better)"


def test_the_data_are_in_full(tmp_path):
    results = results_of(tmp_path)
    table = variants_table(results).data
    for row in table.to_dict("records"):
        values = np.array(list(results.means.values[row["variant"]].values()))
        assert row["test/acc"] == pytest.approx(values.mean(), rel=1e-14) and row["n"] == 5
    assert list(table["flops_per_image"]) == [9.1e5, 9.2e5, 9.3e5, 9.4e5]
    assert not [name for name in table if name.startswith("_")]


def test_a_mean_of_one_seed_has_no_interval(tmp_path):
    table = variants_table(results_of(tmp_path, seeds=1))
    rows = shown.rows(table)
    assert "±" not in rows[1]["test accuracy, %"]
    assert {row["verdict"] for row in rows} == {"baseline", "not shown"}
    assert table.notes[0].startswith("Bold: highest mean.")


def test_cost_against_the_baseline(tmp_path):
    results = results_of(tmp_path)
    rows = shown.rows(cost_table(results.variants, results.cost))
    assert rows[0]["time relative to baseline"] == "× 1.00"
    assert rows[3]["time relative to baseline"] == "× 1.07"  # 4.3 s over 4.0 s: 1.075, which binary rounds down
    assert (rows[2]["parameters"], rows[2]["FLOPs/image"]) == ("26,000", "930 k")


def test_a_study_of_two_factors_has_a_column_for_each(tmp_path):
    results = analyze(read_folder(write_factorial(tmp_path, seeds=3)))
    table = variants_table(results)
    assert list(shown.rows(table)[0])[:3] == ["depth", "head", "n"]
    levels = [("1", "logits"), ("1", "softmax"), ("2", "logits"), ("2", "softmax")]
    assert [(row["depth"], row["head"]) for row in shown.rows(table)] == levels
    assert list(table.data["variant"]) == results.variants.names
    assert list(table.data["model.head"]) == ["logits", "softmax"] * 2


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [(4, lambda a, b: scipy_stats.ttest_ind(a, b, equal_var=False)), (5, lambda a, b: scipy_stats.ttest_rel(a, b))],
)
def test_p_is_that_of_welch_below_five_seeds_and_of_the_paired_t_test_from_five_on(tmp_path, seeds, expected):
    values = {"none": [0.5, 0.6, 0.7, 0.8, 0.6][:seeds], "learned-1d": [0.6, 0.6, 0.8, 0.7, 0.9][:seeds]}
    row = versus_baseline(exact(tmp_path, values))["learned-1d"]
    assert row["p (adjusted)"] == f"{expected(*values.values()).pvalue:.3f}"


def test_two_tables_have_every_pair_once(tmp_path):
    results = results_of(tmp_path, seeds=3)
    data = pairs_table(results.variants, results.comparisons).data
    versus = baseline_table(results.variants, results.comparisons, results.policy).data
    assert list(versus["variant"]) == results.variants.others and len(data) == 3
    pairs = [frozenset(pair) for pair in itertools.combinations(results.variants.others, 2)]
    assert [frozenset(pair) for pair in zip(data["variant"], data["reference"])] == pairs
    means = dict(zip(versus["variant"], versus["diff"]))
    for row in data.itertuples():
        assert row.diff == pytest.approx(means[row.variant] - means[row.reference])


def test_two_variants_have_no_table_of_pairs(tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2)
    assert pairs_table(results.variants, results.comparisons) is None


def test_half_an_image_has_its_size(tmp_path):
    results = results_of(tmp_path, seeds=2)
    (methods,) = (section for section in study_document(results).sections if section.id == "methods")
    assert any("half an image for runs (0.14 points)" in meaning for _, meaning in methods.items[0].facts)  # of 360


def test_a_level_that_is_a_number_has_the_name_of_its_factor(tmp_path):
    results = results_of(
        tmp_path,
        accuracy={"0.001": 0.8, "1e+06": 0.9},
        factors={"optim.lr": [0.001, 1e6]},
        levels=lambda v: {"optim.lr": float(v)},
    )
    assert [row["variant"] for row in shown.rows(variants_table(results))] == ["lr = 0.001", "lr = 1e+06"]
    assert factor_levels(results.study.runs, "optim.lr").unique().tolist() == [
        "0.001",
        "1e+06",
    ]  # as the variants' names


def test_spread_against_numpy(tmp_path):
    results = results_of(tmp_path, seeds=8)
    for row in spread_table(results.variants, results.means).data.to_dict("records"):
        values = sorted(results.means.values[row["variant"]].values())
        assert row["sd"] == pytest.approx(np.std(values, ddof=1), rel=1e-12)
        assert (row["lowest"], row["highest"]) == (values[0], values[-1])


def test_the_metrics_of_the_training_images_are_details(tmp_path):
    results = results_of(tmp_path, seeds=2)
    columns = metrics_table(results.variants, results.means).shown().columns
    detail = {column.label: column.detail for column in columns}
    assert detail["training loss"] and not detail["test accuracy, %"]


def test_a_run_has_its_own_difference_from_the_baseline(tmp_path):
    results = results_of(tmp_path, seeds=3, statuses={("none", 2): "diverged", ("learned-1d", 1): "incomplete"})
    table = runs_table(results.study, results.variants, results.means)
    rows = [row for row in shown.rows(table) if row["variant"] == "learned-1d"]
    assert [(row["seed"], row["status"]) for row in rows] == [("0", "finished"), ("1", "incomplete"), ("2", "finished")]
    by_hand = 100 * (results.means.values["learned-1d"][0] - results.means.values["none"][0])
    assert [row["difference from none, points"] for row in rows] == [f"+{by_hand:.2f}", "–", "–"]
    for made, linked in (
        (table, True),
        (runs_table(results.study, results.variants, results.means, linked=False), False),
    ):
        links = [cell.link for row in made.shown().rows if row[0].text == "learned-1d" for cell in row if cell.link]
        assert links == (["../v2-s0/summary.json", "../v2-s2/summary.json"] if linked else [])
