"""A table of anyone's runs gives numbers that can be computed by hand, and the verdicts of the study that it is
from.
"""

import importlib.util
import json
import math
import re
from pathlib import Path

import optuna
import pandas as pd
import pytest
from commands import refusal
from scipy import stats as scipy_stats
from synthetic import write_study

import analysis
from analysis.findings import analyze
from analysis.questions.provenance import reproduce
from analysis.report import summary
from analysis.runs.read import read
from analysis.verdicts.estimates import decimal_step
from experiments.errors import UserError

README = Path("analysis/README.md").read_text(encoding="utf-8")
POSITIONS = "analysis/reference/digits/positions"


def table(values, **columns):
    """A row for each run. `values`: variant -> its results on seeds 0, 1, ..."""
    rows = [(name, seed, value) for name, found in values.items() for seed, value in enumerate(found)]
    return pd.DataFrame(rows, columns=["method", "seed", "score"]).assign(**columns)


def compared(frame, metric="score", factor="method", margin=None, **options):
    return analysis.compare(frame, metric, factor, margin=margin, **options)


def test_the_user_says_what_is_better_and_what_counts_as_equal():
    """Differences -3.1, -3, -2.9: the ends of the 95 % interval are -3 -+ 4.303 * 0.1 / sqrt(3) = -3 -+ 0.248."""
    frame, margins = table({"a": [-10.0, -20.0, -30.0], "b": [-13.1, -23.0, -32.9]}), (3.24, 3.25)
    verdicts = [
        compared(frame, lower_is_better=lower, margin=margin, variance="paired")
        .findings.comparisons.versus["b"]
        .verdict
        for lower in (False, True)
        for margin in margins
    ]
    assert verdicts == ["worse", "equivalent", "better", "equivalent"]


def test_pairs_with_the_baseline_can_be_the_only_ones():
    frame = table({"a": [1.0, 2, 3, 4, 5], "b": [1.1, 2.3, 2.9, 4, 5], "c": [2.1, 3.3, 3.9, 5, 6]})
    every, few = (compared(frame, family=family).findings.comparisons for family in ("all", "baseline"))
    assert len(every.pairs) == 3 and few.pairs == {} and few.versus["b"].p < few.versus["b"].p_adjusted
    assert few.versus["c"].p_adjusted == pytest.approx(2 / 3 * every.versus["c"].p_adjusted)


def test_rounded_values_that_never_vary_are_known_to_half_a_step():
    """500 and 400 on each of 5 seeds: the standard deviation of a difference is 0.5 sqrt(2), not 0."""
    versus = compared(table({"a": [400] * 5, "b": [500] * 5})).findings.comparisons.versus["b"]
    t = 100 / (0.5 * math.sqrt(2) / math.sqrt(5))
    assert versus.p_adjusted == pytest.approx(2 * scipy_stats.t.sf(t, 4), rel=1e-9) and versus.verdict == "better"
    equal = table({"a": [400, 410, 405], "b": [400, 410, 405], "c": [7, 8, 6], "d": [1, 2, 9]})
    assert compared(equal).findings.comparisons.versus["b"].verdict == "equal on all seeds"


@pytest.mark.parametrize(
    ("values", "step"),
    [
        *(([500, 400], 1), ([92.1, 90], 0.1), ([0.25, math.nan], 0.01), ([1e-9, 1], 1e-9), ([1 / 3, 1], 0)),
        *(([1e-13, 2e-13], 0), ([1e12, 3], 1)),
    ],
)
def test_the_step_of_rounded_values(values, step):
    assert decimal_step(values) == pytest.approx(step)


def test_two_factors_give_the_factorial_results():
    """score = 4 for method b, 1 for lr 2, and a noise with a mean of 7 / 4 in each combination."""
    rows = [
        {"method": method, "lr": lr, "seed": seed, "score": 4 * (method == "b") + (lr == 2) + noise}
        for method, lr in (("a", 1), ("a", 2), ("b", 1), ("b", 2))
        for seed, noise in enumerate({"a": [0, 1, 2, 4], "b": [0, 2, 1, 4]}[method])
    ]
    results = compared(pd.DataFrame(rows), factor=["method", "lr"], baseline="method=a, lr=1")
    effects = results.findings.factors.model.contrasts.set_index("factor")["diff"]
    assert {factor: diff.value for factor, diff in effects.items()} == pytest.approx({"method": 4, "lr": 1})
    assert len(results.findings.comparisons.pairs) == 6


