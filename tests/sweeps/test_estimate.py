"""An estimate: seconds by hand from the epochs that are reported; the measurement evaluates no test image."""

from types import SimpleNamespace

import pytest
import tiny

from experiments.config import flatten
from experiments.study import RunSpec
from sweeps.builtin import FILES, load_study
from sweeps.estimate import estimate, shortened
from sweeps.plan import make_plan


def test_an_estimate_is_that_of_a_short_measurement_without_test_images(monkeypatch):
    """Four runs of 30 epochs of 2 s on two workers, measured once; the first epoch does not count."""
    clock, given = [0.0], []

    def train(runs, folder, *, on_row, **options):
        given.append((runs, options))
        for seconds in (10.0, 2.0, 2.0):
            clock[0] += seconds
            on_row(0, {})

    monkeypatch.setattr("experiments.runs.run.train", train)
    monkeypatch.setattr("sweeps.estimate.time", SimpleNamespace(monotonic=lambda: clock[0]))
    engine = SimpleNamespace(places=2, call=lambda function, *arguments, seconds: function("cpu", *arguments))
    runs = [RunSpec.of(str(seed), tiny.config(seed=seed, train__epochs=30)) for seed in range(4)]
    assert estimate(runs, engine) == 4 * 30 * 2.0 / 2
    (([run], options),) = given
    assert options == {"device": "cpu", "test": False} and run.config == shortened(runs[-1].config)


@pytest.mark.parametrize("name", FILES)
def test_a_measurement_changes_only_the_epochs_and_the_evaluations(name):
    for run in make_plan(load_study(name)).runs:
        before, after = (dict(flatten(config.model_dump())) for config in (run.config, shortened(run.config)))
        changed = {path for path in before if before[path] != after[path]}
        assert all(path.startswith("eval.") or path in ("train.epochs", "data.download") for path in changed)
        assert after["train.epochs"] == min(3, before["train.epochs"])
