"""A table of anyone's runs is read strictly: each rule gives the values that one writes down by hand, or a line."""

import importlib.util
import math
from functools import partial

import pandas as pd
import pytest
from commands import refusal

import analysis
from analysis.findings import analyze
from analysis.runs.read import read

POSITIONS = "analysis/reference/digits/positions"
NAN = math.nan


def table(values, **columns):
    """A row for each run. `values`: variant -> its results on seeds 0, 1, ..."""
    rows = [(name, seed, value) for name, of in values.items() for seed, value in enumerate(of)]
    return pd.DataFrame(rows, columns=["method", "seed", "score"]).assign(**columns)


def values(frame, **asked):
    """variant -> seed -> value; not finite where the run has failed."""
    return of_runs(analysis.compare(frame, **asked))


def of_runs(results):
    runs = results.findings.study.runs
    return {name: dict(zip(of["seed"], of[results.findings.means.metric])) for name, of in runs.groupby("variant")}


def notes(frame, **asked):
    return analysis.compare(frame, **asked).findings.study.notes


AB = table({"a": [1.0, 2], "b": [3.0, 5]})
AB_VALUES = {"a": {0: 1.0, 1: 2.0}, "b": {0: 3.0, 1: 5.0}}
STEPS = pd.DataFrame({"method": list("aaaabbbb"), "seed": [0, 0, 1, 1] * 2, "epoch": [1, 2, 2, 1, 1, 2, 1, 2]})
FOLDS = STEPS.rename(columns={"epoch": "fold"}).assign(acc=[0.1, 0.3, 0.2, 0.4, 0.5, 0.5, 0.6, 0.8])
STEPS = STEPS.assign(acc=[0.1, 0.2, 0.4, 0.3, 0.5, 0.6, 0.7, 0.8])


def changed(frame, row, **cells):
    """The table with other cells in a row, counted from 1."""
    frame = frame.astype(object)
    for column, cell in cells.items():
        frame.loc[row - 1, column] = cell
    return frame


def test_every_format_holds_the_same_runs(tmp_path):
    frame = table({"none": [0.1, 0.2, 1 / 3], "NA": [0.3, 1e-3, 0.5]}, note="x, y")
    frame.to_csv(tmp_path / "runs.csv", index=False)
    frame.to_csv(tmp_path / "runs.tsv", index=False, sep="\t")
    frame.to_json(tmp_path / "runs.jsonl", orient="records", lines=True, double_precision=15)
    if importlib.util.find_spec("pyarrow"):
        frame.to_parquet(tmp_path / "runs.parquet")
    for path in tmp_path.iterdir():
        assert analyze(read(str(path), metric="score")).means.values.to_dict() == {
            "none": {0: 0.1, 1: 0.2, 2: pytest.approx(1 / 3)},
            "NA": {0: 0.3, 1: 1e-3, 2: 0.5},
        }, path


def test_a_bare_csv_of_a_study_gives_the_verdicts_of_the_study(tmp_path):
    study = read(POSITIONS)
    bare = study.runs[["variant", "seed", "test/acc"]].rename(columns={"test/acc": "accuracy", "variant": "kind"})
    bare.to_csv(tmp_path / "bare.csv", index=False)
    pairs = analysis.read(POSITIONS).pairs
    again = analysis.read(tmp_path / "bare.csv", baseline="none", margin=0.01).pairs.loc[pairs.index]
    assert len(pairs) == 18 * 17
    assert (again["verdict"] == pairs["verdict"]).all()
    for column in ("difference", "difference_low", "difference_high", "p"):
        assert again[column].to_numpy() == pytest.approx(pairs[column].to_numpy(), rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("frame", "asked"),
    [
        (AB, {}),
        (AB.assign(loss=7.0), {"metric": "score"}),
        (AB.assign(kind=["x", "y", "x", "y"]), {"factor": "method"}),
        (AB.assign(name=["r1", "r2", "r3", "r4"]), {}),  # a text that never repeats is no factor
        (AB.rename(columns={"seed": "rng"}), {"metric": "score", "seed": "rng"}),
        (AB.assign(seed=["s7", "s9"] * 2), {}),
        (AB.drop(columns="seed"), {"unpaired": True}),
        (changed(AB, 1, score="1.0").assign(lr=["", 1, 1, 2]), {"metric": "score"}),  # an empty cell is no text
        (AB.assign(part=["old"] * 4), {"where": "part!=new"} | {"failed": "part=lost"}),
    ],
)
def test_a_column_is_named_or_the_only_one_that_fits(frame, asked):
    if "where" in asked:
        frame = pd.concat([frame, frame.assign(part="new", score=9.0)])
    assert values(frame, **asked) == AB_VALUES


