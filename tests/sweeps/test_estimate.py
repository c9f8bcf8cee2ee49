"""An estimate: seconds by hand from the epochs that a worker reports; the measurement evaluates no test image."""

from types import SimpleNamespace
from typing import Any

import pytest
import tiny

from experiments.config import flatten
from experiments.study import RunSpec
from sweeps.builtin import FILES, load_study
from sweeps.estimate import estimate, shortened
from sweeps.plan import make_plan
from sweeps.workers.worker import WorkerConfig


class StubWorker:
    """A worker whose epochs take 10, 2 and 2 seconds. `given`: its configuration and the runs that it is sent."""

    def __init__(self, config: WorkerConfig) -> None:
        self.clock, self.given = 0.0, [config]
        self.pipe = SimpleNamespace(poll=lambda timeout: True)

    def send(self, message: Any) -> None:
        self.given += message[0]
        self.epochs = iter([10.0, 2.0, 2.0])

    def receive(self) -> tuple[Any, ...]:
        seconds = next(self.epochs, None)
        self.clock += seconds or 0.0
        return ("row", 0, {}) if seconds else ("done",)

    def stop(self) -> None:
        pass


def test_an_estimate_is_that_of_a_short_measurement_without_test_images(tmp_path, monkeypatch):
    """Four runs of 30 epochs of 2 s on two workers, measured once; the first epoch does not count."""
    worker = StubWorker(WorkerConfig("cpu", tmp_path / "log", 1))
    monkeypatch.setattr("sweeps.estimate.Worker", lambda config: worker.given.append(config) or worker)
    monkeypatch.setattr("sweeps.estimate.time", SimpleNamespace(monotonic=lambda: worker.clock))
    runs = [RunSpec.of(str(seed), tiny.config(seed=seed, train__epochs=30)) for seed in range(4)]
    assert estimate(runs, worker.given * 2) == 4 * 30 * 2.0 / 2
    config, *sent = worker.given[1:]
    assert config.test is False and [run.config for run in sent] == [shortened(runs[-1].config)]


@pytest.mark.parametrize("name", FILES)
def test_a_measurement_changes_only_the_epochs_and_the_evaluations(name):
    for run in make_plan(load_study(name)).runs:
        before, after = (dict(flatten(config.model_dump())) for config in (run.config, shortened(run.config)))
        changed = {path for path in before if before[path] != after[path]}
        assert all(path.startswith("eval.") or path in ("train.epochs", "data.download") for path in changed)
        assert after["train.epochs"] == min(3, before["train.epochs"])
