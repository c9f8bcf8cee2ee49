"""The comparison of two studies: what is paired and tested, what its headline says, and its files."""

import re

import numpy as np
import pytest
from scipy import stats
from synthetic import results_of

from analysis.several import compare_document
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
    assert any(line.startswith("The effect of study depends on variant: ") for line in document.headline)


def test_the_headline_has_each_outcome_with_its_size(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.9})
    b = results_of(tmp_path / "b", accuracy={"none": 0.9, "learned-1d": 0.7})
    first = compare_document(a, b, COMMAND, ("old", "new")).headline[0]
    assert first.startswith("new compared with old")
    diff = 100 * (b.means.of("learned-1d").value - a.means.of("learned-1d").value)  # the seeds are the same
    lower, points = re.search(r"Lower: (\S+) by ([\d.]+) points \(95 % CI", first).groups()
    assert lower == "learned-1d" and abs(float(points) + diff) < 0.05
    assert "Higher test accuracy than old: none by" in first and "The settings are the same." in first


@pytest.mark.parametrize("spread", [0.004, 0])
@pytest.mark.parametrize("others", [{}, {"rope-2d": 0.8, "relative": 0.6}])
def test_the_same_runs_are_equal_whatever_the_number_of_variants(tmp_path, spread, others):
    options = {"accuracy": {"none": 0.7, "cpe": 0.9, **others}, "spread": spread}
    _, rows = compared(results_of(tmp_path / "a", **options), results_of(tmp_path / "b", **options))
    assert set(rows["verdict"]) == {"equal on all seeds"} and set(rows["diff"]) == {0}


def test_settings_baselines_and_margins_that_differ_are_named(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.8}
    a = results_of(tmp_path / "a", accuracy=accuracy, seeds=3)
    b = results_of(tmp_path / "b", accuracy=accuracy, seeds=3, baseline="learned-1d", margin=0.02, levels=at_depth(5))
    document = compare_document(a, b, COMMAND)
    depth = override(RunConfig(), {}).model.depth
    assert f"Settings that differ: model.depth (A: {depth}; B: 5). Code" in document.headline[0]
    assert "so can each setting" in document.headline[0] and "Baseline: “A, variant = none”" in document.summary
    listed = dict(next(section for section in document.sections if section.id == "settings").items[0].facts)
    assert listed["model.depth"] == f"A: {depth}; B: 5" and listed["margin"] == "A: 0.01; B: 0.02"
    assert listed["baseline"] == "A: none; B: learned-1d" and listed["commit"] == "the same"


def test_studies_that_share_only_one_variant_say_so_first(tmp_path):
    a, b = (results_of(tmp_path / kind, accuracy={"none": 0.6, kind: 0.8}, seeds=3) for kind in ("cpe", "rope-2d"))
    one, other, rest = compared(a, b)[0].headline[:3]
    assert one == "Not compared, because only A has them: cpe."
    assert other == "Not compared, because only B has them: rope-2d."
    assert rest.startswith("B compared with A")