@pytest.mark.parametrize("metric", ["test/acc", "accuracy"])
def test_a_bare_csv_of_a_study_gives_the_verdicts_of_the_study(tmp_path, metric):
    study = read(POSITIONS)
    expected = analyze(study).comparisons
    bare = study.runs[["variant", "seed", "test/acc"]].rename(columns={"test/acc": metric, "variant": "kind"})
    bare.to_csv(tmp_path / "bare.csv", index=False)
    source = f"csv:{tmp_path / 'bare.csv'}"
    found = analyze(read(source, metric=metric, baseline="none", factor=["kind"], margin=0.01)).comparisons
    assert len(found.pairs) == len(expected.pairs) == 153
    for (a, b), pair in expected.pairs.items():
        other, sign = (found.pairs[a, b], 1) if (a, b) in found.pairs else (found.pairs[b, a], -1)
        assert other.diff.value == pytest.approx(sign * pair.diff.value, abs=1e-12)
        mirrored = {"better": "worse", "worse": "better"} if sign < 0 else {}
        assert other.verdict == mirrored.get(pair.verdict, pair.verdict), (a, b)


def test_every_format_holds_the_same_runs(tmp_path):
    frame = table({"none": [0.1, 0.2, 1 / 3], "NA": [0.3, 1e-3, 0.5]}, note="x, y")
    frame.to_csv(tmp_path / "runs.csv", index=False)
    frame.to_json(tmp_path / "runs.jsonl", orient="records", lines=True, double_precision=15)
    formats = ["csv", "jsonl"]
    if importlib.util.find_spec("pyarrow"):
        frame.to_parquet(tmp_path / "runs.parquet")
        formats.append("parquet")
    expected = compared(frame).findings.means.values
    assert expected == {"NA": {0: 0.3, 1: 1e-3, 2: 0.5}, "none": {0: 0.1, 1: 0.2, 2: 1 / 3}}
    for ending in formats:
        study = read(f"csv:{tmp_path / 'runs'}.{ending}", metric="score", factor=["method"], margin=0.05)
        assert analyze(study).means.values == {name: pytest.approx(runs) for name, runs in expected.items()}
        assert study.plan.description == f"Columns of {study.plan.source} that are not used: note."


def test_a_report_on_a_frame_shows_the_call_that_makes_it():
    results = compared(table({"a": [1, 2], "b": [3, 4]}), margin=0.5)
    (code,) = reproduce(results.findings).items
    assert code.text == "analysis.compare(frame, metric='score', factor=['method'], margin=0.5)"


