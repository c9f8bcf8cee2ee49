"""The comparison of two studies: which texts its headline has, and its files."""

import re

import numpy as np
import pytest
import shown
from synthetic import results_of

from analysis.answers.several_studies import compare_document
from analysis.write import files as write
from analysis.write.text import text
from experiments.config import RunConfig, override

COMMAND = "vit-report compare a b"


def at_depth(depth):
    return lambda variant: {"model.pos_embed": variant, "model.depth": depth}


def test_the_headline_has_each_outcome_with_its_size(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.9})
    b = results_of(tmp_path / "b", accuracy={"none": 0.9, "learned-1d": 0.7})
    first, second, third = compare_document(a, b, COMMAND).headline
    diff = 100 * (b.means.of("learned-1d").value - a.means.of("learned-1d").value)  # the seeds are the same
    lower, points = re.search(r"Lower: (\S+) by ([\d.]+) points \(95 % CI", first).groups()
    assert lower == "learned-1d" and abs(float(points) + diff) < 0.05 and "Higher: none by" in first
    assert "Lower: learned-1d by" in second and "none by" not in second
    assert third == text("two_studies", "limit", settings=[])


@pytest.mark.parametrize(
    ("b", "said"),
    [
        ({}, "old and new are identical: every run of the variants that both have has the same results."),
        (
            {"seeds": 4},
            "The conclusion does not change: every variant has the same verdict against none in old and new.",
        ),
        ({"accuracy": {"none": 0.7, "cpe": 0.5}}, "The conclusion changes: cpe (old: better; new: worse)."),
        ({"baseline": "cpe"}, "old and new are identical: "),
        ({"baseline": "cpe", "spread": 0.02}, "The baselines differ (old: none; new: cpe), so the verdicts cannot"),
    ],
)
def test_the_first_sentence_says_whether_the_conclusion_changes(tmp_path, b, said):
    """In each case the runs of none are the same, seed by seed, unless their spread or number is another."""
    options = {"accuracy": {"none": 0.7, "cpe": 0.9}}
    document = compare_document(
        results_of(tmp_path / "a", **options), results_of(tmp_path / "b", **{**options, **b}), COMMAND, ("old", "new")
    )
    assert document.headline[0].startswith(said)
    identical = "Identical in every run: " in document.headline[0]
    assert identical == (not {"seeds", "spread"} & b.keys())
    none = shown.rows(document.tables[0])[0]
    assert (none["new is"] == "identical") == identical and not {"A: n", "B: n"} & none.keys()
    assert write.make(document)["report.html"]


def test_a_variant_with_one_shared_seed_is_not_called_tested(tmp_path):
    a, b = (
        results_of(tmp_path / name, accuracy={"none": 0.7, "cpe": 0.9}, seeds=n) for name, n in (("a", 5), ("b", 1))
    )
    first, second, _ = compare_document(a, b, COMMAND).headline
    assert re.search("Not tested.*: none and cpe", first) and re.search("Not tested.*: the variant cpe", second)
    assert "significant" not in first + second


def test_the_headline_names_settings_that_differ_and_the_baselines(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.8}
    a = results_of(tmp_path / "a", accuracy=accuracy, seeds=3)
    b = results_of(tmp_path / "b", accuracy=accuracy, seeds=3, baseline="learned-1d", levels=at_depth(5))
    headline = compare_document(a, b, COMMAND).headline
    differing = [("model.depth", str(override(RunConfig(), {}).model.depth), "5")]
    assert headline[-1] == text("two_studies", "limit", settings=differing)
    assert "(A: none; B: learned-1d)" in headline[1]


def test_the_tables_hold_the_means_of_each_study_and_how_differences_change(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.7, "cpe": 0.9}, seeds=4)
    b = results_of(tmp_path / "b", accuracy={"none": 0.8, "cpe": 0.85}, seeds=3)
    tables = {table.name: table for table in compare_document(a, b, COMMAND).tables}
    row = shown.rows(tables["compared"])[1]
    data = tables["verdicts"].data.set_index("variant").loc["cpe"]
    differences = {}
    for side, results, seeds in (("A", a, 4), ("B", b, 3)):
        mean, baseline = (results.means.of(variant).value for variant in ("cpe", "none"))
        assert float(row[f"{side}: test accuracy, %"].split()[0]) == pytest.approx(100 * mean, abs=0.06)
        assert row[f"{side}: n"] == str(seeds)
        differences[side] = mean - baseline
        low, value, high = (data[f"{side.lower()}_{name}"] for name in ("low", "diff", "high"))
        assert low < value < high and value == pytest.approx(differences[side])
    # the seeds that both have are those of b
    common = np.mean([a.means.values["cpe"][seed] - a.means.values["none"][seed] for seed in range(3)])
    assert data["shift"] == pytest.approx(differences["B"] - common)


def test_it_is_a_complete_report(tmp_path):
    a, b = (
        results_of(tmp_path / "a", seeds=3),
        results_of(tmp_path / "b", seeds=3, margin=0.02, statuses={("sinusoidal", 0): "diverged"}),
    )
    files = write.make(compare_document(a, b, COMMAND))
    assert {"report.html", "report.md", "tables/compared.csv", "tables/verdicts.csv", "figures/compared.svg"} <= set(
        files
    )
    assert b"A: 0.01; B: 0.02" in files["report.html"]
    assert COMMAND.encode() in files["report.html"]
    assert files == write.make(compare_document(a, b, COMMAND))
