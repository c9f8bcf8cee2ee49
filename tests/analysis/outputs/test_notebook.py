"""`analysis.read`: the results of a study in Python, and what a notebook shows of them."""

import numpy as np
import pandas as pd
import pytest
from commands import refusal
from scipy import stats as scipy_stats
from synthetic import write_factorial, write_study

import analysis
from experiments.errors import UserError

SPREADS = {"old": 0.02, "new": 0.03}  # study -> how far its seeds scatter
TWELVE = {f"v{i:02}": [i + 0.5 * ((i * 7 + seed * 5) % 4) for seed in range(3)] for i in range(12)}


def twelve(**options):
    rows = [(name, seed, value) for name, values in TWELVE.items() for seed, value in enumerate(values)]
    frame = pd.DataFrame(rows, columns=["m", "seed", "acc"])
    return analysis.compare(frame, "acc", "m", baseline="v05", **options)


def test_a_notebook_shows_the_answer_and_the_table_as_text():
    frame = pd.DataFrame({"opt": ["a<b"] * 3 + ["c $x$"] * 3, "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 7.5, 8, 9.5]})
    html = analysis.compare(frame, metric="acc", factor="opt")._repr_html_()
    assert html.startswith("<p>Higher acc than a&lt;b (2.0): “c $x$” by 6.33 ") and "c $x$</th>" in html
    assert html.count("<tr>") == 3 and "a<b" not in html


def test_results_on_several_datasets_are_frames_with_the_dataset():
    rows = [
        (data, opt, seed, 90 + (data == "svhn") + 2 * (opt == "sam") + (seed + 3 * (opt == "sgd")) % 4 / 7)
        for data in ("mnist", "svhn") for opt in ("adamw", "sam", "sgd") for seed in range(4)
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["data", "opt", "seed", "acc"])
    results = analysis.compare(frame, "acc", "opt", dataset="data")
    assert results.table.loc[("svhn", "adamw"), "mean"] == pytest.approx(91 + 1.5 / 7)
    pair = results.pairs.loc[("mnist", "sam", "adamw")]
    assert pair["difference"] == pytest.approx(2) and pair["verdict"] == "better"
    assert results.pairs.loc[("mnist", "adamw", "sam"), "verdict"] == "worse"
    assert len(results.runs.loc["svhn"]) == 12 and results.as_dict()["datasets"].keys() == {"mnist", "svhn"}
    assert results.studies["mnist"].table["mean"].to_dict() == pytest.approx(
        results.table.loc["mnist", "mean"].to_dict()
    )
    assert "mnist" in results._repr_html_() and "adamw" in repr(results)


def test_two_studies_are_one_table_with_the_study_as_a_factor(tmp_path):
    """A variant is compared with itself by paired t tests, at the level of all pairs and factors together."""
    studies = {name: analysis.read(write_study(tmp_path / name, spread=spread)) for name, spread in SPREADS.items()}
    frame = pd.concat([study.runs.assign(study=name) for name, study in studies.items()])
    both = analysis.compare(frame, metric="test/acc", factor=["study", "variant"], margin=0.01, variance="paired")
    assert len(both.pairs) == 8 * 7
    for variant in ("none", "sinusoidal"):
        old, new = (study.runs.set_index("variant").loc[variant, "test/acc"].to_numpy() for study in studies.values())
        ends = scipy_stats.ttest_rel(new, old).confidence_interval(1 - 0.05 / 2 / 28)
        pair = both.pairs.loc[(f"study=new, variant={variant}", f"study=old, variant={variant}")]
        expected = ((new - old).mean(), *ends, 5)
        assert pair[["difference", "difference_low", "difference_high", "n"]].tolist() == pytest.approx(expected)


def test_the_table_of_results_holds_numbers():
    results = twelve()
    table, pairs = results.table, results.pairs
    assert repr(results).startswith(results.answer)
    assert table["mean"].to_dict() == pytest.approx({name: sum(values) / 3 for name, values in TWELVE.items()})
    ends = scipy_stats.ttest_1samp(TWELVE["v07"], 0).confidence_interval(0.95)
    assert table.loc["v07", ["low", "high", "n"]].tolist() == pytest.approx([*ends, 3])
    columns = ["difference", "difference_low", "difference_high"]
    expected = pairs.loc[("v07", "v05"), columns].tolist()
    assert table.loc["v07", columns].tolist() == pytest.approx(expected)
    assert expected[0] == pytest.approx((sum(TWELVE["v07"]) - sum(TWELVE["v05"])) / 3)
    assert table.loc["v05", "verdict"] == "baseline" and [*table.index[table["difference"].isna()]] == ["v05"]
    verdicts = pairs.loc["v07", "verdict"].tolist()
    assert table.loc["v07", "rank"] == f"{1 + verdicts.count('worse')} to {12 - verdicts.count('better')}"


def test_pairs_are_in_both_orders():
    pairs = twelve().pairs
    assert len(pairs) == 12 * 11 == pairs.index.nunique()
    turned = pairs.reorder_levels(["reference", "variant"]).loc[pairs.index]
    expected = [(sum(TWELVE[a]) - sum(TWELVE[b])) / 3 for a, b in pairs.index]
    assert pairs["difference"].tolist() == pytest.approx(expected)
    assert (-turned["difference"]).tolist() == pytest.approx(expected)
    assert pairs["difference_low"].tolist() == pytest.approx((-turned["difference_high"]).tolist())
    mirrored = {"better": "worse", "worse": "better", "not shown": "not shown"}
    assert pairs["verdict"].map(mirrored).tolist() == turned["verdict"].tolist()
    assert set(pairs["verdict"]) == set(mirrored) and pairs["p"].tolist() == pytest.approx(turned["p"].tolist())


def test_effects_of_a_grid_are_differences_of_means(tmp_path):
    results = analysis.read(write_factorial(tmp_path))
    effects, runs = results.effects.set_index("factor"), results.runs
    for factor, high, low in (("model.depth", 2, 1), ("model.head", "softmax", "logits")):
        means = runs.groupby(factor)["test/acc"].mean()
        assert effects.loc[factor, "value"] == pytest.approx(means[high] - means[low])
        assert effects.loc[factor, "low"] < effects.loc[factor, "value"] < effects.loc[factor, "high"]
    assert twelve().effects.empty and list(twelve().runs) == ["run", "variant", "seed", "status", "acc", "m"]


def test_results_write_the_report(tmp_path):
    frame = pd.DataFrame({"opt": list("aaabbb"), "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 4.5, 5, None]})
    results = analysis.compare(frame, "acc", "opt")
    page = results.page(tmp_path / "report")
    assert any("b" in line and "failed" in line for line in results.warnings)
    assert results.answer.splitlines()[0] in page.read_text()


def test_a_latex_table_is_that_of_the_command_with_the_columns_of_a_text_or_a_list(tmp_path, vit_report):
    results = twelve()
    results.runs[["m", "seed", "acc"]].to_csv(tmp_path / "runs.csv", index=False)
    flags = ["--metric", "acc", "--baseline", "v05", "--table", tmp_path / "x.tex"]
    assert vit_report(tmp_path / "runs.csv", *flags)[0] == 0
    assert results.to_latex() == (tmp_path / "x.tex").read_text()
    assert results.to_latex("variant, acc") == results.to_latex(["variant", "acc"]) != results.to_latex()
    assert "--columns: 'nothing' is not allowed" in refusal(results.to_latex, "nothing")


def test_a_notebook_shows_a_user_error_as_one_line():
    assert UserError("acc: no\nsuch column")._render_traceback_() == ["UserError: acc: no such column"]


def test_a_new_name_changes_no_interval_of_a_dataset():
    generator = np.random.default_rng(0)
    rows = [(d, m, s, generator.normal()) for d in "xyz" for m in "abc" for s in range(3)]
    frame = pd.DataFrame(rows, columns=["d", "m", "seed", "acc"])
    results = analysis.compare(frame, metric="acc", factor="m", dataset="d").studies["x"]
    plain, renamed = results.to_latex(), results.to_latex(rename={"b": "B"})
    assert [line.replace("B ", "b ", 1) for line in renamed.splitlines()] == plain.splitlines()
