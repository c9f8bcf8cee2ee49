"""`analysis.read`: the results of a study in Python, and what a notebook shows of them."""

import pandas as pd
import pytest
from scipy import stats as scipy_stats
from synthetic import write_study

import analysis
from experiments.errors import UserError

SPREADS = {"old": 0.02, "new": 0.03}  # study -> how far its seeds scatter


@pytest.mark.parametrize(
    ("name", "value"),
    [("factor", "x"), ("seed", "s"), ("margin", 0.1), ("where", {"seed": 0}), ("failed", "seed=0"), ("colour", 3)],
)
def test_what_is_for_a_table_is_not_ignored_for_a_study(name, value, tmp_path):
    with pytest.raises(UserError, match=f"{name}: is for a table of runs, such as runs.csv, and .* is none"):
        analysis.read(write_study(tmp_path), **{name: value})


def test_a_table_is_read_from_a_file_as_from_a_frame(tmp_path):
    frame = pd.DataFrame({"opt": ["a"] * 3 + ["b"] * 3, "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 4.5, 5, 6.5]})
    frame.to_csv(tmp_path / "runs.csv", index=False)
    from_file = analysis.read(tmp_path / "runs.csv", metric="acc", factor="opt")
    from_frame = analysis.compare(frame, metric="acc", factor="opt")
    expected, source = from_frame.as_dict(), f"csv:{tmp_path / 'runs.csv'}"
    warned = [line.replace("the table", source) for line in expected["warnings"]]
    assert from_file.answer == from_frame.answer
    assert from_file.as_dict() == {**expected, "study": "runs", "warnings": warned}


def test_a_notebook_shows_the_answer_and_the_table():
    frame = pd.DataFrame({"opt": ["a<b"] * 3 + ["c"] * 3, "seed": [0, 1, 2] * 2, "acc": [1, 2, 3, 7.5, 8, 9.5]})
    html = analysis.compare(frame, metric="acc", factor="opt", baseline="a<b")._repr_html_()
    assert html.startswith("<p>Higher acc than a&lt;b (2.0): c by 6.3 ") and "<b>8.3 ± 2.6</b>" in html
    assert html.count("<tr>") == 3 and "a<b" not in html


def test_two_studies_are_one_table_with_the_study_as_a_factor(tmp_path):
    """A variant is compared with itself by paired t tests, at the level of all pairs and factors together."""
    studies = {name: analysis.read(write_study(tmp_path / name, spread=spread)) for name, spread in SPREADS.items()}
    frame = pd.concat([study.runs.assign(study=name) for name, study in studies.items()])
    both = analysis.compare(frame, metric="test/acc", factor=["study", "variant"], margin=0.01, variance="paired")
    assert len(both.comparisons.pairs) == 28
    for variant in ("none", "sinusoidal"):
        names = [f"study={name}, variant={variant}" for name in SPREADS]
        pairs = both.comparisons.pairs
        found, sign = (pairs[*names], -1) if tuple(names) in pairs else (pairs[*names[::-1]], 1)
        old, new = (study.runs.set_index("variant").loc[variant, "test/acc"].to_numpy() for study in studies.values())
        ends = scipy_stats.ttest_1samp(sign * (new - old), 0).confidence_interval(1 - 0.05 / 2 / 28)
        assert found.diff.value == pytest.approx(sign * (new - old).mean()) and found.n == 5
        assert (found.adjusted.low, found.adjusted.high) == pytest.approx([*ends])


def test_another_metric_can_be_asked_for(tmp_path):
    assert str(analysis.read(write_study(tmp_path), metric="val/acc").means.metric) == "val/acc"