@pytest.mark.parametrize(
    ("frame", "asked", "said"),
    [
        (AB.assign(loss=7.0), {}, "--metric is required: a column of numbers; its columns: method, seed, score, loss"),
        (AB.assign(kind=["x", "y"] * 2), {}, "--factor is required: a column of levels; its columns: method, seed"),
        (AB.drop(columns="seed"), {}, "--seed is required, or --unpaired"),
        (AB.drop(columns="seed"), {"unpaired": True, "last": "score"}, "--seed is required"),
        (AB, {"metric": "scroe"}, "no column 'scroe'; did you mean 'score'"),
        (AB, {"metric": "score", "factor": "score"}, "expected different columns"),
        (AB, {"where": "host=x"}, "no column 'host'; its columns: method, seed, score"),
        (AB, {"where": "method=c"}, "no row has it; method holds a, b"),
        (AB, {"factor": "method", "failed": "seed!=7"}, "no row has it"),
        (AB, {"baseline": "c"}, "'c' is not a variant"),
        (AB[:2], {"factor": "method"}, "a factor has two levels"),
        (AB.iloc[:0], {}, "holds no runs"),
        (pd.concat([AB, AB["score"]], axis=1), {}, "two columns are called 'score'"),
        (AB.to_dict(), {}, "is a dict, not a pandas DataFrame"),
        (changed(AB, 2, method=""), {"factor": "method"}, "method: row 2 is empty"),
        (changed(AB, 2, seed=""), {}, "seed: '' is no seed"),
        (changed(AB, 2, score="0.9 ± 0.1"), {"metric": "score"}, "'0.9 ± 0.1' in row 2 is not a number"),
        (changed(AB, 2, score="1_5"), {"metric": "score"}, "'1_5' in row 2 is not a number"),
        (AB.rename(columns={"score": "test/acc"}), {}, "is not a fraction"),
        (AB.assign(method=["0.10", "0.10", "0.1", "0.1"]), {"factor": "method"}, "are the same number"),
        (AB.assign(seed=["0", "mean"] * 2), {}, "'mean' is no seed"),
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_refused(frame, asked, said):
    assert said in refusal(analysis.compare, frame, **asked)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("short.csv", "method,seed,score\na,0\n", "row 1 has 2 cells, and the header 3"),
        ("semicolons.csv", "method;seed;score\na;0;1\n", "expected commas, or tabs in a .tsv"),
        ("empty.csv", "", "holds no runs"),
        ("runs.jsonl", "{\n", "cannot be read"),
        ("list.jsonl", '{"m": "a", "acc": 1}\n{"m": "a", "acc": [2]}\n', "'[2]' in row 2 is not a number"),
        ("runs.parquet", "method\n", "cannot be read"),
        ("runs.xlsx", "", "save a table as .csv"),
    ],
)
def test_a_file_of_another_format_is_one_line(tmp_path, refused, name, content, said):
    if name.endswith(".parquet") and not importlib.util.find_spec("pyarrow"):
        pytest.skip("reading Parquet needs pyarrow")
    (tmp_path / name).write_text(content)
    flags = ("--metric", "acc", "--factor", "m", "--unpaired") if name == "list.jsonl" else ()
    assert said in refused(tmp_path / name, *flags)