GOOD = "method,seed,acc\na,0,1\na,1,2\nb,0,3\nb,1,4\n"
FLAGS = ("--metric", "acc", "--factor", "method", "--margin", "0.5")
COLUMNS = {"factor": ["method"], "margin": 0.5}


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        (GOOD, ("--metric", "loss", *FLAGS[2:]), "has no column 'loss' (the metric); its columns: method, seed, acc"),
        (GOOD, (*FLAGS, "--seed", "s"), "has no column 's' (the seed, by which runs are paired)"),
        (GOOD, (*FLAGS, "--factor", "lr"), "has no column 'lr' (a factor)"),
        (GOOD, (*FLAGS[:3], "method,seed"), "seed, acc; did you mean ['method', 'seed']? Repeat the flag for each"),
        (
            GOOD,
            (*FLAGS, "--factor", "acc"),
            "metric, seed, dataset and factors are different columns, not acc, seed, method, acc",
        ),
        (GOOD.replace("a,", "1,").replace("b,", "2,"), FLAGS[:2], "factor is required: a column; the others: method"),
        (GOOD, FLAGS[2:], "metric is required, and names a column; its columns: method, seed, acc"),
        (GOOD, (*FLAGS, "--variance", "pooled"), "variance"),
        (GOOD, (*FLAGS[:4], "--margin", "0"), "--margin: '0' is not allowed: expected a number above 0"),
        (GOOD, (*FLAGS, "--baseline", "c"), "baseline: 'c' is not among the variants; the variants: a, b"),
        (GOOD.replace("3", "1e155"), FLAGS, "acc: 1e155 in row 3 is not between 1e-100 and 1e100"),
        (GOOD.replace("3", "three"), FLAGS, "acc: 'three' in row 3 is not a number"),
        (GOOD.replace("b,0", "b,x"), FLAGS, "seed: 'x' in row 3 is not a whole number"),
        (GOOD.replace("b,0", "b,0.5"), FLAGS, "seed: '0.5' in row 3 is not a whole number"),
        (GOOD.replace("b,0", "b,inf"), FLAGS, "seed: 'inf' in row 3 is not a whole number"),
        (GOOD.replace("b,0", "b,"), FLAGS, "seed: '' in row 3 is not a whole number"),
        (GOOD.replace("b,1", "b,0"), FLAGS, "rows 3 and 4 both have method b, seed 0; name what differs as a factor"),
        (GOOD.replace("b,1", ",1"), FLAGS, "method: row 4 is empty"),
        (GOOD.replace("b,", "a,"), FLAGS, "method: every row holds 'a'; a factor has two values or more"),
        (
            GOOD.replace("a,0", "1.10,0").replace("a,", "1.1,").replace("b,", "2,"),
            FLAGS,
            "'1.10' and '1.1' are the same",
        ),
        (
            'm,k,seed,acc\n"1, 2",3,0,1\n1,"2, 3",2,50\n9,9,0,5\n',
            ("--metric", "acc", "--factor", "m", "--factor", "k", "--margin", "1"),
            "two combinations of m, k have the same name",
        ),
        (GOOD + "b,2\n", FLAGS, "row 5 has 2 cells, and the header 3"),
        (GOOD.replace("seed,acc", "acc,acc"), FLAGS, "has 2 columns 'acc' (the metric)"),
        (GOOD.replace("method", "a+b"), ("--factor", "a+b", *FLAGS), "has no column 'method' (a factor)"),
        (GOOD.replace("method", "a+b"), (*FLAGS[:2], "--factor", "a+b", *FLAGS[4:]), "rename the column 'a+b'"),
        ("method,seed,acc\n", FLAGS, "holds no runs"),
        ("", FLAGS, "holds no runs"),
        (None, FLAGS, "cannot be read: No such file or directory"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line_that_names_the_column(
    tmp_path, refused, monkeypatch, text, flags, said
):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "runs.csv").write_text(text)
    assert said in refused("csv:runs.csv", *flags)
    assert {path.name for path in tmp_path.iterdir()} <= {"runs.csv"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("runs.xlsx", b"", "is no file that ends with .csv, .parquet, .jsonl"),
        ("runs.csv", b"\xff\xfe", "cannot be read: 'utf-8' codec"),
        ("runs.csv", GOOD.encode("utf-16"), "; save it as UTF-8"),
        ("runs.csv", GOOD.replace("b", "\xe9").encode("latin-1"), "; save it as UTF-8"),
        ("runs.csv", GOOD.replace(",", ";").encode(), "'method;seed;acc'; cells are separated by commas, and decimals"),
        ("runs.csv", GOOD.replace(",", "\t").encode(), "cells are separated by commas"),
        (
            "runs.csv",
            GOOD.replace(",1\n", ",0,1\n").encode(),
            "the header 3; cells are separated by commas, and decimals",
        ),
        ("runs.csv", GOOD.replace(",1\n", ',"0,1"\n').encode(), "acc: '0,1' in row 1 is not a number, such as 0.5"),
        ("runs.jsonl", b"{}\n\n{", "cannot be read: line 3, column 2: Expecting"),
        ("runs.parquet", b"not parquet", "runs.parquet: "),
    ],
)
def test_a_file_of_another_format_is_one_line(tmp_path, refused, name, content, said):
    (tmp_path / name).write_bytes(content)
    assert said in refused(f"csv:{tmp_path / name}", *FLAGS)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"metric": ""}, "the table: metric is required"),
        ({"metric": "error"}, "the table: has no column 'error' (the metric); its columns: method, seed, "),
        ({"baseline": "c"}, "baseline: 'c' is not among the variants; the variants: a, b"),
        ({"seed": "none"}, "to pair runs by seed: seed='seed'"),
        ({"failed": [True, False]}, "True is no condition; expected texts such as 'State=crashed'"),
        ({"failed": pd.Series([False])}, "False is no condition"),
        ({"failed": [["method", "b"]]}, "['method', 'b'] is no condition"),
        ({"failed": 5}, "5 is no condition"),
        ({"failed": len}, "is no condition"),
    ],
)
def test_a_message_of_the_function_names_its_arguments_and_no_flag(asked, said):
    error = refusal(compared, table({"a": [1, 2], "b": [3, 4]}, none=1), **asked)
    assert said in error and "--" not in error


def test_the_report_shows_what_the_table_has_and_no_more(tmp_path, vit_report):
    (tmp_path / "runs.csv").write_text(GOOD)
    assert vit_report(f"csv:{tmp_path / 'runs.csv'}", *FLAGS)[0] == 0
    page = (tmp_path / "runs-acc-report" / "report.md").read_text()
    heads = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert heads == ["Results", "Other pairs", "Spread", "Methods", "Provenance", "Reproduce", "Runs"]
    assert not any(word in page.lower() for word in ("epoch is", "images", "flop", "commit", "hardware"))
    assert f"vit-report csv:{tmp_path / 'runs.csv'} --metric acc --factor method --margin 0.5" in page
    assert json.loads((tmp_path / "runs-acc-report" / "manifest.json").read_text())


