"""One table over datasets: intervals against scipy, means, spreads and marks against pandas, and what is refused."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import shown
import study_file
from commands import refusal
from scipy import stats
from synthetic import on_dataset, write_by_dataset, write_study

import analysis
from analysis.findings import analyze_each
from analysis.outputs.across import document_of, studies_table
from analysis.outputs.as_json import across_dict
from analysis.runs.by_dataset import by_dataset
from analysis.runs.folder import read_folder
from analysis.write import files as write
from experiments.errors import UserError
from experiments.runs import record

ACCURACY = {"none": 0.6, "learned-1d": 0.8, "cpe": 0.6}
DATASETS = {"digits": 0.8, "mnist": 0.5}  # the accuracy of learned-1d: better than none, and worse
METHODS = {"base": (0.0, 0.0), "ours": (2.0, 2.0), "other": (1.0, 0.0)}  # the mean on mnist and on svhn


def study_on(tmp_path, dataset, **options):
    return read_folder(write_study(tmp_path / dataset, **on_dataset(dataset), **options))


def of(*studies):
    return analyze_each(by_dataset(studies))


def report_on(*studies, **options):
    return document_of(of(*studies), studies, **options)


def table_of_runs(methods=METHODS, seeds=5):
    """Runs of each method on two datasets, with other seeds on the second one."""
    rng = np.random.default_rng(1)
    rows = [
        (dataset, method, seed + 10 * number, mean + 0.3 * rng.normal())
        for number, dataset in enumerate(("mnist", "svhn"))
        for method, means in methods.items()
        for mean, seed in zip([means[number]] * seeds, range(seeds))
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "seed", "acc"])


def compared(frame, **options):
    return analysis.compare(frame, "acc", "method", baseline="base", dataset="dataset", **options)


def parts_of(results):
    return {name: part.findings for name, part in results.studies.items()}


def test_the_pairs_of_a_dataset_are_tested_at_the_level_of_all_pairs_of_all_datasets():
    """Two datasets and three methods: six paired t tests, each at 0.05 / 6."""
    frame = table_of_runs()
    found = compared(frame, variance="paired")
    for dataset, runs in frame.groupby("dataset"):
        cells = runs.pivot(index="seed", columns="method", values="acc")
        pairs = found.studies[dataset].findings.comparisons.pairs
        assert len(pairs) == 3
        for (a, b), one in pairs.items():
            test = stats.ttest_1samp(cells[a] - cells[b], 0)
            ends = test.confidence_interval(1 - 0.05 / 6)
            assert (one.adjusted.low, one.adjusted.high) == pytest.approx([*ends])
            assert one.p_adjusted == pytest.approx(min(1, 6 * test.pvalue))
            shown_ = "better" if ends.low > 0 else "worse" if ends.high < 0 else "not shown"
            assert one.verdict == shown_


def test_the_answer_says_on_at_least_how_many_datasets_a_method_is_better():
    found = compared(table_of_runs())
    assert found.answer == (
        "ours is better than base on all 2 datasets (mnist and svhn). "
        "other is better than base on at least 1 of 2 datasets (mnist)."
    )
    counted = {one["variant"]: one["better"] for one in across_dict(parts_of(found))["against_baseline"]}
    assert counted == {"ours": ["mnist", "svhn"], "other": ["mnist"]}
    pairs = [len(one["comparisons"]) for one in across_dict(parts_of(found))["datasets"].values()]
    assert pairs == [3, 3] and found.answer.split(".")[0] in found._repr_html_()
    rows = {row["variant"]: row["better on"] for row in shown.rows(studies_table(parts_of(found)))}
    assert rows == {"base": "–", "ours": "2", "other": "1"}


def test_a_missing_cell_is_named_and_widens_no_interval():
    frame = table_of_runs()
    whole, part = compared(frame), compared(frame.query("method != 'other' or dataset != 'svhn'"))
    wide, narrow = (one.studies["mnist"].findings.comparisons.versus["ours"].adjusted for one in (whole, part))
    assert (wide.low, wide.high) == pytest.approx((narrow.low, narrow.high), rel=1e-9)
    left, *_ = (one.studies["svhn"].findings.comparisons.pairs["ours", "base"] for one in (part,))
    assert left.p_adjusted == pytest.approx(2 * left.p)  # the only pair on one of two datasets
    assert part.answer.splitlines()[1] == "Not tested: other on svhn (no run)."
    (row,) = [row for row in shown.rows(studies_table(parts_of(part))) if row["variant"] == "other"]
    assert row["svhn"] == "–" and "× not tested" in studies_table(parts_of(part)).caption


def test_variants_of_two_factors_have_the_same_names_on_all_datasets():
    """On svhn, there is one learning rate only."""
    frame = pd.concat([table_of_runs().assign(lr=rate) for rate in (1, 2)])
    frame = frame.query("lr == 1 or dataset != 'svhn'")
    found = analysis.compare(frame, "acc", ["method", "lr"], baseline="method=base, lr=1", dataset="dataset")
    names = [row["variant"] for row in shown.rows(studies_table(parts_of(found)))]
    assert sorted(names) == sorted(f"{method}, lr = {rate}" for method in METHODS for rate in (1, 2))
    assert "“base, lr = 2” on svhn (no run)" in found.answer


def test_planned_looks_have_the_level_of_the_look_over_the_datasets(tmp_path):
    """At 5 of 10 seeds, (1/2)^3 of the level; one pair on each of two datasets."""
    lost = {(v, seed): "absent" for v in ("none", "cpe") for seed in range(5, 10)}
    options = {"accuracy": {"none": 0.6, "cpe": 0.61}, "seeds": 10, "looks": [5, 10], "statuses": lost}
    found = of(*(study_on(tmp_path, name, spread=0.01, **options) for name in DATASETS))
    for findings in found.values():
        one, values = findings.comparisons.versus["cpe"], findings.means.values
        differences = [values["cpe"][seed] - values["none"][seed] for seed in range(5)]
        ends = stats.ttest_1samp(differences, 0).confidence_interval(1 - 0.05 / 8 / 2)
        assert (one.adjusted.low, one.adjusted.high) == pytest.approx([*ends])


@pytest.fixture
def studies(tmp_path):
    """Five seeds on each dataset; on mnist, the last run of cpe diverged."""
    lost = {"digits": {}, "mnist": {("cpe", 4): "diverged"}}
    options = {name: {"accuracy": {**ACCURACY, "learned-1d": reached}} for name, reached in DATASETS.items()}
    return [study_on(tmp_path, name, spread=0.01, statuses=lost[name], **options[name]) for name in DATASETS]


@pytest.fixture
def recorded(studies, tmp_path):
    """The finished runs, read from the summaries: dataset, variant, accuracy in percent."""
    rows = []
    for path in tmp_path.glob(f"*/position/*/{record.SUMMARY}"):
        summary, config = json.loads(path.read_text()), json.loads((path.parent / record.CONFIG).read_text())
        if summary["status"] == "finished":
            rows.append((path.parts[-4], config["model"]["pos_embed"], 100 * summary["test/acc"]))
    return pd.DataFrame(rows, columns=["dataset", "variant", "accuracy"])


@pytest.mark.parametrize("spread", ["interval", "sd"])
def test_each_cell_has_the_mean_and_the_spread_of_the_runs(studies, recorded, spread):
    table = studies_table(of(*studies), spread=spread)
    rows = {row["variant"]: row for row in shown.rows(table)}
    assert list(rows) == list(ACCURACY) and len(recorded) == 29
    for (dataset, variant), runs in recorded.groupby(["dataset", "variant"])["accuracy"]:
        half = runs.std() if spread == "sd" else stats.t.isf(0.025, len(runs) - 1) * runs.sem()
        assert [float(text) for text in rows[variant][f"{dataset}, %"].split(" ± ")] == pytest.approx(
            [runs.mean(), half], abs=0.051
        )
        row = table.data.set_index("variant").loc[variant]
        assert [row[f"{dataset}{part}"] for part in ("", "_sd", "_n")] == pytest.approx(
            [runs.mean() / 100, runs.std() / 100, len(runs)]
        )
    assert ("standard deviation of the runs" in table.caption) == (spread == "sd") and "4 to 5 seeds" in table.caption


def test_a_mark_is_the_verdict_against_the_baseline(studies):
    table = studies_table(of(*studies))
    marks = {row[0].text: [(cell.mark, cell.sign) for cell in row[1:3]] for row in table.shown().rows}
    assert [sign for _, sign in marks["none"]] == ["", ""]
    assert marks["learned-1d"] == [("better best", "▲"), ("worse", "▼")]
    assert "of variants on all 2 datasets together" in table.notes[0]
    assert "▲ better, ▼ worse;" in table.caption


def test_the_best_mean_on_a_dataset_is_bold(studies, recorded):
    table = studies_table(of(*studies), ["variant", "mnist", "equivalent"])
    means = recorded[recorded["dataset"] == "mnist"].groupby("variant")["accuracy"].mean()
    assert [row[0].text for row in table.shown().rows if row[1].bold] == [means.idxmax()]
    assert "Bold: the best mean on a dataset. Counts of datasets: at least so many." in table.caption
    with pytest.raises(UserError, match="--columns: 'svhn' is not allowed: expected variant, digits, mnist, better"):
        studies_table(of(*studies), ["svhn"])


def test_it_is_a_report_and_a_table_for_a_paper(studies):
    document = report_on(*studies, command="vit-report across a b")
    files = write.make(document)
    assert {"report.html", "report.md", "tables/across.csv", "tables/runs.csv", "tables/curves.csv"} <= set(files)
    assert b"vit-report across a b" in files["report.html"] and not re.search(rb"(?i)\b(nan|inf)\b", files["report.md"])
    assert len(files["tables/runs.csv"].splitlines()) == 1 + 2 * 15
    (plot,) = document.plots
    assert [axes.get_title(loc="left") for axes in plot.figure.axes] == [*DATASETS]
    assert {"better", "worse"} <= {text.get_text() for text in plot.figure.legends[0].get_texts()}
    first = "learned-1d is better than “none” on at least 1 of 2 datasets (digits), worse on at least 1 (mnist)."
    assert document.headline[0].startswith(first)
    (warning,) = document.warnings
    assert warning.line == "mnist: Diverged: 1 run of cpe."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "val/acc"}, "different metrics: test/acc (higher is better) and val/acc (higher is better)"),
        ({"baseline": "sinusoidal"}, "different baselines: none and sinusoidal"),
        ({"margin": 0.02}, "different margins: 0.01 and 0.02"),
    ],
    ids=["metric", "baseline", "margin"],
)  # fmt: skip
def test_studies_that_do_not_belong_together_are_refused(tmp_path, options, said):
    assert said in refusal(of, study_on(tmp_path, "digits"), study_on(tmp_path, "mnist", **options))


def test_two_studies_of_one_dataset_are_refused(tmp_path):
    one = study_on(tmp_path, "digits")
    with pytest.raises(UserError, match="position and position use the same dataset, digits"):
        of(one, study_on(tmp_path / "again", "digits"))


def test_a_baseline_without_a_run_on_a_dataset_is_refused():
    with pytest.raises(UserError, match="the table: baseline: 'base' is not a variant; allowed: ours, other"):
        compared(table_of_runs().query("method != 'base' or dataset != 'svhn'"))


def report_of(tmp_path, **options):
    """The report of a study whose factors are the dataset and the positional embedding."""
    return report_on(read_folder(write_by_dataset(tmp_path, **options)))


def absent(dataset=None, seeds=range(5), kinds=("none", "cpe")):
    """Runs that have not started."""
    datasets = [dataset] if dataset else ["digits", "mnist"]
    return {(f"name={d}, pos_embed={kind}", seed): "absent" for d in datasets for kind in kinds for seed in seeds}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"statuses": absent("digits", range(1, 5))}, "Not tested: cpe on digits (one common seed)."),
        (
            {"seeds": 10, "looks": [5, 10], "statuses": absent("digits", range(3, 10))},
            "Not tested: cpe on digits (waiting for a look).",
        ),
    ],
    ids=["one run", "before the first look"],
)
def test_a_dataset_on_which_nothing_can_be_tested_is_marked_as_not_tested(tmp_path, options, said):
    document = report_of(tmp_path, **options)
    assert document.headline == ("cpe is better than “none” on at least 1 of 2 datasets (mnist).", said)
    (rows,) = (table.shown().rows for table in document.tables)
    assert [[cell.mark for cell in row[1:3]] for row in rows] == [["", ""], ["not-tested", "better best"]]
    assert [[cell.sign for cell in row[1:3]] for row in rows] == [["", ""], ["×", "▲"]]


def test_a_plan_that_was_kept_is_not_called_changed(tmp_path):
    folder = write_by_dataset(tmp_path)
    assert report_on(read_folder(folder)).warnings == []
    plan = study_file.read_study(folder)
    earlier = [{"runs": 10, "stated": {"margin": 0.01}}]
    study_file.write_study(folder, {**plan, "margin": 0.02, "earlier": earlier})
    lines = [warning.line for warning in report_on(read_folder(folder)).warnings]
    assert lines == ["The margin was changed after 10 runs had started: from 0.01 to 0.02."]


def test_an_excluded_record_is_listed_with_its_study(tmp_path):
    folder = write_by_dataset(tmp_path)
    (folder / "v3-s4" / record.METRICS).write_text("epoch\n")
    shutil.copytree(folder / "v0-s0", folder / "extra")
    excluded = report_on(read_folder(folder, skip_unreadable=True)).excluded
    assert [run for run, _ in excluded] == ["position: extra", "position: v3-s4"]
