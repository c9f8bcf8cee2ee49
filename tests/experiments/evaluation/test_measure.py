"""What is measured at the end and after several numbers of epochs: alone, stacked, interrupted, without test images."""

import pytest
import tiny
import torch
from safetensors.torch import load_file

from experiments.compared import RunSpec
from experiments.config import run_id
from experiments.evaluation import measure
from experiments.metric import Metric, is_metric, metric_of_column
from experiments.runs import record
from experiments.runs.run import train

CONSTANT = {"optim__schedule": "constant", "eval__fewshot": "digits", "eval__shots": "2"}
LENGTHS = {**CONSTANT, "eval__epochs": "1,2,3"}
ALL = {**LENGTHS, "eval__img_sizes": "4,8,12", "eval__max_shift": 2, "eval__permuted": True}


def test_each_length_is_the_end_of_a_training_of_that_length(tmp_path):
    summary = tiny.run(tmp_path / "long", **LENGTHS)
    for epochs in (1, 2, 3):
        short = tiny.run(tmp_path / f"short-{epochs}", **CONSTANT, train__epochs=epochs)
        names = [name for name in short if name.startswith(("val/", "test/", "fewshot"))]
        assert len(names) == 7
        assert {name: summary[f"{name}@{epochs}"] for name in names} == {name: short[name] for name in names}
    assert summary["test/acc@3"] == summary["test/acc"]


def test_the_record_holds_what_the_configuration_states_and_the_evaluation_changes_nothing_else(tmp_path):
    plain, measured = tiny.run(tmp_path / "a", optim__schedule="constant"), tiny.run(tmp_path / "b", **ALL)
    assert {key: measured[key] for key in plain if "/" in key} == {key: plain[key] for key in plain if "/" in key}
    stated = {*tiny.config(**ALL).metrics, "train/grad_norm"}  # no comparison uses the latter
    assert {key for key in measured if "/" in key} == stated
    for name in (record.METRICS, record.PREDICTIONS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    trained = load_file(tmp_path / "b" / record.CHECKPOINT)
    for name, weights in load_file(tmp_path / "a" / record.CHECKPOINT).items():
        assert torch.equal(weights, trained[name])


def test_members_of_a_cohort_are_evaluated_each_with_its_own_weights(tmp_path):
    configs = [tiny.config(**ALL, train__precision="float64", seed=seed) for seed in (0, 1)]
    together = train([RunSpec.of(f"s{config.seed}", config) for config in configs], tmp_path / "stack", device="cpu")
    alone = [train([RunSpec.of("a", config)], tmp_path / str(config.seed), device="cpu")[0] for config in configs]
    names = [name for name in alone[0] if name.startswith(("fewshot", "shift", "permuted")) or "@" in name]
    assert len(names) == 3 + 3 * 7 + 3 * 4 + 2 + 1
    for stacked, single in zip(together, alone, strict=True):
        assert [stacked[name] for name in names] == pytest.approx([single[name] for name in names], abs=1e-9)
    for kind in ("fewshot", "shift", "permuted", "val/loss@4px"):
        assert any(alone[0][name] != alone[1][name] for name in names if name.startswith(kind))


def test_a_run_that_leaves_the_test_set_out_measures_validation_images_only(tmp_path):
    (summary,) = train([RunSpec.of("a", tiny.config(**ALL))], tmp_path, device="cpu", test=False)
    whole = tiny.run(tmp_path / "b", **ALL)
    measured = {name: value for name, value in summary.items() if "/" in name and value is not None}
    assert measured == {name: whole[name] for name in whole if name.startswith(("train/", "val/", "fewshot-val"))}


def test_a_diverged_run_keeps_what_was_measured_before(tmp_path):
    changes = {**LENGTHS, "optim__lr": 1e30, "optim__name": "sgd", "train__epochs": 9}
    changes["eval__epochs"] = "1,2,3,4,5,6,7,8,9"
    summary = tiny.run(tmp_path / "a", **changes)
    assert (summary["status"], summary["test/acc"]) == ("diverged", None)
    measured = [n for n in range(1, 10) if f"test/acc@{n}" in summary]
    assert measured == list(range(1, summary["epochs"]))  # not after the epoch in which it diverged
    assert record.read_run(tmp_path / "a").summary["run_id"] == run_id(tiny.config(**changes))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("test/acc@1", "test accuracy after 1 epoch"),
        ("train/loss", "training loss"),
        ("test/acc@16px", "test accuracy at 16 px"),
        ("test/loss@16px/interpolated", "test loss at 16 px, interpolated positions"),
        ("shift/2", "consistency under shifts by 2 px"),
        ("fewshot/mnist/5", "5-shot accuracy (mnist)"),
        ("fewshot-l2/mnist/25@40", "25-shot accuracy (mnist, L2 chosen on validation images) after 40 epochs"),
    ],
)
def test_a_metric_has_a_label(name, label):
    metric = Metric(name)
    assert metric.label == label
    assert metric.is_share != metric.lower_is_better
    assert is_metric(name)


@pytest.mark.parametrize(
    "name", ["train/grad_norm", "lr", "test/acc@0", "train/acc@3", "shift/1@3", "fewshot/mnist", 5]
)
def test_a_study_cannot_compare_by_these(name):
    assert not is_metric(name)


@pytest.mark.parametrize(
    ("name", "is_loss"),
    [
        ("test/loss", True),
        ("val/loss@10", True),
        ("test/loss@64px/interpolated", True),
        ("test/acc@64px/interpolated", False),
        (metric_of_column("size/lossless"), False),
        (metric_of_column("my/loss", lower_is_better=True), False),
    ],
)
def test_a_loss_is_known_by_the_whole_name(name, is_loss):
    """A column of a user's table may be negative, whatever its name contains."""
    assert Metric(name).is_loss == is_loss


def test_test_images_are_evaluated_once_for_each_stated_length(tmp_path, monkeypatch):
    counts, original = [], measure.evaluate

    def counted(trainer, splits, images, **options):
        counts.append(images is splits.test)
        return original(trainer, splits, images, **options)

    monkeypatch.setattr(measure, "evaluate", counted)
    tiny.run(tmp_path / "a", **LENGTHS)
    assert counts == [True] * 3
    counts.clear()
    tiny.run(tmp_path / "b", **CONSTANT)
    assert counts == [True]
