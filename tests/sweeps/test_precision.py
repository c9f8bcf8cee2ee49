"""`train.precision: auto` of a study: measured once, then the stored value; refused as a level and by `vit-train`."""

import json
import shlex
from pathlib import Path
from unittest.mock import Mock

import pytest
import tiny
import torch
from stubbed import finish

from experiments.errors import UserError
from experiments.training import step_time
from experiments.training.step_time import bfloat16_speedup
from sweeps.plan import make_plan
from sweeps.study import parse_study
from sweeps.study_folder import plan_of, write_plan

CPU = torch.device("cpu")
AUTO = {"train.precision": "auto"}


pytestmark = pytest.mark.usefixtures("measuring_here")


def study(folder: Path, **fields) -> Path:
    path = folder / "mine.yaml"
    path.write_text(json.dumps({"name": "mine", "factors": {"model.depth": [1, 2]}, "seeds": 2, **fields}))
    return path


@pytest.fixture
def measured(monkeypatch):
    """Let bfloat16 be 1.7 times as fast. Returns (configuration, device) of each measurement."""
    seen = []

    def measure(config, device):
        seen.append((config, device))
        return 1.7

    monkeypatch.setattr(step_time, "bfloat16_speedup", measure)
    return seen


@pytest.fixture
def unmeasured(monkeypatch):
    monkeypatch.setattr(step_time, "bfloat16_speedup", Mock(side_effect=AssertionError("measured")))


@pytest.mark.parametrize(
    ("base", "words"),
    [({}, ["--train.precision", "auto"]), ({}, ["--set", "train.precision+train.epochs=[auto, 7]"]), (AUTO, [])],
)
def test_it_is_measured_for_the_base_of_a_new_study(base, words, vit_sweep, tmp_path, measured):
    path = study(tmp_path, base={**base, "train.batch_size": 17})
    status, out, _ = vit_sweep("show", path, "--out", tmp_path, *words)
    said, *plan = out.splitlines()
    assert (status, said) == (0, "train.precision: auto is bfloat16 here (1.70 times as fast as float32)")
    assert "train.precision=bfloat16" in plan[1]
    ((config, device),) = measured
    assert config.train.batch_size == 17 and device == CPU
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("base", "words"), [({}, []), (AUTO, ["--train.precision", "bfloat16"]), ({"train.precision": "float64"}, [])]
)
def test_another_value_is_not_measured(base, words, vit_sweep, tmp_path, unmeasured):
    status, out, _ = vit_sweep("show", study(tmp_path, base=base), "--out", tmp_path, *words)
    assert status == 0 and "auto" not in out