def test_small_and_large_values_are_shown_and_what_is_not_tested_says_why():
    said = compared(table({"a": [1.1e-9], "b": [3e-9]})).answer
    assert said.startswith("score: b 3e−09, a 1.1e−09.")
    large = [10**12 + i for i in (1, 2, 3, 2)], [10**12 + i for i in (1, 3, 3, 2)]
    said = compared(table(dict(zip("ab", large))), margin=5).answer
    assert "Not tested against a (no spread over the seeds): b." in said


def test_an_export_of_a_table_has_the_same_verdicts(tmp_path, vit_report):
    (tmp_path / "runs.csv").write_text(GOOD)
    assert vit_report("export", f"csv:{tmp_path / 'runs.csv'}", tmp_path / "exported", *FLAGS)[0] == 0
    exported, study = read(str(tmp_path / "exported")), read(f"csv:{tmp_path / 'runs.csv'}", metric="acc", **COLUMNS)
    assert repr(analyze(exported).comparisons) == repr(analyze(study).comparisons)


def test_the_readme_says_how_to_report_an_optuna_study(tmp_path, monkeypatch):
    """It leaves the running trial out; the trials that failed or were pruned are failed runs."""
    monkeypatch.chdir(tmp_path)
    study = optuna.create_study(storage="sqlite:///o.db", direction="maximize")
    for kind, seed, value in [
        ("a", 0, 0.7),
        ("b", 0, 0.9),
        ("a", 1, 0.8),
        ("b", 1, None),
        ("b", 2, "running"),
        ("a", 2, "pruned"),
    ]:
        study.enqueue_trial({"kind": kind, "seed": seed})
        trial = study.ask()
        trial.suggest_categorical("kind", ["a", "b"]), trial.suggest_int("seed", 0, 9)
        if value == "pruned":
            trial.report(0.3, 1)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif value != "running":
            study.tell(trial, value, state=optuna.trial.TrialState.FAIL if value is None else None)
    exec(re.search(r"`(study\.trials_dataframe.*?)`", README)[1], {"study": study})
    columns = {"factor": ["params_kind"], "seed": "params_seed", "margin": 0.01, "failed": ["state!=COMPLETE"]}
    found = read("csv:trials.csv", metric="value", **columns)
    finished = found.of("finished")[["variant", "seed", found.metric]]
    assert finished.to_numpy().tolist() == [["a", 0, 0.7], ["a", 1, 0.8], ["b", 0, 0.9]]
    assert found.of("diverged")[["variant", "seed"]].to_numpy().tolist() == [["a", 2], ["b", 1]]


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (["m", "seed"], [(m, seed) for m in "ab" for seed in (0, 20261124, 10**30)]),  # seeds that are far apart
        (["m", "n", "seed"], [(f"m{i}", f"n{j}", s) for i in range(12) for j in range(12) for s in (0, 1)]),
    ],
    ids=["seeds", "levels"],
)
def test_large_tables_have_a_report(names, rows, tmp_path, vit_report):
    """Seeds that no list can reach, and factors with too many levels for the figure of their pairs."""
    frame = pd.DataFrame([dict(zip(names, row), acc=0.5 + i % 7 / 100) for i, row in enumerate(rows)])
    frame.to_csv(tmp_path / "runs.csv", index=False)
    factors = [part for name in names[:-1] for part in ("--factor", name)]
    assert vit_report(tmp_path / "runs.csv", "--metric", "acc", *factors, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "report.html").is_file()


def test_rows_can_be_kept_and_counted_as_failed_by_what_they_are_not(tmp_path):
    """m2 has 3 of 5 runs: nothing is said of it, whether its other rows are named as failed or are left out."""
    rows = "".join(
        f"{m},{s},{'crashed' if m == 'm2' and s > 2 else 'ok'},{s + 2 * (m == 'm2')}\n"
        for m in ("m1", "m2")
        for s in range(5)
    )
    (tmp_path / "t.csv").write_text("m,seed,State,acc\n" + rows)
    asked = {"metric": "acc", "factor": "m", "baseline": "m1"}
    failed = analysis.read(tmp_path / "t.csv", failed=["State!=ok"], **asked)
    assert failed.findings.conduct.counts.loc["m2", ["finished", "diverged"]].tolist() == [3, 2]
    left_out = analysis.read(tmp_path / "t.csv", where={"State": "ok"}, **asked)
    assert left_out.findings.study.plan.notes[-1].startswith("Conditions leave out 2 of 10 rows.")
    assert "m2 has 3 of 5 seeds: no result of 3 and 4. Runs that failed and are left out" in " ".join(left_out.warnings)
    assert "of 5 seeds" not in " ".join(failed.warnings)
    kept = analysis.read(tmp_path / "t.csv", where="State!=crashed", **asked)
    assert len(kept.runs) == 8


