"""The comparison of two studies: what is paired and tested, what its headline says, and its files."""

import re

import numpy as np
import pytest
import shown
from scipy import stats
from synthetic import on_dataset, results_of

from analysis.answers.several_studies import compare_document
from analysis.write import files as write
from experiments.config import RunConfig, override

COMMAND = "vit-report compare a b"


def at_depth(depth):
    return lambda variant: {"model.pos_embed": variant, "model.depth": depth}


def compared(a, b, labels="AB"):
    """The document, and the row of each variant in the table of differences between the studies."""
    document = compare_document(a, b, COMMAND, labels)
    (table,) = (table for table in document.tables if table.name == "compared")
    return document, table.data.set_index("variant")


def test_differences_of_the_common_seeds_agree_with_scipy(tmp_path):
    a = results_of(tmp_path / "a", seeds=5, spread=0.02)
    b = results_of(tmp_path / "b", seeds=7, accuracy={"none": 0.75, "learned-1d": 0.9, "rope-2d": 0.95}, spread=0.03)
    document, rows = compared(a, b)
    assert list(rows.index) == ["none", "learned-1d"]
    p = []
    for variant, row in rows.iterrows():
        one, two = ([each.means.values[variant][seed] for seed in range(5)] for each in (a, b))
        diffs = np.subtract(two, one)
        assert row["diff"] == pytest.approx(diffs.mean(), rel=1e-12) and row["n"] == 5
        assert (row["diff_low"], row["diff_high"]) == pytest.approx(
            stats.t.interval(0.95, 4, diffs.mean(), stats.sem(diffs)), rel=1e-12
        )
        p.append(stats.ttest_1samp(diffs, 0).pvalue)
    assert rows["p"].tolist() == pytest.approx(p, rel=1e-9)
    # two variants, and the level is shared with the factors: study and variant
    assert rows["p_adjusted"].tolist() == pytest.approx(2 * 2 * np.array(p), rel=1e-9)
    assert rows.loc["none", "verdict"] == "better"
    notes = next(table for table in document.tables if table.name == "compared").notes
    assert "because only A has them: sinusoidal and learned-2d." in notes[0]
    assert "because only B has them: rope-2d; seeds 5 and 6." in notes[1]


def test_how_a_difference_to_the_baseline_changes_is_tested_itself(tmp_path):
    """It is the interaction of study and variant."""
    a = results_of(tmp_path / "a", accuracy={"none": 0.6, "cpe": 0.8}, seeds=5, spread=0.02)
    b = results_of(tmp_path / "b", accuracy={"none": 0.7, "cpe": 0.8}, seeds=5, spread=0.03)
    document, _ = compared(a, b)
    to_baseline = [[s.means.values["cpe"][i] - s.means.values["none"][i] for i in range(5)] for s in (a, b)]
    p = stats.ttest_1samp(np.subtract(*to_baseline), 0).pvalue
    terms = next(table for table in document.tables if table.name == "terms").data.set_index("term")
    assert terms.loc["study+variant of both", "p"] == pytest.approx(p, rel=1e-9)
    assert any(line.startswith("Interaction: the effect of study depends on variant") for line in document.headline)


def test_equal_accuracies_are_credited_with_half_an_image_of_each_run(tmp_path):
    """Of 360 images. A change is a difference of two runs."""
    a = results_of(tmp_path / "a", accuracy={"none": 0.5, "cpe": 0.6}, spread=0)
    b = results_of(tmp_path / "b", accuracy={"none": 0.5, "cpe": 0.7}, spread=0)
    row = compared(a, b)[1].loc["cpe"]
    half = stats.t.isf(0.025, 4) * np.sqrt(2) * 0.5 / 360 / np.sqrt(5)
    assert (row["diff_low"], row["diff_high"]) == pytest.approx((0.1 - half, 0.1 + half), rel=1e-9)


def test_a_verdict_that_needs_the_surviving_runs_says_so(tmp_path):
    """By hand: three of six runs at chance level (10 %) make a mean of 0.8 one of about 0.45."""
    lost = {("learned-1d", seed): "diverged" for seed in range(3)}
    options = {"spread": 0.001, "seeds": 6}
    one = results_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.7}, **options)
    two = results_of(tmp_path / "b", accuracy={"none": 0.75, "learned-1d": 0.8}, statuses=lost, **options)
    document, rows = compared(one, two)
    assert rows["verdict"].to_dict() == {"none": "better", "learned-1d": "not shown (finished runs alone: better)"}
    assert "3 of 24 runs" not in document.summary and "21 of 24 runs finished" in document.summary