@pytest.mark.parametrize(
    ("speedup", "said"),
    [
        (1.04, "auto is float32 here (bfloat16 is only 1.04 times as fast)"),
        (1.06, "auto is bfloat16 here (1.06 times as fast as float32)"),
    ],
)
def test_bfloat16_is_chosen_where_it_is_five_percent_faster(speedup, said, vit_sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(step_time, "bfloat16_speedup", lambda *_: speedup)
    _, out, _ = vit_sweep("show", study(tmp_path, base=AUTO), "--out", tmp_path)
    assert out.startswith(f"train.precision: {said}\n")
    assert ("train.precision=bfloat16" in out) == (speedup > 1.05)


@pytest.mark.parametrize("words", [["show"], ["run", "--dry-run", "--workers", "1"]], ids=lambda words: words[0])
def test_the_stored_value_is_used(words, vit_sweep, tmp_path, unmeasured):
    """Also with more seeds. All runs have a record, so --dry-run measures no time either."""
    path = study(tmp_path, base=AUTO)
    fields, named = json.loads(path.read_text()), {"train.precision": "bfloat16"}
    plan = make_plan(parse_study(fields, "mine"), None, named)
    write_plan(plan, tmp_path / "mine", "here")
    for run in make_plan(parse_study({**fields, "seeds": 3}, "mine"), None, named).runs:
        finish(tmp_path / "mine" / run.name, run)
    status, out, err = vit_sweep(words[0], path, "--out", tmp_path, "--seeds", "3", *words[1:])
    assert (status, err) == (0, "")
    assert out.startswith(f"train.precision: auto is bfloat16, as in {tmp_path / 'mine'}\n")
    assert "6 runs, 6 done" in out
    # what workers and other machines read; the study still says auto
    assert plan_of(tmp_path / "mine") == plan.model_copy(update={"command": "here"})


def test_a_tuning_keeps_what_its_trials_used(vit_sweep, tmp_path, monkeypatch):
    """And the command for the tuned runs, which may lie elsewhere, names it."""
    path = study(tmp_path, base={**tiny.settings(), **AUTO}, factors={"model.pool": ["cls"]}, seeds=1)
    words = ["tune", path, "--out", tmp_path, "--trials", "1", "--workers", "1", "--device", "cpu"]
    monkeypatch.setattr(step_time, "bfloat16_speedup", lambda *_: 2.0)
    status, out, _ = vit_sweep(*words)
    assert status == 0 and out.startswith("train.precision: auto is bfloat16 here")
    monkeypatch.setattr(step_time, "bfloat16_speedup", lambda *_: 0.5)
    status, out, _ = vit_sweep(*words)
    assert status == 0 and out.startswith(f"train.precision: auto is bfloat16, as in {tmp_path / 'mine'}\n")
    later = next(line for line in out.splitlines() if line.startswith("next: "))
    assert shlex.split(later)[-2:] == ["--train.precision", "bfloat16"]


@pytest.mark.parametrize(
    ("fields", "words", "said"),
    [
        ({"factors": {"train.precision": ["float32", "auto"]}}, [], "variant 'auto': train.precision: 'auto' is not"),
        (
            {"factors": {"train.precision": ["float32"]}, "extra": [{"train.precision": "auto"}]},
            [],
            "'auto' is not allowed",
        ),
        ({"factors": {"train.precision": ["float32", "float64"]}}, ["--train.precision", "auto"], "is a factor of"),
        ({"base": {**AUTO, "model.patch_size": 3}}, [], "patch_size: 3 does not divide"),
        ({"base": AUTO}, ["--device", "tpu9"], "device: 'tpu9' is not available"),
    ],
)
def test_bad_input_is_refused_before_a_measurement(fields, words, said, refused, tmp_path, unmeasured):
    assert said in refused("run", study(tmp_path, **fields), "--out", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_the_measurement_is_the_median_of_turns(monkeypatch):
    """By hand: 4 / 2, 6 / 2 and 5 / 1 are 2, 3 and 5. The first turns, which are slow, do not count."""
    steps = {"float32": iter([100.0, 4.0, 6.0, 5.0]), "bfloat16": iter([900.0, 2.0, 2.0, 1.0])}
    seen, clock, threads = [], iter([0.0, 0.4, 0.8, 1.2]), torch.get_num_threads()

    def timer(config, num_classes, device, count):
        seen.append((config, device, torch.get_num_threads()))
        return lambda: next(steps[config.train.precision])

    monkeypatch.setattr(step_time, "step_timer", timer)
    monkeypatch.setattr(step_time.time, "perf_counter", lambda: next(clock))
    config = tiny.config(train__precision="float64", train__batch_size=10**6)  # not more than the training images
    assert bfloat16_speedup(config, CPU) == 3.0
    assert [each[0].train.precision for each in seen] == ["float32", "bfloat16"]
    assert {each[0].train.batch_size for each in seen} == {80}
    assert [each[1:] for each in seen] == [(CPU, 1)] * 2 and torch.get_num_threads() == threads


def test_a_step_is_timed(monkeypatch):
    """By hand: a clock that advances 6 s between its two readings, for 3 steps. The steps change the weights."""
    readings = iter([10.0, 16.0])
    monkeypatch.setattr(step_time.time, "process_time", lambda: next(readings))
    done = []
    train_step = step_time.Solo.train_step
    monkeypatch.setattr(step_time.Solo, "train_step", lambda *a: done.append(a[1].shape) or train_step(*a))
    assert step_time.step_timer(tiny.config(train__precision="bfloat16"), 10, CPU, 3)() == 2.0
    assert done == [(1, 32, 1, 8, 8)] * 3


def test_a_batch_that_does_not_fit_is_one_line(monkeypatch):
    monkeypatch.setattr(step_time, "step_timer", Mock(side_effect=torch.OutOfMemoryError("no memory")))
    with pytest.raises(UserError, match="train.batch_size: a batch of 32 images of 8 px does not fit in memory"):
        bfloat16_speedup(tiny.config(), CPU)


def test_a_step_that_fails_in_one_precision_is_one_line(refused, tmp_path, monkeypatch):
    """As a plug-in that cannot be autocast."""
    monkeypatch.setattr(step_time, "bfloat16_speedup", Mock(side_effect=RuntimeError("no bf16")))
    line = refused("show", study(tmp_path), "--out", tmp_path, "--train.precision", "auto")
    assert "train.precision: 'auto'" in line and "float32 or bfloat16" in line and "no bf16" in line