def test_of_two_rows_of_one_run_the_one_that_did_not_end_is_named(tmp_path):
    (tmp_path / "runs.csv").write_text("method,seed,acc\na,0,1\na,1,2\nb,0,3\nb,1,\nb,1,4\n")
    with pytest.raises(UserError, match="rows 4 and 5 both have method b, seed 1; row 4 did not end; leave it out"):
        read(f"csv:{tmp_path}/runs.csv", metric="acc", factor=["method"])


@pytest.mark.parametrize("value", ["1_5", "1_000.5", "_1", "1_", "1e1_0"])
def test_a_number_has_no_underscore(value):
    with pytest.raises(UserError, match=f"score: '{value}' in row 1 is not a number"):
        compared(table({"a": [value, 1, 2], "b": [2, 3, 4]}))
    with pytest.raises(UserError, match=f"seed: '{value}' in row 1 is not a whole number"):
        compared(table({"a": [1, 2], "b": [2, 3]}, seed=[value, 1, 0, 1]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "\r\r"], ids=repr)
def test_lines_of_a_table_end_as_anywhere(end, tmp_path):
    lines = ["method,seed,acc", *(f'"{m}",{s},{s}' for m in "ab" for s in range(3)), ""]
    (tmp_path / "runs.csv").write_bytes(end.join(lines).encode())
    assert len(read(f"csv:{tmp_path}/runs.csv", metric="acc", factor=["method"]).runs) == 6


def test_runs_without_a_seed_in_common_are_unpaired():
    frame = table({"a": [1, 2, 3], "b": [2, 3, 5]})
    frame["seed"] = range(6)
    with pytest.raises(
        UserError, match="the table: seed: a has no seed in common with another variant.*runs without seeds: --unpaired"
    ):
        compared(frame)
    with pytest.raises(UserError, match="seed: c has no seed in common"):
        compared(pd.concat([table({"a": [1, 2, 3], "b": [2, 3, 5]}), frame.assign(method="c", seed=range(6, 12))]))
    frame.loc[5, "seed"] = 0
    assert compared(frame).findings.comparisons.versus["b"].diff.n == 1


def test_an_accuracy_in_percent_and_none_as_a_level_name_the_way_out(tmp_path):
    frame = pd.DataFrame({"kind": ["a", "b"] * 2, "seed": [0, 0, 1, 1], "test/acc": [91, 92, 93, 94]})
    with pytest.raises(
        UserError, match="test/acc: 91 is not allowed: .*divide percent by 100, or give the column another"
    ):
        analysis.compare(frame, "test/acc", "kind")
    (tmp_path / "t.csv").write_text("pos,seed,acc\nNone,0,1\nrope,0,2\nNone,1,3\nrope,1,5\n")
    with pytest.raises(UserError, match=r"pos: row 1 is empty.*keep_default_na=False\) or fillna\('none'\)"):
        analysis.compare(pd.read_csv(tmp_path / "t.csv"), "acc", "pos")
    as_text = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert analysis.compare(as_text, "acc", "pos").findings.comparisons.versus["rope"].diff.value == 1.5


