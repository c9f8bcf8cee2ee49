"""The measurement of an estimate: it trains a few epochs, and evaluates no test image."""

import json
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import tiny

from experiments.config import flatten
from experiments.runs import record
from experiments.study import RunSpec
from sweeps.builtin import STUDIES
from sweeps.estimate import estimate, shortened
from sweeps.plan import make_plan
from sweeps.workers.worker import Datasets, WorkerConfig, _train


class WorkerHere:
    """A worker that trains in this process. `records` are the summaries that its runs leave."""

    records: list[dict[str, Any]] = []

    def __init__(self, config: WorkerConfig) -> None:
        self.config, self.messages = config, list[tuple[Any, ...]]()
        self.pipe = SimpleNamespace(send=self.messages.append, poll=lambda timeout: bool(self.messages))

    def send(self, message: tuple[list[RunSpec], Path]) -> None:
        runs, folder = message
        _train(self.pipe, SimpleQueue(), self.config, Datasets(), runs, folder)
        self.records += [json.loads((folder / run.name / record.SUMMARY).read_text()) for run in runs]

    def receive(self) -> tuple[Any, ...]:
        return self.messages.pop(0)

    def stop(self) -> None:
        pass


def test_a_measurement_evaluates_no_test_image(tmp_path, monkeypatch):
    monkeypatch.setattr("sweeps.estimate.Worker", WorkerHere)
    monkeypatch.setattr(WorkerHere, "records", [])
    evaluations = {"img_sizes": "8,16", "max_shift": 1, "permuted": True, "fewshot": "digits", "shots": "1"}
    config = tiny.config(**{f"eval__{name}": value for name, value in evaluations.items()})
    seconds = estimate([RunSpec.of("one", config)], [WorkerConfig("cpu", tmp_path / "log", 1)])
    assert seconds is not None and seconds > 0
    (summary,) = WorkerHere.records
    assert summary["data"]["test_images"] == 0
    assert {name for name in summary if name.startswith(("test/", "fewshot")) or "@" in name} == {
        "test/loss",
        "test/acc",
    }
    assert summary["test/loss"] is None and summary["test/acc"] is None


@pytest.mark.parametrize("name", STUDIES)
def test_a_measurement_changes_only_the_epochs_and_the_evaluations(name):
    for run in make_plan(STUDIES[name]).runs:
        before, after = (dict(flatten(config.model_dump())) for config in (run.config, shortened(run.config)))
        changed = {path for path in before if before[path] != after[path]}
        assert all(path.startswith("eval.") or path in ("train.epochs", "data.download") for path in changed)
        assert after["train.epochs"] == min(3, before["train.epochs"])