@pytest.mark.parametrize(
    ("frame", "asked", "b", "early"),
    [
        (STEPS, {"last": "epoch"}, {0: 0.6, 1: 0.8}, ""),
        (changed(STEPS, 8, acc=""), {"last": "epoch"}, {0: 0.6, 1: 0.7}, "earlier step than 2: b, seed 1."),
        (
            changed(changed(STEPS, 7, acc=""), 8, acc=""),
            {"last": "epoch"},
            {0: 0.6, 1: NAN},
            "earlier step than 2: b, seed 1.",
        ),
        (changed(STEPS, 8, acc="nan"), {"last": "epoch"}, {0: 0.6, 1: NAN}, ""),
        (changed(STEPS, 7, acc="inf"), {"last": "epoch"}, {0: 0.6, 1: NAN}, ""),
        (FOLDS, {"mean_over": "fold"}, {0: 0.5, 1: 0.7}, ""),
        (FOLDS.drop(7), {"mean_over": "fold"}, {0: 0.5, 1: NAN}, ""),
        (changed(FOLDS, 8, acc=""), {"mean_over": "fold"}, {0: 0.5, 1: NAN}, ""),
    ],
)
def test_several_rows_of_a_run_become_one(frame, asked, b, early):
    asked = {"metric": "acc", "factor": "method", **asked}
    assert values(frame, **asked)["b"] == pytest.approx(b, nan_ok=True)
    assert early in " ".join(notes(frame, **asked)) and ("earlier" in " ".join(notes(frame, **asked))) == bool(early)


@pytest.mark.parametrize(
    ("frame", "asked", "said"),
    [
        (FOLDS.assign(host=FOLDS["fold"]), {}, "several rows of one run (a, seed 0), in which fold, host vary"),
        (pd.concat([AB, AB]).rename(columns={"score": "acc"}), {}, "several rows of one run (a, seed 0), in which no"),
        (changed(STEPS, 2, epoch="1"), {"last": "epoch"}, "two rows of a, seed 0 have 1"),
        (changed(STEPS, 2, epoch="end"), {"last": "epoch"}, "'end' in row 2 is not a number"),
        (changed(FOLDS, 2, fold=1), {"mean_over": "fold"}, "two rows of a, seed 0 have 1"),
    ],
)
def test_several_rows_of_a_run_that_cannot_become_one_are_refused(frame, asked, said):
    assert said in refusal(analysis.compare, frame, "acc", "method", **asked)


@pytest.mark.parametrize("words", ["finished FAILED", "ok error", "Completed running", "complete pruned", "x crashed"])
def test_a_column_that_says_which_runs_ended_is_refused_until_a_flag_says_what_counts(words):
    good, bad = words.split()
    frame = AB.assign(State=[good, good, good, bad])
    compare = partial(values, metric="score", factor="method")
    line = refusal(compare, frame)
    assert "State may say which runs ended" in line and "--failed State=" in line and "--where State=" in line
    assert compare(frame, failed=f"State={bad}") == {"a": {0: 1, 1: 2}, "b": {0: 3, 1: pytest.approx(NAN, nan_ok=True)}}
    assert compare(frame, where={"State": good}) == {"a": {0: 1, 1: 2}, "b": {0: 3}}


@pytest.mark.parametrize("name", ["failed", "has_crashed", "diverged", "done"])
def test_a_flag_of_failures_is_refused_and_ends_of_success_are_not(name):
    assert f"{name} may say" in refusal(values, AB.assign(**{name: [True, False] * 2}), factor="method")
    assert values(AB.assign(**{name: ["done", "ok"] * 2}), factor="method") == AB_VALUES


def test_nothing_on_a_variant_with_failed_runs_is_tested_and_a_line_says_what_to_do():
    frame = table({"a": [1.0, 2, 3], "b": [4.0, None, 6.5], "c": [7.0, 9, 9.5]})
    results = analysis.compare(frame)
    verdicts = results.pairs["verdict"]
    assert verdicts["b", "a"] == verdicts["c", "b"] == "not tested" and verdicts["c", "a"] == "better"
    (said,) = results.findings.study.notes
    assert said.startswith("Not tested because of failed runs: b.") and "--where seed!=1" in said
    assert set(analysis.compare(frame, where="seed!=1").pairs["verdict"]) & {"not tested"} == set()


