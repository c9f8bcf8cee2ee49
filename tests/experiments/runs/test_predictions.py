"""Test predictions in the record: they agree with the checkpoint, read back exactly, and a change is noticed."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file

from experiments.compared import RunSpec
from experiments.data import loading
from experiments.runs import predictions, record
from experiments.runs.run import train
from experiments.training.trainer import initial_model


def read(run_dir: Path) -> predictions.Predictions:
    return predictions.read(run_dir, record.read_summary(run_dir)["files"][record.PREDICTIONS])


@pytest.mark.parametrize("head", ["logits", "softmax"])
@pytest.mark.parametrize("seeds", [[0], [0, 1]])
def test_predictions_are_those_of_the_checkpoint(seeds, head, tmp_path):
    runs = [RunSpec.of(f"s{seed}", tiny.config(seed=seed, model__head=head)) for seed in seeds]
    summaries = train(runs, tmp_path, device="cpu")
    splits = loading.load(runs[0].config)
    for run, summary in zip(runs, summaries, strict=True):
        stored = read(tmp_path / run.name)
        model = initial_model(run.config, 10)
        model.load_state_dict(load_file(tmp_path / run.name / record.CHECKPOINT))
        with torch.no_grad():
            scores = model.eval()(splits.normalized(splits.scaled(splits.test.x))).double().numpy()
        labels = splits.test.y.numpy()
        logits = scores if head == "logits" else np.log(scores)
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        assert stored.labels.tolist() == labels.tolist()
        assert stored.hits.tolist() == (scores.argmax(1) == labels).tolist()
        assert stored.hits.mean() == summary["test/acc"]
        assert stored.probabilities == pytest.approx(shares[np.arange(len(labels)), labels], rel=1e-3)
        losses = -np.log(np.exp(scores) / np.exp(scores).sum(1, keepdims=True))[np.arange(len(labels)), labels]
        assert summary["test/loss"] == pytest.approx(losses.mean(), abs=1e-3)


@pytest.mark.parametrize(("classes", "label_bytes"), [(10, 1), (1000, 2)])
def test_predictions_read_back_from_a_small_file(classes, label_bytes, tmp_path):
    generator = np.random.default_rng(0)
    hits, labels = generator.random(10_001) < 0.9, generator.integers(0, classes, 10_001)
    probabilities = generator.random(10_001)
    names = tuple(f"class {i}" for i in range(classes)) if classes == 10 else ()  # older records have none
    body = predictions.to_bytes(hits, probabilities, labels, names)
    assert body == predictions.to_bytes(hits, probabilities, labels, names)
    assert len(body) < 10_001 * (1 / 8 + 2 + label_bytes)
    (tmp_path / record.PREDICTIONS).write_bytes(body)
    stored = predictions.read(tmp_path, hashlib.sha256(body).hexdigest())
    assert (stored.hits == hits).all()
    assert (stored.labels == labels).all() and stored.classes == names
    assert np.abs(stored.probabilities - probabilities).max() <= 2**-12  # half a step of float16 below 1


@pytest.mark.parametrize("change", ["altered", "missing"])
def test_changed_predictions_are_refused_on_request(change, tmp_path):
    tiny.run(tmp_path / "a")
    path = tmp_path / "a" / record.PREDICTIONS
    path.unlink()
    if change == "altered":
        path.write_bytes(predictions.to_bytes([True], [1.0], [0]))
    record.read_run(tmp_path / "a")
    for reader in (lambda: record.read_run(tmp_path / "a", predictions=True), lambda: read(tmp_path / "a")):
        with pytest.raises(record.RecordError, match=record.PREDICTIONS):
            reader()
