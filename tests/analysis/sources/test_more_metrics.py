"""Metrics that only some records hold: they are read, checked, exported and can be the metric of a study."""

from pathlib import Path

import pytest
from synthetic import add_metrics, write_study

from analysis.results.study_results import analyze
from analysis.sources.exported import export, read_export
from analysis.sources.read import read
from experiments.errors import UserError
from experiments.runs.record import RecordError

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference" / "mnist-small" / "table-8"


def half(summary, variant, seed):
    return {"fewshot/digits/5": summary["test/acc"] / 2, "test/acc@2": summary["test/acc"] / 4}


def test_such_a_metric_is_compared_like_any_other(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, half)
    usual, fewshot = analyze(read(str(folder))), analyze(read(str(folder), metric="fewshot/digits/5"))
    for variant in usual.others:
        assert fewshot.versus[variant].diff.value == pytest.approx(usual.versus[variant].diff.value / 2)
    assert fewshot.study.metric.label == "5-shot accuracy (digits)"
    assert usual.means.by_metric["test/acc@2"]["none"].value == pytest.approx(usual.mean("none").value / 4)


def test_a_diverged_run_counts_as_chance_among_the_classes_of_the_metric(tmp_path):
    """Digits has 10 classes, CIFAR-100 has 100. Consistency has no chance level: the worst case counts."""
    folder = write_study(tmp_path, statuses={("sinusoidal", 1): "diverged"})
    add_metrics(folder, lambda *_: {"fewshot/digits/5": 0.5, "fewshot/cifar100/5": 0.5, "shift/1": 0.9})
    levels = {"test/acc": 0.1, "fewshot/digits/5": 0.1, "fewshot/cifar100/5": 0.01, "shift/1": 0.0}
    for metric, level in levels.items():
        results = analyze(read(str(folder), metric=metric))
        assert results.policy.count_diverged(results.values)["sinusoidal"][1] == level


def test_it_survives_an_export(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, half)
    study = read(str(folder))
    again = read_export(export(study, tmp_path / "export"))
    assert again.metrics == study.metrics
    assert again.runs["fewshot/digits/5"].tolist() == study.runs["fewshot/digits/5"].tolist()


def test_a_value_that_cannot_be_is_refused(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, lambda *_: {"fewshot/digits/5": 70.0})
    with pytest.raises(RecordError, match="fewshot/digits/5: 70 is not allowed: expected a fraction from 0 to 1"):
        read(str(folder))


def test_a_metric_that_no_run_measures_is_refused(tmp_path):
    folder = write_study(tmp_path)
    with pytest.raises(UserError, match="^--metric: 'fewshot/mnist/5' is not measured by any run"):
        read(str(folder), metric="fewshot/mnist/5")
    with pytest.raises(
        UserError,
        match="^--metric: 'fewshot' is not allowed: expected .* or such as fewshot/mnist/5 .needs eval.fewshot",
    ):
        read(str(folder), metric="fewshot")


def test_a_record_from_before_these_metrics_has_none_and_gets_the_default_settings():
    study = read(str(REFERENCE))
    assert [str(metric) for metric in study.metrics if "fewshot" in metric or "@" in metric] == []
    assert set(study.runs["eval.fewshot"]) == {""} and set(study.runs["eval.shots"]) == {"1,5,10,25"}


def test_a_study_may_have_such_a_metric_as_its_own(tmp_path):
    folder = write_study(tmp_path, metric="fewshot/digits/5")
    assert read(str(folder)).metric == "fewshot/digits/5"
    add_metrics(folder, half)
    assert analyze(read(str(folder))).mean("none").n == 5