def test_columns_that_vary_and_are_not_used_are_named_on_terminal_and_page(tmp_path, vit_report):
    frame = AB.assign(host=["x", "y", "z", "w"], exit_code=[0, 1, 2, 3], constant="same")
    frame.to_csv(tmp_path / "runs.csv", index=False)
    status, out, err = vit_report(tmp_path / "runs.csv", "--metric", "score", "--out", tmp_path / "report")
    assert status == 0 and "Not used: host, exit_code." in out + err
    assert "Not used: host, exit_code." in (tmp_path / "report" / "report.html").read_text()
    status, out, err = vit_report(tmp_path / "runs.csv", "--metric", "score", "--json")
    assert status == 0 and "Not used: host, exit_code." in err


@pytest.mark.parametrize(
    ("margin", "scale", "said"),
    [
        (0.5, 0.01, "is from 0 to 1; write '0.5 points' or '50 points'"),
        ("0.5 points", 10, "points are of a share"),
        (1000, 1, "has no value as large"),
    ],
)
def test_a_margin_of_another_scale_is_refused(margin, scale, said):
    frame = table({"a": [10.0, 20, 15], "b": [30.0, 50, 45]})
    assert said in refusal(analysis.compare, frame.assign(score=scale * frame["score"]), margin=margin)


def test_a_margin_is_in_the_unit_of_the_metric_or_in_points_and_there_is_none_by_default():
    percent = table({"a": [91.0, 92], "b": [93.0, 95]})
    shares = percent.assign(score=percent["score"] / 100)
    margins = [analysis.compare(frame, margin="0.5 points").findings.study.margin for frame in (percent, shares)]
    assert margins == pytest.approx([0.5, 0.005])
    assert analysis.compare(percent.rename(columns={"score": "accuracy"})).findings.study.margin is None


def test_true_and_false_are_one_and_zero():
    solved = values(AB.assign(solved=[True, "false", "true", False]), metric="solved", higher_is_better=True)
    assert solved == {"a": {0: 1.0, 1: 0.0}, "b": {0: 1.0, 1: 0.0}}


@pytest.mark.parametrize(
    ("levels", "order"),
    [
        ([10, 9, "9.0", "10."], ["10", "9"]),  # whole numbers with and without a point
        ([True, "false", "False", "true"], ["true", "false"]),
        (["z", "b", "b", "z"], ["z", "b"]),
        ([3, 10, 2, 3], ["3", "2", "10"]),  # numbers in their order, after the baseline
        (["m", "z", "a", "m"], ["m", "z", "a"]),  # text in that of the file
    ],
)
def test_a_level_has_one_spelling_and_the_first_in_the_file_is_the_baseline(levels, order):
    results = analysis.compare(AB.assign(method=levels, seed=range(4)), "score", "method")
    assert list(results.table.index) == order and results.findings.variants.baseline == order[0]


@pytest.mark.parametrize(
    ("name", "asked", "is_lower"),
    [
        *((name, {}, True) for name in ("loss", "val_loss", "valLoss", "FID ↓", "test-error", "WER", "latency [ms]")),
        *((name, {}, False) for name in ("acc", "eval/f1", "topAccuracy", "mAP", "return ↑", "throughput", "x ↑")),
        ("speed", {"lower_is_better": True}, True),
        ("speed", {"higher_is_better": True}, False),
        ("loss", {"higher_is_better": True}, False),
        *((name, {}, None) for name in ("speed", "lossless", "neg_loss", "error_reduction", "acc_gain", "minus score")),
        *((name, {}, None) for name in ("score_loss", "time to accuracy", "x ↑↓")),
    ],
)
def test_which_values_are_better_follows_from_a_flag_an_arrow_or_a_word(name, asked, is_lower):
    frame = AB.rename(columns={"score": name})
    if is_lower is None:
        assert "Give --lower-is-better or --higher-is-better" in refusal(analysis.compare, frame, **asked)
    else:
        assert analysis.compare(frame, **asked).findings.means.metric.lower_is_better is is_lower


def test_datasets_may_have_equal_values_and_runs():
    one = AB.assign(task="one")
    results = analysis.compare(pd.concat([one, one.assign(task="two")]), "score", "method", dataset="task")
    assert {name: of_runs(part) for name, part in results.studies.items()} == {"one": AB_VALUES, "two": AB_VALUES}