@pytest.mark.parametrize("name", ["runs.tsv", "runs.csv.gz", "RUNS.CSV.GZ", "runs.csv"])
def test_tables_of_other_endings_and_with_an_index_column_are_read(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    frame = table({"a": [1, 2, 3], "b": [2, 3, 5]})
    frame.to_csv(
        tmp_path / name, sep="\t" if name.endswith("tsv") else ",", compression="gzip" if "z" in name.lower() else None
    )
    for path in (tmp_path / name, f"~/{name}"):
        study = read(f"csv:{path}", metric="score", factor=["method"])
        assert study.runs[study.metric].tolist() == [1, 2, 3, 2, 3, 5]
        assert not any("not used" in note for note in study.plan.notes)


def test_a_table_needs_no_prefix_and_a_folder_of_its_name_wins(tmp_path, vit_report, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, "study.csv", seeds=2)
    assert vit_report("study.csv")[1].endswith("study.csv/report/report.html\n")
    Path("runs.csv").write_text(GOOD)
    assert vit_report("runs.csv", *FLAGS)[1].endswith("\nruns-acc-report/report.html\n")
    assert vit_report("export", "runs.csv", "exported", *FLAGS)[:2] == (0, "exported\n")
    Path("b.csv").write_text(GOOD.replace("4", "5"))
    assert vit_report("across", "runs.csv", "b.csv", *FLAGS)[1].endswith("\nruns-acc-report-across/report.html\n")
    assert vit_report("none.csv", *FLAGS)[2].endswith("none.csv: cannot be read: No such file or directory\n")


def test_the_report_of_another_metric_has_a_folder_of_its_own(tmp_path, vit_report, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text("method,seed,acc,test/loss\na,0,1,2\na,1,2,3\nb,0,3,3\nb,1,4,5\n")
    for metric in ("acc", "test/loss", "acc"):
        assert vit_report("runs.csv", "--metric", metric, "--factor", "method")[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"runs.csv", "runs-acc-report", "runs-test-loss-report"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, None),
        ({"host": ["x", "y", "x", "y"]}, "factor is required: one of method, host"),
        ({"State": ["finished", "finished", "finished", "crashed"]}, None),  # --failed names it
        ({"note": ["p", "q", "r", "s"]}, None),  # a value for each row
        ({"data": ["p", "q", "p", "q"]}, None),  # --dataset names it
        ({"size": [1, 1, 2, 2]}, None),  # numbers
        ({"kind": ["x", "x", "x", "x"]}, None),
    ],
)
def test_the_only_column_of_text_with_repeats_is_the_factor(columns, said, tmp_path, vit_report, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"method": list("aabb"), "seed": [0, 1] * 2, "acc": [1, 2, 3, 4]}).assign(**columns)
    rows.to_csv("runs.csv", index=False)
    flags = [*["--failed", "State!=finished"] * ("State" in columns), *["--dataset", "data"] * ("data" in columns)]
    status, out, err = vit_report("runs.csv", "--metric", "acc", *flags)
    if said:
        assert status == 2 and said in err
        return
    assert (status, out.splitlines()[0], err) == (0, "factor: method", "")
    status, out, err = vit_report("runs.csv", "--metric", "acc", "--json", *flags)
    assert (status, err) == (0, "factor: method\n") and json.loads(out)


def test_what_the_columns_cannot_exclude_is_noted():
    """A setting that goes with the variants, rows that are left out, and a loss of which more counts as better."""
    frame = pd.DataFrame(
        {"opt": ["a"] * 3 + ["b"] * 3, "seed": [0, 1, 2] * 2, "loss": [3, 2, 4, 5, 6, 5.5], "lr": [0.1] * 3 + [0.3] * 3}
    )
    frame["host"] = ["x", "y", "x", "x", "y", "x"]
    notes = analysis.compare(frame, metric="loss", factor="opt").findings.study.plan.notes
    assert notes == [
        "lr differs between variants and is no factor: it may explain a difference.",
        "Lower loss counts as better. For the opposite: --higher-is-better, in Python higher_is_better=True.",
    ]
    lower = analysis.compare(frame[["opt", "seed", "loss"]], metric="loss", factor="opt", lower_is_better=True)
    assert lower.findings.study.plan.notes == []


def test_a_value_of_zero_is_a_result():
    frame = pd.DataFrame({"opt": ["a", "a", "b", "b"], "seed": [0, 0, 0, 1], "acc": [0, 2, 3, 4]})
    with pytest.raises(UserError, match="rows 1 and 2 both have opt a, seed 0; name what differs as a factor"):
        analysis.compare(frame, metric="acc", factor="opt")


