"""One table over studies: means, spreads and marks against pandas, refused studies, and a dataset among the factors."""

import json
import re
import shutil

import pandas as pd
import pytest
import shown
import study_file
from scipy import stats
from synthetic import on_dataset, results_of, state_plan, write_by_dataset

from analysis.over_studies import across_document, by_dataset_document, studies_by_dataset, studies_table
from analysis.runs.folder import read_folder
from analysis.write import files as write
from analysis.write import latex
from experiments.errors import UserError
from experiments.runs import record

ACCURACY = {"none": 0.6, "learned-1d": 0.8, "cpe": 0.6}
DATASETS = {"digits": 0.8, "mnist": 0.5}  # the accuracy of learned-1d: better than none, and worse


def results_on(tmp_path, dataset, **options):
    return results_of(tmp_path / dataset, **on_dataset(dataset), **options)


@pytest.fixture
def studies(tmp_path):
    """Five seeds on each dataset; on mnist, the last run of cpe diverged."""
    lost = {"digits": {}, "mnist": {("cpe", 4): "diverged"}}
    options = {name: {"accuracy": {**ACCURACY, "learned-1d": reached}} for name, reached in DATASETS.items()}
    return studies_by_dataset(
        [results_on(tmp_path, name, spread=0.01, statuses=lost[name], **options[name]) for name in DATASETS]
    )


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
    table = studies_table(studies, spread)
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


def test_a_mark_is_the_verdict_of_that_study_alone_against_the_baseline(studies):
    table = studies_table(studies)
    marks = {row[0].text: [(cell.mark, cell.sign) for cell in row[1:]] for row in table.shown().rows}
    assert marks["none"] == [("", ""), ("", "")]
    assert marks["learned-1d"] == [("better", "+"), ("worse", "−")]
    for dataset, findings in studies.items():
        main = {row["variant"]: row["verdict"] for row in shown.rows(shown.section(findings, "result").items[0])}
        assert dict(zip(table.data["variant"], table.data[f"{dataset}_verdict"])) == main
    assert "not over the studies" in table.notes[0] and "+ better, − worse, = equivalent" in table.caption


def test_it_is_a_report_and_a_table_for_a_paper(studies):
    document = across_document(studies, "vit-report across a b")
    files = write.make(document)
    assert {"report.html", "report.md", "tables/across.csv", "tables/runs.csv", "tables/curves.csv"} <= set(files)
    assert b"vit-report across a b" in files["report.html"] and not re.search(rb"(?i)\b(nan|inf)\b", files["report.md"])
    assert len(files["tables/runs.csv"].splitlines()) == 1 + 2 * 15
    assert [said.partition(":")[0] for said in document.headline] == [*DATASETS]
    assert document.headline[0].startswith("digits: Higher test accuracy than none (")
    (warning,) = document.warnings
    assert warning.line == "mnist: Diverged: 1 run of cpe."
    (row,) = [line for line in latex.table(studies_table(studies)).splitlines() if line.startswith("learned")]
    assert re.fullmatch(r"learned-\{\}1d & 79\.\d+ \$\\pm\$ [\d.]+ \+ & 49\.\d+ \$\\pm\$ [\d.]+ \$-\$ \\\\", row)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"accuracy": {"none": 0.7, "rope-2d": 0.9}}, "different variants: 'sinusoidal', 'learned-1d', 'learned-2d' "
                                                      "only on digits"),
        ({"metric": "val/acc"}, "different metrics: test/acc and val/acc"),
        ({"baseline": "sinusoidal"}, "different baselines: 'none' and 'sinusoidal'"),
    ],
    ids=["variants", "metric", "baseline"],
)  # fmt: skip
def test_studies_that_do_not_belong_together_are_refused(tmp_path, options, said):
    with pytest.raises(UserError, match="across: ") as refused:
        studies_by_dataset([results_on(tmp_path, "digits"), results_on(tmp_path, "mnist", **options)])
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_one_study_or_one_dataset_is_refused(tmp_path):
    one = results_on(tmp_path, "digits")
    with pytest.raises(UserError, match="one study is not enough"):
        studies_by_dataset([one])
    with pytest.raises(UserError, match="position and position use the same dataset, digits"):
        studies_by_dataset([one, results_on(tmp_path / "again", "digits")])


