"""Metrics after several numbers of epochs: those of shorter trainings; the same after an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny

from experiments.config import run_id
from experiments.evaluation import measure
from experiments.metric import Metric, is_metric
from experiments.runs import record

CONSTANT = {"optim__schedule": "constant", "eval__fewshot": "digits", "eval__shots": "2"}
LENGTHS = {**CONSTANT, "eval__epochs": "1,2,3"}


def test_each_length_is_the_end_of_a_training_of_that_length(tmp_path: Path) -> None:
    summary = tiny.run(tmp_path / "long", **LENGTHS)
    for epochs in (1, 2, 3):
        short = tiny.run(tmp_path / f"short-{epochs}", **CONSTANT, train__epochs=epochs)
        names = [name for name in short if name.startswith(("val/", "test/", "fewshot"))]
        assert len(names) == 7
        assert {name: summary[f"{name}@{epochs}"] for name in names} == {name: short[name] for name in names}
    assert summary["test/acc@3"] == summary["test/acc"]


def test_the_record_holds_exactly_the_metrics_that_the_configuration_states(tmp_path: Path) -> None:
    found = {name for name in tiny.run(tmp_path / "a", **LENGTHS) if "/" in name}
    assert found == {*tiny.config(**LENGTHS).metrics, "train/grad_norm"}  # no comparison uses the latter


def test_an_interrupted_run_ends_with_the_same_metrics(tmp_path: Path) -> None:
    whole = tiny.run(tmp_path / "whole", **LENGTHS)
    for epoch in (1, 2, 3):
        with pytest.raises(tiny.Stop):
            tiny.run(tmp_path / str(epoch), tiny.stop_after(epoch), **LENGTHS)
        resumed = tiny.run(tmp_path / str(epoch), **LENGTHS)
        assert {k: v for k, v in resumed.items() if "/" in k} == {k: v for k, v in whole.items() if "/" in k}


def test_test_images_are_evaluated_once_for_each_stated_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, original = [], measure.evaluate

    def counted(engine: Any, splits: Any, images: Any, **options: Any) -> Any:
        counts.append(images is splits.test)
        return original(engine, splits, images, **options)

    monkeypatch.setattr(measure, "evaluate", counted)
    tiny.run(tmp_path / "a", **LENGTHS)
    assert counts == [True] * 3
    counts.clear()
    tiny.run(tmp_path / "b", **CONSTANT)
    assert counts == [True]


def test_a_diverged_run_keeps_what_was_measured_before(tmp_path: Path) -> None:
    changes = {**LENGTHS, "optim__lr": 1e30, "optim__name": "sgd", "train__epochs": 9}
    changes["eval__epochs"] = "1,2,3,4,5,6,7,8,9"
    summary = tiny.run(tmp_path / "a", **changes)
    assert (summary["status"], summary["test/acc"]) == ("diverged", None)
    measured = [n for n in range(1, 10) if f"test/acc@{n}" in summary]
    assert measured == list(range(1, summary["epochs"]))  # not after the epoch in which it diverged
    assert record.read_run(tmp_path / "a").summary["run_id"] == run_id(tiny.config(**changes))


@pytest.mark.parametrize(
    ("name", "label", "choice"),
    [
        ("test/acc@1", "test accuracy after 1 epoch", "val/acc@1"),
        ("train/loss", "training loss", "val/loss"),
        ("test/acc@16px", "test accuracy at 16 px", "val/acc@16px"),
        ("shift/2", "consistency under shifts by 2 px", "val/acc"),
        ("fewshot/mnist/5", "5-shot accuracy (mnist)", "fewshot-val/mnist/5"),
        (
            "fewshot-l2/mnist/25@40",
            "25-shot accuracy (mnist, L2 chosen on validation images) after 40 epochs",
            "fewshot-val/mnist/25@40",
        ),
    ],
)
def test_a_metric_has_a_label_and_a_validation_metric_for_choices(name: str, label: str, choice: str) -> None:
    metric = Metric(name)
    assert (metric.label, str(metric.on_validation)) == (label, choice)
    assert metric.is_share != metric.lower_is_better
    assert is_metric(name)


@pytest.mark.parametrize(
    "name", ["train/grad_norm", "lr", "test/acc@0", "train/acc@3", "shift/1@3", "fewshot/mnist", 5]
)
def test_a_study_cannot_compare_by_these(name: object) -> None:
    assert not is_metric(name)