GROUPED = pd.DataFrame({"m": ["a", "a", "b", "b"], "seed": [0, 1] * 2, "acc": [1, 2, 3, 4.5]}).groupby(["m", "seed"])


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"seed": [0, 1], "a": [1, 2], "b": [3, 4]}), "of a table with a column for each seed or variant"),
        (pd.DataFrame({"m": ["a", "b"], "s0": [1, 2], "s1": [3, 4]}), "pandas.melt makes one with a row for each run"),
        (GROUPED[["acc"]].mean(), "it is in the index: reset_index()"),
        (GROUPED["acc"].mean(), "is a Series, not a pandas DataFrame; reset_index() makes one of it"),
        (pd.DataFrame({"m": ["a", "b"], "seed": [0, 0], "r": [{"acc": 1}, {"acc": 2}]}), "pandas.json_normalize makes"),
        (
            pd.DataFrame({"m": list("aaabbb"), "seed": 0, "epoch": [1, 2, 3] * 2, "acc": [1, 2, 3, 4, 5, 6]}),
            "for the last row of each run: last='epoch'",
        ),
        (pd.DataFrame({"m": list("ab"), "seed": 0, "accuracy": [1, 2]}), "its columns: m, seed, accuracy"),
    ],
)
def test_a_table_of_another_shape_names_the_way_out(frame, said):
    error = refusal(analysis.compare, frame, "acc", "m")
    assert said in error and ("accuracy" not in said or error.endswith(said))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("runs.xlsx", "runs.xlsx: is a file; save a table as .csv, .parquet, .jsonl, .csv.gz, .tsv"),
        ("study.json", "study.json: is a file; save a table as"),
        ("runs.txt", "runs.txt: is a file; save a table as"),
        (pd.DataFrame({"a": [1]}), "read: expected a folder or a file, not a DataFrame; compare takes a DataFrame"),
        ([1], "read: expected a folder or a file, not a list"),
        (None, "read: expected a folder or a file, not a NoneType"),
    ],
)
def test_what_cannot_be_read_names_the_way_out(source, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(source, str):
        Path(source).write_text("x")
    with pytest.raises(UserError, match=re.escape(said)):
        analysis.read(source, metric="acc", factor="m")


def test_nested_json_has_flat_names(tmp_path):
    rows = [{"config": {"m": m, "seed": s}, "result": {"acc": s + 2 * (m == "b")}} for m in "ab" for s in range(3)]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = {"metric": "result.acc", "factor": "config.m", "seed": "config.seed"}
    results = analysis.read(tmp_path / "r.jsonl", **asked)
    assert results.findings.means.values == {"a": {0: 0, 1: 1, 2: 2}, "b": {0: 2, 1: 3, 2: 4}}


@pytest.mark.parametrize("where", ["data=x", ["data=x"], {"data": "x"}, {"data": "x", "size": 8}, "data!=y"])
def test_conditions_in_python_are_one_several_or_a_mapping(where, tmp_path):
    frame = table({"a": [1, 2, 3], "b": [2, 3, 5]}, size=8)
    pd.concat([frame.assign(data="x"), frame.assign(data="y", score=0)]).to_csv(tmp_path / "t.csv", index=False)
    results = analysis.read(tmp_path / "t.csv", metric="score", factor="method", where=where)
    assert results.findings.means.values["b"] == {0: 2, 1: 3, 2: 5}


def test_a_failed_run_has_two_ways_out():
    """Of five pairs, one run failed: the interval also covers a run at the level of guessing."""
    frame = table({"a": [0.8, 0.81, 0.79, 0.82, 0.8], "b": [0.85, 0.87, 0.85, None, 0.86]})
    lost = compared(frame).findings
    assert lost.comparisons.versus["b"].reason == "failed runs, chance level unknown"
    (note,) = lost.study.plan.notes
    assert (
        note.startswith("Not tested because of failed runs: b. Ways out: train those runs again") and "--chance" in note
    )
    guessed = compared(frame, chance=0.1).findings
    one = guessed.comparisons.versus["b"]
    assert (one.verdict, one.verdict_of_finished, guessed.study.plan.notes) == ("not shown", "better", [])
    at_chance = compared(frame.fillna(0.1)).findings.comparisons.versus["b"]
    assert one.adjusted.low == pytest.approx(at_chance.adjusted.low)
    steady = table({"a": [0.5, 0.51, 0.49, 0.52, 0.5], "b": [0.3, 0.31, 0.3, None, 0.31]})
    assert compared(steady, chance=0.25).findings.comparisons.versus["b"].verdict == "worse"


@pytest.mark.parametrize(
    ("metric", "chance", "said"),
    [
        ("score", 10, "the table: chance: 10 is not allowed: score is from 0 to 1"),
        ("test/acc", 0.1, "test/acc is a metric of ours, of which it follows from the number of classes"),
        ("score", math.inf, "chance: inf is not allowed"),
        ("score", True, "chance: True is not allowed"),
    ],
)
def test_a_chance_level_of_another_scale_is_refused(metric, chance, said):
    frame = table({"a": [0.8, 0.7], "b": [0.6, 0.5]}).rename(columns={"score": metric})
    assert said in refusal(compared, frame, metric, chance=chance)


def test_the_column_of_seeds_gives_the_word_for_them():
    frame = table({"a": [1, 2, 3.5], "b": [2, 4, 5]}).rename(columns={"seed": "fold", "score": "mAP"})
    results = compared(frame, "mAP", seed="fold")
    assert "2 variants × 3 folds." in summary(results.findings)
    one = compared(frame[frame["fold"] == 0], "mAP", seed="fold").answer
    assert "With a single fold no statistical test against a is possible." in one and "seed" not in one
    assert r"\caption{mAP: mean and 95" in results.to_latex() and "3 folds. Bold" in results.to_latex()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"seed": "Sed"}, "did you mean 'seed'?"),
        ({"metric": "Score"}, "did you mean 'score'?"),
        ({"metric": "scroe"}, "did you mean 'score'?"),
        ({"factor": "Method"}, "did you mean 'method'?"),
        ({"baseline": "SGD"}, "did you mean 'sgd'?"),
        ({"baseline": "adma"}, "did you mean 'adam'?"),
        ({"where": "method=Adam"}, "did you mean 'adam'?"),
        ({"failed": "methd=adam"}, "did you mean 'method'?"),
        ({"dataset": "metod"}, "did you mean 'method'?"),
    ],
)
def test_a_near_name_is_named(asked, said):
    frame = table({"sgd": [1, 2, 3.5], "adam": [2, 4, 5]})
    assert said in refusal(compared, frame, **asked)