def by_dataset(tmp_path, **options):
    """The report of a study whose factors are the dataset and the positional embedding."""
    return by_dataset_document(read_folder(write_by_dataset(tmp_path, **options)))


def absent(dataset=None, seeds=range(5), kinds=("none", "cpe")):
    """Runs that have not started."""
    datasets = [dataset] if dataset else ["digits", "mnist"]
    return {(f"name={d}, pos_embed={kind}", seed): "absent" for d in datasets for kind in kinds for seed in seeds}


def test_a_dataset_as_a_factor_is_not_pooled(tmp_path):
    """The report compares within datasets. It does not call one dataset better than another."""
    document = by_dataset(tmp_path)
    assert [table.name for table in document.tables] == ["across"] and "report.html" in write.make(document)
    for dataset, said in zip(("digits", "mnist"), document.headline, strict=True):
        assert re.match(rf"{dataset}: Higher test accuracy than none .*: cpe by (9|10)\.\d+ points", said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"statuses": absent("digits", range(1, 5))},
            "digits: Test accuracy: cpe 30.14 %, none 20.05 %. With a single",
        ),
        (
            {"seeds": 10, "looks": [5, 10], "statuses": absent("digits", range(3, 10))},
            "digits: Nothing is tested yet: the first planned look is at 5 seeds, and all runs of 3 seeds have ended.",
        ),
    ],
    ids=["one run", "before the first look"],
)
def test_a_dataset_on_which_nothing_can_be_tested_is_marked_as_not_tested(tmp_path, options, said):
    document = by_dataset(tmp_path, **options)
    assert document.headline[0].startswith(said) and document.headline[1].startswith("mnist: Higher")
    (rows,) = (table.shown().rows for table in document.tables)
    assert [[cell.mark for cell in row[1:]] for row in rows] == [["", ""], ["not-tested", "better"]]
    assert [[cell.sign for cell in row[1:]] for row in rows] == [["", ""], ["×", "+"]]


def test_with_runs_of_one_dataset_only_it_is_the_report_of_that_dataset(tmp_path):
    document = by_dataset(tmp_path, statuses=absent("digits"))
    assert "variants" in [table.name for table in document.tables] and "on mnist." in document.summary
    assert [warning.line for warning in document.warnings] == ["digits is left out: none of its runs has ended."]
    assert document.headline[0].startswith("Higher test accuracy than none (80.18 %): cpe by ")


def test_a_plan_that_was_kept_is_not_called_changed(tmp_path):
    folder = write_by_dataset(tmp_path)
    state_plan(folder)
    assert by_dataset_document(read_folder(folder)).warnings == []
    plan = study_file.read_study(folder)
    study_file.write_study(folder, {**{key: value for key, value in plan.items() if key != "schema"}, "margin": 0.3})
    lines = [warning.line for warning in by_dataset_document(read_folder(folder)).warnings]
    change = "The margin was changed after 10 runs had started: from 0.01 to 0.3."
    assert lines == [f"digits: {change}", f"mnist: {change}"]


def test_an_excluded_record_is_listed_under_its_dataset(tmp_path):
    folder = write_by_dataset(tmp_path)
    (folder / "v3-s4" / record.METRICS).write_text("epoch\n")
    shutil.copytree(folder / "v0-s0", folder / "extra")
    excluded = by_dataset_document(read_folder(folder, skip_unreadable=True)).excluded
    assert [run for run, _ in excluded] == ["mnist: v3-s4", "extra"]
