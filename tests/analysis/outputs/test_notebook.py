"""`analysis.read`: the results of a study in Python, and what a notebook shows of them."""

import ast
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from synthetic import write_study

import analysis
from analysis.outputs.as_json import as_dict
from experiments.errors import UserError

SPREADS = {"old": 0.02, "new": 0.03}  # study -> how far its seeds scatter


@pytest.mark.parametrize(
    ("name", "value"),
    [("factor", "x"), ("seed", "s"), ("margin", 0.1), ("where", {"seed": 0}), ("failed", "seed=0"), ("dataset", "d")],
)
def test_what_is_for_a_table_is_not_ignored_for_a_study(name, value, tmp_path):
    with pytest.raises(UserError, match=f"{name}: is for a table of runs, such as runs.csv, and .* is none"):
        analysis.read(write_study(tmp_path), **{name: value})


def test_a_table_is_read_from_a_file_as_from_a_frame(tmp_path):
    frame = pd.DataFrame({"opt": ["a"] * 3 + ["b"] * 3, "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 4.5, 5, 6.5]})
    frame.to_csv(tmp_path / "runs.csv", index=False)
    from_file = analysis.read(tmp_path / "runs.csv", metric="acc", factor="opt")
    from_frame = analysis.compare(frame, metric="acc", factor="opt")
    expected, source = as_dict(from_frame.findings), f"csv:{tmp_path / 'runs.csv'}"
    warned = [line.replace("the table", source) for line in expected["warnings"]]
    assert from_file.answer == from_frame.answer
    assert as_dict(from_file.findings) == {**expected, "study": "runs", "warnings": warned}


def test_a_notebook_shows_the_answer_and_the_table():
    frame = pd.DataFrame({"opt": ["a<b"] * 3 + ["c"] * 3, "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 7.5, 8, 9.5]})
    html = analysis.compare(frame, metric="acc", factor="opt", baseline="a<b")._repr_html_()
    assert html.startswith("<p>Higher acc than a&lt;b (2.0): c by 6.33 ") and "<b>8.3 ± 2.6</b>" in html
    assert html.count("<tr>") == 3 and "a<b" not in html and "Bold: the best mean." in html


CELLS = [
    """
import pandas as pd
import analysis
rows = [
    (data, opt, seed, round(90 + (data == "svhn") + 2 * (opt == "sam") + (seed + 3 * (opt == "sgd")) % 4 / 7, 9))
    for data in ("mnist", "svhn") for opt in ("adamw", "sam", "sgd") for seed in range(4)
]
frame = pd.DataFrame(rows, columns=["data", "opt", "seed", "acc"])
results = analysis.compare(frame, "acc", "opt", dataset="data", baseline="adamw")
results""",
    "results.plot()",
    """
axes = results.plot(width=3.33).axes
axes[0].set_title("A title of mine")
axes[0].figure""",
    'results.pairs["mnist"]["sam", "adamw"]',
    'results.pairs["mnist"]["adamw", "sam"]',
    'results.runs.loc["svhn"]',
    "results.studies['mnist'].table",
    "results.studies['mnist'].plot()",
]


def run_cells(cells):
    """What Jupyter shows of each cell: the richest form of the value of its last line."""
    names, shown = {}, []
    for cell in cells:
        *first, last = ast.parse(cell).body
        exec(compile(ast.Module(first, []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        form = next((f for f in ("_repr_html_", "_repr_png_") if hasattr(value, f) and getattr(value, f)()), "__repr__")
        shown.append((value, getattr(value, form)()))
    return shown


def test_a_notebook_of_several_datasets():
    (_, page), (plot, picture), (narrow, _), pair, turned, (runs, listed), (table, rows), (one, _) = run_cells(CELLS)
    assert "<b>92.21 ± 0.29</b> ▲" in page and "<b>93.21 ± 0.29</b> ▲" in page
    assert "Marks against adamw: ▲ better; no mark: none of these." in page
    assert [axes.get_title("left") for axes in plot.axes] == ["mnist", "svhn"] and picture.startswith(b"\x89PNG")
    assert narrow.get_figwidth() == 3.33 and narrow.axes[0].get_title() == "A title of mine"
    assert re.fullmatch(r"sam - adamw: \+2.00 \[1.\d\d, 2.\d\d\], better", pair[1])
    assert re.fullmatch(r"adamw - sam: −2.00 \[−2.\d\d, −1.\d\d\], worse", turned[1])
    assert len(runs) == 12 and runs["acc"].iloc[1] == 91.142857143 and "91.143" in listed and "91.1428" not in listed
    assert table.loc["adamw", "mean"] == pytest.approx(90 + 1.5 / 7) and "90.214" in rows and "90.2142" not in rows
    assert [axes.get_title("left") for axes in (*one.axes, *twelve().plot().axes)] == ["mnist", ""]


def test_two_studies_are_one_table_with_the_study_as_a_factor(tmp_path):
    """A variant is compared with itself by paired t tests, at the level of all pairs and factors together."""
    studies = {name: analysis.read(write_study(tmp_path / name, spread=spread)) for name, spread in SPREADS.items()}
    frame = pd.concat([study.runs.assign(study=name) for name, study in studies.items()])
    both = analysis.compare(frame, metric="test/acc", factor=["study", "variant"], margin=0.01, variance="paired")
    assert len(both.findings.comparisons.pairs) == 28
    for variant in ("none", "sinusoidal"):
        names = [f"study={name}, variant={variant}" for name in SPREADS]
        pairs = both.findings.comparisons.pairs
        found, sign = (pairs[*names], -1) if tuple(names) in pairs else (pairs[*names[::-1]], 1)
        old, new = (study.runs.set_index("variant").loc[variant, "test/acc"].to_numpy() for study in studies.values())
        ends = scipy_stats.ttest_1samp(sign * (new - old), 0).confidence_interval(1 - 0.05 / 2 / 28)
        assert found.diff.value == pytest.approx(sign * (new - old).mean()) and found.n == 5
        assert (found.adjusted.low, found.adjusted.high) == pytest.approx([*ends])


def test_another_metric_can_be_asked_for(tmp_path):
    assert str(analysis.read(write_study(tmp_path), metric="val/acc").findings.means.metric) == "val/acc"


TWELVE = {f"v{i:02}": [i + 0.5 * ((i * 7 + seed * 5) % 4) for seed in range(3)] for i in range(12)}


def twelve(**options):
    rows = [(name, seed, value) for name, values in TWELVE.items() for seed, value in enumerate(values)]
    frame = pd.DataFrame(rows, columns=["m", "seed", "acc"])
    return analysis.compare(frame, "acc", "m", baseline="v05", **options)


def test_the_text_of_results_is_the_answer_and_the_table_in_ten_lines():
    results = twelve()
    lines = repr(results).splitlines()
    assert len(lines) <= 10 and "\n".join(lines).startswith(results.answer)
    assert lines[len(results.answer.splitlines()) :][0].split()[:3] == ["variant", "mean", "low"]
    parts = twelve().findings.study.runs.rename(columns={"variant": "n"})
    both = pd.concat(
        [parts.assign(d=name, acc=parts["acc"] + (name == "b"))[["m", "seed", "acc", "d"]] for name in "ab"]
    )
    by_dataset = analysis.compare(both, "acc", "m", dataset="d")
    assert len(repr(by_dataset).splitlines()) <= 10 and list(by_dataset.table.index[0]) == ["a", "v00"]


def test_the_table_of_results_holds_numbers():
    table, results = twelve().table, twelve()
    assert table["mean"].to_dict() == pytest.approx({name: sum(values) / 3 for name, values in TWELVE.items()})
    ends = scipy_stats.ttest_1samp(TWELVE["v07"], 0).confidence_interval(0.95)
    assert table.loc["v07", ["low", "high", "n"]].tolist() == pytest.approx([*ends, 3])
    other = results.findings.comparisons.versus["v07"]
    assert table.loc["v07", "difference"] == pytest.approx((sum(TWELVE["v07"]) - sum(TWELVE["v05"])) / 3)
    assert table.loc["v07", ["difference_low", "difference_high"]].tolist() == [other.adjusted.low, other.adjusted.high]
    assert table.loc["v05", "verdict"] == "baseline" and [*table.index[table["difference"].isna()]] == ["v05"]
    verdicts = [results.pairs["v07", name].verdict for name in TWELVE if name != "v07"]
    assert table.loc["v07", "rank"] == f"{1 + verdicts.count('worse')} to {12 - verdicts.count('better')}"


def test_a_pair_is_found_in_either_order():
    pairs = twelve().pairs
    assert len(pairs) == 66 == len({frozenset(pair) for pair in pairs})
    for a, b in pairs:
        one, other = pairs[a, b], pairs[b, a]
        assert one.diff.value == pytest.approx((sum(TWELVE[a]) - sum(TWELVE[b])) / 3) == -other.diff.value
        assert (one.adjusted.low, one.adjusted.high) == (-other.adjusted.high, -other.adjusted.low)
        assert {one.verdict, other.verdict} in ({"better", "worse"}, {"not shown"})
        assert other.reversed == one
    assert ("v00", "nothing") not in pairs and "v00" not in pairs
    with pytest.raises(KeyError, match=r"^pairs: 'v5' is not a variant; did you mean 'v05'\? allowed: "):
        pairs["v00", "v5"]
    with pytest.raises(KeyError, match=r"^pairs: \('v00', 'v00'\) is not compared$"):
        pairs["v00", "v00"]


def test_results_are_equal_where_their_reports_are_and_write_the_report(tmp_path):
    one, other = twelve(), twelve(variance="paired")
    assert one == twelve() and hash(one) == hash(twelve()) and one != other and len({one, twelve(), other}) == 2
    frame = pd.DataFrame({"opt": list("aaabbb"), "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 4.5, 5, None]})
    results = analysis.compare(frame, "acc", "opt")
    page = results.page(tmp_path / "report")
    assert results.warnings[-1].startswith("Failed: 1 run of b.") and results.answer.splitlines()[0] in page.read_text()
    names = {name for name in dir(results) if not name.startswith("_")}
    assert names - {"findings"} == {"answer", "table", "pairs", "runs", "warnings", "to_latex", "plot", "page"}


def test_a_latex_table_is_that_of_the_command(tmp_path, vit_report):
    frame = twelve().runs[["m", "seed", "acc"]]
    frame.to_csv(tmp_path / "runs.csv", index=False)
    file, flags = tmp_path / "x.tex", ["--metric", "acc", "--baseline", "v05", "--label", "tab:x"]
    assert vit_report(tmp_path / "runs.csv", *flags, "--table", file)[0] == 0
    assert twelve().to_latex(label="tab:x") == file.read_text()


def test_the_columns_of_a_table_are_one_text_as_for_the_flag_or_a_list():
    results = twelve()
    assert results.to_latex("variant, acc") == results.to_latex(["variant", "acc"]) != results.to_latex()
    with pytest.raises(UserError, match="--columns: 'nothing' is not allowed"):
        results.to_latex("nothing")


def test_runs_have_no_empty_columns():
    assert list(twelve().runs) == ["run", "variant", "seed", "status", "epochs", "acc", "m"]
    assert "seed" not in twelve(variance="unpaired").runs


def test_a_notebook_shows_a_user_error_as_one_line():
    assert UserError("acc: no\nsuch column")._render_traceback_() == ["UserError: acc: no such column"]


def test_a_new_name_changes_no_interval_of_a_dataset():
    generator = np.random.default_rng(0)
    rows = [(d, m, s, generator.normal()) for d in "xyz" for m in "abc" for s in range(3)]
    found = analysis.compare(
        pd.DataFrame(rows, columns=["d", "m", "seed", "acc"]), metric="acc", factor="m", dataset="d"
    ).studies["x"]
    plain, renamed = found.to_latex(), found.to_latex(rename={"b": "B"})
    assert [line.replace("B ", "b ", 1) for line in renamed.splitlines()] == plain.splitlines()
