"""The report of a study: warnings, provenance, commands, and odd studies that still make a report."""

import html
import re
from dataclasses import replace

import pytest
import yaml
from synthetic import write_factorial, write_study

from analysis.report import write
from analysis.report.study_report import study_document, study_headline, study_warnings
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder, read_runs
from experiments.runs import record


def results_of(tmp_path, skip=False, **options):
    return analyze(read_folder(write_study(tmp_path, **options), skip))


@pytest.mark.parametrize(
    "options",
    [
        {"accuracy": {"none": 0.7}},
        {"accuracy": {"none": 0.7, "learned-1d": 0.9}, "statuses": {("none", seed): "diverged" for seed in range(5)}},
        {
            "accuracy": {"none": 0.7, "learned-1d": 0.9},
            "statuses": {("learned-1d", seed): "absent" for seed in range(5)},
        },
        {
            "accuracy": {"none": 0.7, "learned-1d": 0.9},
            "statuses": {("learned-1d", seed): "incomplete" for seed in (1, 2, 3, 4)},
        },
        {"spread": 0.0},
        {"metric": "val/loss", "margin": 0.05},
    ],
    ids=["one variant", "baseline diverged", "one absent", "one pair", "no spread", "a loss"],
)
def test_incomplete_studies_still_have_a_report(tmp_path, options):
    files = write.make(study_document(results_of(tmp_path, **options)))
    assert not re.search(rb"(?i)\b(nan|inf|none of)\b", files["report.md"])


def test_seeds_of_one_configuration_have_a_report(tmp_path):
    folder = write_study(tmp_path, accuracy={"none": 0.7}, seeds=3)
    (folder / record.STUDY).unlink()
    document = study_document(analyze(read_runs(folder, False, None, None)))
    assert document.title == "position: test accuracy"
    assert b"3 seeds). There is no other" in write.make(document)["report.md"]


@pytest.mark.parametrize(
    ("seeds", "lost", "said"),
    [
        (
            3,
            {("depth=1, head=softmax", s): "diverged" for s in (1, 2)}
            | {("depth=2, head=softmax", s): "diverged" for s in (1, 2)},
            "of model.depth = 1, model.head = softmax; model.depth = 2, model.head = softmax",
        ),
        (2, {("depth=2, head=softmax", 1): "absent"}, "1 of 2 seeds have a finished run of every combination"),
    ],
)
def test_factors_that_cannot_be_tested_have_no_effects_and_a_reason(tmp_path, seeds, lost, said):
    results = analyze(read_folder(write_factorial(tmp_path, seeds=seeds, statuses=lost)))
    assert results.factors.model is None and said in results.factors.skipped_reason
    document = study_document(results)
    assert not any(
        "significant effect" in paragraph or "interaction" in paragraph for paragraph in study_headline(results)
    )
    assert said.encode() in write.make(document)["report.md"].replace(b"\\_", b"_")


def test_pairs_without_a_result_do_not_need_more_seeds(tmp_path):
    lost = {("rope-2d", seed): "diverged" for seed in range(5)}
    results = results_of(tmp_path, accuracy={"none": 0.5, "cpe": 0.9, "rope-2d": 0.8}, statuses=lost)
    assert not any("too few seeds" in paragraph for paragraph in study_headline(results))


def test_a_file_is_copied_from_the_report_as_it_is(tmp_path):
    own = {"name": "mine", "factors": {"model.pos_embed": ["none", "cpe"]}, "seeds": 2}
    document = study_document(results_of(tmp_path, seeds=4, command="vit-sweep run my/mine.yaml", study=own))
    for name in ("report.md", "report.html"):
        page = html.unescape(write.make(document)[name].decode())
        pattern = r"^(?:<pre><code>)?(# my/mine\.yaml.*?)\n?(?:```|</code></pre>)"
        (copied,) = re.findall(pattern, page, re.DOTALL | re.MULTILINE)
        assert yaml.safe_load(copied) == own


def test_a_single_slow_run_gives_a_warning_and_leaves_the_median(tmp_path):
    study = read_folder(write_study(tmp_path, accuracy={"none": 0.7, "cpe": 0.9}, seeds=5))
    seconds = {("none", 0): 400.0, ("cpe", 3): 12.0, ("cpe", 4): 12.0}  # and 4.0 and 4.1 of all others
    machine = {3: "slow", 4: "slow"}
    runs = study.runs.assign(
        device_seconds=[seconds.get((v, s), d) for v, s, d in study.runs[["variant", "seed", "device_seconds"]].values],
        hardware=[machine.get(s, "fast") if v == "cpe" else "fast" for v, s in study.runs[["variant", "seed"]].values],
    )
    results = analyze(replace(study, runs=runs))
    assert results.cost.loc["none", "device_seconds"] == 4.0 and results.cost.loc["cpe", "device_seconds"] == 4.1
    assert results.cost.loc["cpe", "device_seconds_ratio"] == pytest.approx(
        4.1 / 4.0
    )  # of seeds 0, 1, 2: .01025, 1.025, 1.025
    said = " ".join(study_warnings(results))
    assert "one run of none took 100.0 times the median" in said and "2 kinds of hardware" in said


def test_a_study_of_several_factors_starts_with_them_and_another_with_its_variants(tmp_path):
    def sections(results):
        return [section.id for section in study_document(results).sections]

    one = sections(results_of(tmp_path / "one"))
    assert one[:5] == ["result", "differences", "claims", "curves", "cost"]
    several = sections(analyze(read_folder(write_factorial(tmp_path / "two"))))
    assert several[:3] == ["factors", "result", "differences"] and several[-4:] == [
        "methods",
        "provenance",
        "reproduce",
        "runs",
    ]


def test_pruned_runs_give_a_warning(tmp_path):
    lost = {("none", 0): "pruned", ("none", 1): "pruned"}
    results = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=4, statuses=lost)
    assert (
        "2 of 8 runs were pruned (stopped early because of low results) and are excluded. This biases the means"
        in " ".join(study_warnings(results))
    )
