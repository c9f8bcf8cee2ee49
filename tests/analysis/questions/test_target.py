"""A target on the command line: what the report, tables and JSON say of it."""

import json

import pytest
from scipy import stats

RUNS = {"a": [0.951, 0.953, 0.949, 0.952], "b": [0.938, 0.945, 0.943, 0.944], "c": [0.95, 0.951, None], "d": [0.94]}


def report(tmp_path, vit_report, *more, names="abcd", extra=""):
    rows = [f"{name},{seed},{value or ''}" for name in names for seed, value in enumerate(RUNS[name])]
    (tmp_path / "runs.csv").write_text("\n".join(["method,seed,acc", *rows, extra]))
    status, out, err = vit_report(tmp_path / "runs.csv", "--metric", "acc", "--factor", "method", *more)
    return status, " ".join(out.split()), err


def test_the_answer_says_which_variants_reach_it_and_which_are_not_tested(tmp_path, vit_report):
    p = {name: stats.ttest_1samp(RUNS[name], 0.947, alternative="greater").pvalue for name in "ab"}
    code, out, _ = report(tmp_path, vit_report, "--target", "0.947")
    said = f"acc reaches 0.947: a (p = {4 * p['a']:.3f}); not shown: b (p = 1.000); "
    assert code == 0 and 4 * p["a"] <= 0.05
    assert f"{said}not tested (failed runs, chance level unknown): c; not tested (one run): d." in out
    page = (tmp_path / "runs-acc-report" / "report.md").read_text()
    assert "p (reaches 0.947): one-sided t test of the mean, adjusted over the 4 variants (Bonferroni)." in page


def test_one_variant_alone_may_be_tested(tmp_path, vit_report):
    code, out, _ = report(tmp_path, vit_report, "--target", "0.95", names="a")
    p = stats.ttest_1samp(RUNS["a"], 0.95, alternative="greater").pvalue
    assert code == 0 and f"acc reaches 0.95: shown for no variant; not shown: “all runs” (p = {p:.3f})." in out
    assert report(tmp_path, vit_report, names="a")[0] == 2


def test_of_a_metric_that_is_to_be_low_it_is_the_most(tmp_path, vit_report):
    assert "acc is at most 0.96: a (p = " in report(tmp_path, vit_report, "--target", "0.96", "--lower-is-better")[1]


def test_tables_and_json_have_the_p_value(tmp_path, vit_report):
    tree = json.loads(report(tmp_path, vit_report, "--target", "0.94", "--json")[1])
    p = stats.ttest_1samp(RUNS["a"], 0.94, alternative="greater").pvalue
    assert tree["target"] == 0.94 and tree["variants"][0]["p_target"] == pytest.approx(4 * p)
    assert tree["variants"][3]["p_target"] is None
    report(tmp_path, vit_report, "--target", "0.94", "--table", str(tmp_path / "t.md"), "--columns", "variant,p_target")
    table = (tmp_path / "t.md").read_text()
    assert f"| a | {4 * p:.3f} |" in table and "one-sided t test of the mean" in table