@pytest.mark.parametrize("seed", ["Seed", "params.seed", "random_state", "SEED", "config/seed"])
def test_the_column_of_seeds_is_found_by_its_words(seed):
    with pytest.raises(UserError, match=f"no column 'seed'.*did you mean '{seed}'"):
        compared(table({"a": [1, 2], "b": [2, 3]}).rename(columns={"seed": seed}))


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame(columns=["m", "seed", "acc"]), "holds no runs"),
        (pd.DataFrame({"m;seed;acc": ["a;0;1"]}), "the header is one cell, 'm;seed;acc'"),
        (pd.DataFrame({"Wall time": [1.0], "Step": [1], "Value": [0.5]}), "is a curve of TensorBoard"),
        (pd.DataFrame({"Step": [1], "a - acc": [1], "a - acc__MIN": [1], "a - acc__MAX": [1]}), "is a chart of W&B"),
        (pd.DataFrame({"Tasks": ["arc"], "n-shot": [0], "Metric": ["acc"], "Value": [0.5]}), "is a table of lm-eval"),
        (pd.DataFrame({"seed": [0, 1], "a": [1, 2], "b": [3, 4]}), "pandas.melt"),
    ],
)
def test_what_a_table_is_comes_before_the_guess_of_the_factor(frame, said):
    error = refusal(analysis.compare, frame, "acc")
    assert said in error and "factor" not in error


@pytest.mark.parametrize("day", ["2024-05-01", "2024-05-01 10:30", "2024-05-01T10:30:00Z", "01/05/2024", "5 May 2024"])
def test_a_column_of_dates_is_no_factor(day):
    frame = table({"a": [1, 2, 3], "b": [2, 3, 5]}, created=day)
    frame.loc[0, "created"] = day.replace("2024", "2023")
    assert list(analysis.compare(frame, "score").findings.study.factors) == ["method"]


def test_a_guessed_baseline_is_a_variant_of_every_dataset():
    one, two = table({"a": [1, 2, 3], "b": [2, 3, 5], "c": [1, 1, 2]}), table({"b": [2, 3, 6], "c": [2, 3, 4]})
    both = pd.concat([one.assign(data="x"), two.assign(data="y")])
    results = compared(both, dataset="data")
    assert {part.findings.study.baseline for part in results.studies.values()} == {"b"}
    assert results.studies["x"].findings.study.variants[0] == "b"
    with pytest.raises(
        UserError, match="data=y: the table: baseline: 'a' is not among the variants; the variants: b, c"
    ):
        compared(both, dataset="data", baseline="a")


def test_datasets_of_different_scales_are_noted():
    both = [
        table({"a": [1, 2, 3], "b": [2, 3, 5]}, data="x"),
        table({"a": [10, 20, 30], "b": [200, 300, 500]}, data="y"),
    ]
    results = compared(pd.concat(both), dataset="data")
    said = "score is at most 5 on x and 500 on y: check that both have the same unit."
    assert all(said in part.findings.study.notes for part in results.studies.values())


def test_one_table_twice_is_not_two_datasets(tmp_path, vit_report, monkeypatch):
    """Whatever its path, its name or the order of its rows."""
    monkeypatch.chdir(tmp_path)
    lines = GOOD.splitlines()
    Path("a.csv").write_text(GOOD), Path("b.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    for first, second in (("a.csv", "./a.csv"), ("a.csv", "b.csv"), ("csv:a.csv", str(tmp_path / "a.csv"))):
        status, _, err = vit_report("across", first, second, *FLAGS)
        assert status == 2 and "hold the same runs with the same values; one of them is a copy" in err


class Foreign:
    """A table of another library, with the method that makes a DataFrame of it."""


@pytest.mark.parametrize("method", ["to_pandas", "toPandas", "compute"])
def test_a_table_of_another_library_names_the_way_to_pandas(method):
    foreign = type("Table", (Foreign,), {method: lambda self: None})()
    with pytest.raises(UserError, match=rf"is a Table, not a pandas DataFrame; {method}\(\) makes one of it"):
        analysis.compare(foreign, "acc", "m")


def test_a_table_that_is_not_compressed_and_says_so_is_one_line(tmp_path):
    (tmp_path / "runs.csv.gz").write_text("method,seed,acc\na,0,1\n")
    with pytest.raises(UserError, match="runs.csv.gz: cannot be read: Not a gzipped file"):
        read(str(tmp_path / "runs.csv.gz"), metric="acc")