def test_where_the_chance_level_of_a_diverged_run_is_not_known_its_verdict_depends_on_it(tmp_path):
    """An image folder states no number of classes, and the loss of a diverged run is then unknown."""
    options = {
        "accuracy": {"none": 0.7, "cpe": 0.8},
        "metric": "test/loss",
        "margin": 0.05,
        **on_dataset("imagefolder"),
    }
    a = results_of(tmp_path / "a", statuses={("none", 0): "diverged"}, **options)
    _, rows = compared(a, results_of(tmp_path / "b", spread=0.006, **options))
    said = "not shown (finished runs alone: equivalent)"
    assert rows["verdict"].to_dict() == {"none": said, "cpe": "equivalent"}


def test_the_headline_has_each_outcome_with_its_size(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.9})
    b = results_of(tmp_path / "b", accuracy={"none": 0.9, "learned-1d": 0.7})
    first = compare_document(a, b, COMMAND, ("old", "new")).headline[0]
    assert first.startswith("new compared with old")
    diff = 100 * (b.means.of("learned-1d").value - a.means.of("learned-1d").value)  # the seeds are the same
    lower, points = re.search(r"Lower test accuracy than old: (\S+) by ([\d.]+) points \(95 % CI", first).groups()
    assert lower == "learned-1d" and abs(float(points) + diff) < 0.05
    assert "Higher test accuracy than old: none by" in first and "The settings are the same." in first


@pytest.mark.parametrize("spread", [0.004, 0])
@pytest.mark.parametrize("others", [{}, {"rope-2d": 0.8, "relative": 0.6}])
def test_the_same_runs_are_equal_whatever_the_number_of_variants(tmp_path, spread, others):
    options = {"accuracy": {"none": 0.7, "cpe": 0.9, **others}, "spread": spread}
    _, rows = compared(results_of(tmp_path / "a", **options), results_of(tmp_path / "b", **options))
    assert set(rows["verdict"]) == {"equal on all seeds"} and set(rows["diff"]) == {0}


def test_a_variant_with_one_shared_seed_is_not_called_tested(tmp_path):
    a, b = (
        results_of(tmp_path / name, accuracy={"none": 0.7, "cpe": 0.9}, seeds=n) for name, n in (("a", 5), ("b", 1))
    )
    first = compare_document(a, b, COMMAND).headline[0]
    assert re.search("Not tested.*: none and cpe", first) and "significant" not in first


def test_settings_baselines_and_margins_that_differ_are_named(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.8}
    a = results_of(tmp_path / "a", accuracy=accuracy, seeds=3)
    b = results_of(tmp_path / "b", accuracy=accuracy, seeds=3, baseline="learned-1d", margin=0.02, levels=at_depth(5))
    document = compare_document(a, b, COMMAND)
    depth = override(RunConfig(), {}).model.depth
    assert f"Settings that differ: model.depth (A: {depth}; B: 5). Code" in document.headline[0]
    assert "so can each setting" in document.headline[0] and "Baseline: “A: none”" in document.summary
    listed = dict(next(section for section in document.sections if section.id == "settings").items[0].facts)
    assert listed["model.depth"] == f"A: {depth}; B: 5" and listed["margin"] == "A: 0.01; B: 0.02"
    assert listed["baseline"] == "A: none; B: learned-1d" and listed["commit"] == "the same"


def test_the_tables_hold_the_means_of_each_study(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.7, "cpe": 0.9}, seeds=4)
    b = results_of(tmp_path / "b", accuracy={"none": 0.8, "cpe": 0.85}, seeds=3)
    tables = {table.name: table for table in compare_document(a, b, COMMAND).tables}
    rows = {(row["study"], row["variant"]): row for row in shown.rows(tables["variants"])}
    for side, results in (("A", a), ("B", b)):
        mean = np.mean([results.means.values["cpe"][seed] for seed in range(3)])  # the seeds that both have
        assert float(rows[side, "cpe"]["test accuracy, %"].split()[0].strip("*")) == pytest.approx(100 * mean, abs=0.06)
        assert rows[side, "cpe"]["n"] == "3"


def test_it_is_a_complete_report(tmp_path):
    a, b = (
        results_of(tmp_path / "a", seeds=3),
        results_of(tmp_path / "b", seeds=3, margin=0.02, statuses={("sinusoidal", 0): "diverged"}),
    )
    files = write.make(compare_document(a, b, COMMAND))
    assert {"report.html", "report.md", "tables/compared.csv", "tables/runs.csv", "figures/accuracy.svg"} <= set(files)
    assert COMMAND.encode() in files["report.html"]
    assert files == write.make(compare_document(a, b, COMMAND))


def test_studies_that_share_only_one_variant_say_so_first(tmp_path):
    a, b = (results_of(tmp_path / kind, accuracy={"none": 0.6, kind: 0.8}, seeds=3) for kind in ("cpe", "rope-2d"))
    one, other, rest = compared(a, b)[0].headline[:3]
    assert one == "Not compared, because only A has them: cpe."
    assert other == "Not compared, because only B has them: rope-2d."
    assert rest.startswith("B compared with A")
