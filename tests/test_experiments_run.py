"""One run and its record: the same numbers however often it was interrupted, diverged runs kept, the test set touched once."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file

from experiments import data, record
from experiments.config import run_id
from experiments.engine import initial_model
from experiments.errors import UserError
from experiments.run import RESUME, Job, pick_device, train

ROOT = Path(__file__).resolve().parents[1]
FILES = {record.CONFIG, record.METRICS, record.CHECKPOINT, record.SUMMARY}


class Stop(Exception):
    """The end of the world, as far as the run can tell."""


def stop_after(epoch: int) -> Any:
    def on_row(job: int, row: dict[str, float]) -> None:
        if row["epoch"] == epoch:
            raise Stop

    return on_row


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_same_configuration_gives_the_same_bytes(tmp_path: Path) -> None:
    changes = {"data__hflip": True, "model__attn_drop_rate": 0.1}
    tiny.run(tmp_path / "a", **changes)
    tiny.run(tmp_path / "b", **changes)
    tiny.run(tmp_path / "c", **changes, seed=1)
    assert tiny.results(tmp_path / "a") == tiny.results(tmp_path / "b")
    assert tiny.results(tmp_path / "a")[record.METRICS] != tiny.results(tmp_path / "c")[record.METRICS]


INTERRUPTED = [
    {},
    {"optim__name": "sgd", "data__crop_padding": 1},
    {"optim__name": "adam", "train__precision": "float64", "data__rrc_scale": 0.5},
    {"train__precision": "bfloat16", "model__pos_drop_rate": 0.2, "model__drop_path_rate": 0.2, "model__depth": 2},
    {"model__pos_embed": "none", "optim__schedule": "constant"},
    {"model__pos_embed": "sinusoidal", "model__attn_drop_rate": 0.3, "data__hflip": True},
]


@pytest.mark.parametrize("changes", INTERRUPTED, ids=str)
def test_interrupted_after_any_epoch_ends_with_the_same_bytes(changes: dict[str, Any], tmp_path: Path) -> None:
    whole = tiny.run(tmp_path / "whole", **changes)
    for epoch in (1, 2, 3):
        folder, heard = tmp_path / str(epoch), []
        with pytest.raises(Stop):
            tiny.run(folder, stop_after(epoch), **changes)
        assert not record.is_finished(folder)
        summary = tiny.run(folder, lambda job, row, heard=heard: heard.append(row["epoch"]), **changes)
        assert heard == list(range(epoch + 1, 4))  # no epoch twice
        assert tiny.results(folder) == tiny.results(tmp_path / "whole")
        assert {key: summary[key] for key in summary if "/" in key} == {key: whole[key] for key in whole if "/" in key}


def test_interrupted_at_every_epoch_in_turn(tmp_path: Path) -> None:
    tiny.run(tmp_path / "whole")
    for epoch in (1, 2, 3):
        with pytest.raises(Stop):
            tiny.run(tmp_path / "often", stop_after(epoch))
    tiny.run(tmp_path / "often")
    assert tiny.results(tmp_path / "often") == tiny.results(tmp_path / "whole")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_interrupted_at_any_write_ends_with_the_same_bytes(before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power fails just before, or just after, each file that a run puts in place."""
    replace, left = os.replace, math.inf

    def failing(source: str, target: str) -> None:
        nonlocal left
        left -= 1
        if left == 0 and before:
            raise Stop
        replace(source, target)
        if left == 0:
            raise Stop

    tiny.run(tmp_path / "whole", train__epochs=2)
    monkeypatch.setattr(os, "replace", failing)
    for write in range(1, 50):
        folder, left = tmp_path / str(write), write
        try:
            tiny.run(folder, train__epochs=2)
        except Stop:
            left = math.inf
            tiny.run(folder, train__epochs=2)
        else:
            break
        assert tiny.results(folder) == tiny.results(tmp_path / "whole")
        assert files(folder) == FILES
    assert write > 6  # configuration, two epochs of two files each, checkpoint, table, summary


def test_kill_9_then_the_same_command_ends_with_the_same_bytes(tmp_path: Path) -> None:
    changes = {"train__epochs": 25, "data__hflip": True}
    flags = [part for path, value in tiny.settings(**changes).items() for part in (f"--{path}", str(value))]
    code = "from experiments.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *flags, "--device", "cpu", "--out", str(tmp_path / "killed")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tables := list(tmp_path.glob("killed/*/metrics.csv"))) or tables[0].read_text().count("\n") < 6:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = tables[0].parent
    assert not record.is_finished(folder)
    whole = tiny.run(tmp_path / "whole", **changes)
    assert tiny.run(folder, **changes)["test/loss"] == whole["test/loss"]
    assert tiny.results(folder) == tiny.results(tmp_path / "whole")
    assert files(folder) == FILES


def test_a_finished_run_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiny.run(tmp_path / "a")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    monkeypatch.setattr(data, "load", lambda config: pytest.fail("looked at the data of a finished run"))
    assert tiny.run(tmp_path / "a") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == stamps


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_run_that_diverges_is_kept_as_diverged(optimiser: str, tmp_path: Path) -> None:
    heard: list[float] = []
    changes = {"optim__lr": 1e30, "optim__name": optimiser, "optim__schedule": "constant", "train__epochs": 9}
    summary = tiny.run(tmp_path / "a", lambda job, row: heard.append(row["epoch"]), **changes)
    assert (summary["status"], summary["test/loss"], summary["test/acc"]) == ("diverged", None, None)
    assert heard == list(range(1, summary["epochs"] + 1))
    assert summary["epochs"] < 9
    rows = record.read_run(tmp_path / "a", checkpoint=True).rows
    assert not all(map(math.isfinite, rows[-1].values()))
    assert all(math.isfinite(value) for row in rows[:-1] for value in row.values())
    assert tiny.run(tmp_path / "a", **changes) == summary  # and it is finished with


@pytest.mark.parametrize("epochs", [1, 5], ids=["in its last epoch", "before"])
def test_a_run_interrupted_as_it_diverges_is_still_diverged(epochs: int, tmp_path: Path) -> None:
    changes = {"optim__lr": 1e30, "optim__name": "sgd", "optim__schedule": "constant", "train__epochs": epochs}
    whole = tiny.run(tmp_path / "whole", **changes)
    with pytest.raises(Stop):
        tiny.run(tmp_path / "cut", stop_after(whole["epochs"]), **changes)
    again = tiny.run(tmp_path / "cut", **changes)
    assert (again["status"], again["epochs"], again["test/acc"]) == ("diverged", whole["epochs"], None)
    assert tiny.results(tmp_path / "cut") == tiny.results(tmp_path / "whole")


def test_a_pruned_run_says_so_and_has_no_test_figure(tmp_path: Path) -> None:
    summary = tiny.run(tmp_path / "a", lambda job, row: row["epoch"] == 2)
    assert (summary["status"], summary["epochs"], summary["test/acc"]) == ("pruned", 2, None)
    assert len(record.read_run(tmp_path / "a").rows) == 2


def test_pruning_does_not_hide_that_a_run_diverged(tmp_path: Path) -> None:
    changes = {"optim__lr": 1e30, "optim__name": "sgd", "optim__schedule": "constant"}
    assert tiny.run(tmp_path / "a", lambda job, row: not math.isfinite(row["train/loss"]), **changes)["status"] == "diverged"


COHORT = {"train__precision": "float64", "optim__name": "sgd", "optim__schedule": "constant", "train__epochs": 4}


def cohort(out: Path, on_row: Any = None) -> list[dict[str, Any]]:
    """Three runs trained together, of which the second diverges at once; their summaries."""
    members = [tiny.config(seed=seed, optim__lr=lr, **COHORT) for seed, lr in ((0, 0.01), (1, 1e300), (2, 0.02))]
    return train([Job(config, out / str(i)) for i, config in enumerate(members)], device="cpu", on_row=on_row)


def prune_the_third(job: int, row: dict[str, float]) -> bool:
    return job == 2 and row["epoch"] == 2


def test_members_of_a_cohort_end_each_in_its_own_way(tmp_path: Path) -> None:
    summaries = cohort(tmp_path, prune_the_third)
    assert [(s["status"], s["epochs"]) for s in summaries] == [("finished", 4), ("diverged", 1), ("pruned", 2)]
    assert [s["test/acc"] is None for s in summaries] == [False, True, True]
    for i, seed, lr in ((0, 0, 0.01), (2, 2, 0.02)):  # each has the weights and the numbers of its own last epoch
        alone = tiny.run(tmp_path / f"alone{i}", lambda job, row, i=i: prune_the_third(i, row), seed=seed, optim__lr=lr, **COHORT)
        assert summaries[i]["val/loss"] == pytest.approx(alone["val/loss"], rel=1e-9)
        expected = load_file(tmp_path / f"alone{i}" / record.CHECKPOINT)
        for name, weights in load_file(tmp_path / str(i) / record.CHECKPOINT).items():
            torch.testing.assert_close(weights, expected[name], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("job", "epoch"), [(0, 2), (1, 1), (2, 1), (0, 3)])
def test_a_cohort_interrupted_between_its_members_ends_the_same(job: int, epoch: int, tmp_path: Path) -> None:
    def on_row(number: int, row: dict[str, float]) -> bool:
        if (number, row["epoch"]) == (job, epoch):
            raise Stop
        return prune_the_third(number, row)

    whole = cohort(tmp_path / "whole", prune_the_third)
    with pytest.raises(Stop):
        cohort(tmp_path / "cut", on_row)
    again = cohort(tmp_path / "cut", prune_the_third)
    assert [(s["status"], s["epochs"]) for s in again] == [(s["status"], s["epochs"]) for s in whole]
    assert again[0]["test/loss"] == pytest.approx(whole[0]["test/loss"], rel=1e-9)
    assert all(files(tmp_path / "cut" / str(i)) == FILES for i in range(3))


class Watched(data.Images):
    """Images that count how often they are looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name in ("x", "y"):
            Watched.looks += 1
        return super().__getattribute__(name)

    def to(self, device: torch.device) -> data.Images:
        return self


def use_test_set(monkeypatch: pytest.MonkeyPatch, test: type[data.Images], shift: int = 0) -> None:
    """Give the runs that follow a test set of that class, its labels moved on by `shift`."""
    s = data.load(tiny.config())
    test_set = test(s.test.x, (s.test.y + shift) % 10)
    monkeypatch.setattr(data, "load", lambda config: data.Splits(s.train, s.val, test_set, s.classes, s.mean, s.std))


def test_the_test_set_is_touched_only_when_training_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_test_set(monkeypatch, Watched)
    Watched.looks, counts = 0, []
    assert tiny.run(tmp_path / "a", lambda job, row: counts.append(Watched.looks))["test/acc"] is not None
    assert counts == [0, 0, 0]
    assert Watched.looks > 0


def test_the_test_labels_have_no_influence_on_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tiny.run(tmp_path / "a")
    use_test_set(monkeypatch, data.Images, shift=1)
    assert tiny.run(tmp_path / "b")["test/loss"] != plain["test/loss"]
    assert tiny.results(tmp_path / "a") == tiny.results(tmp_path / "b")


def test_what_a_record_says_is_so(tmp_path: Path) -> None:
    config = tiny.config()
    summary = tiny.run(tmp_path / "a")
    assert files(tmp_path / "a") == FILES
    assert (summary["status"], summary["epochs"], summary["run_id"]) == ("finished", 3, run_id(config))
    assert json.loads((tmp_path / "a" / "config.json").read_text()) == config.model_dump()

    header, *lines = (tmp_path / "a" / "metrics.csv").read_text().splitlines()
    assert header == "epoch,lr,train/loss,train/acc,val/loss,val/acc"
    assert [line.split(",")[0] for line in lines] == ["1", "2", "3"]
    last = dict(zip(header.split(","), map(float, lines[-1].split(",")), strict=True))
    assert {key: summary[key] for key in last if "/" in key} == {key: value for key, value in last.items() if "/" in key}

    model = initial_model(config, 10)  # the checkpoint is the trained model: it has the test figures that the record claims
    model.load_state_dict(load_file(tmp_path / "a" / "checkpoint.safetensors"))
    splits = data.load(config)
    with torch.no_grad():
        scores = model.eval()(splits.normalized(splits.scaled(splits.test.x)))
    assert summary["test/acc"] == pytest.approx(float((scores.argmax(1) == splits.test.y).double().mean()))
    assert summary["test/loss"] == pytest.approx(float(F.cross_entropy(scores, splits.test.y)), rel=1e-5)


def test_cost_by_hand(tmp_path: Path) -> None:
    """The digits model: 8 px images of one channel, patch 2, so 16 patches and a class token; width 32, two layers, MLP of 128."""
    shape = {"model__embed_dim": 32, "model__depth": 2, "model__num_heads": 4, "model__mlp_ratio": 4}
    cost = tiny.run(tmp_path / "a", **shape, train__epochs=1)["cost"]
    layer = 2 * (32 + 32) + (32 * 96 + 96) + (32 * 32 + 32) + (32 * 128 + 128) + (128 * 32 + 32)
    assert cost["params"] == (4 * 32 + 32) + 32 + 17 * 32 + 2 * layer + (32 + 32) + (32 * 10 + 10)
    assert cost["params_fixed"] == 0
    products = 17 * (32 * 96 + 32 * 32 + 2 * 32 * 128) + 2 * 17 * 17 * 32  # projections and MLP; scores and their mixing
    assert cost["flops_per_image"] == 2 * (16 * 4 * 32 + 2 * products + 32 * 10)
    assert cost["cohort"] == 1
    assert cost["wall_seconds"] >= cost["device_seconds"] > 0
    assert cost["images_per_second"] == pytest.approx(80 / cost["device_seconds"])


def test_a_fixed_table_is_not_learned_and_counted_apart(tmp_path: Path) -> None:
    fixed, none = (tiny.run(tmp_path / kind, model__pos_embed=kind)["cost"] for kind in ("sinusoidal", "none"))
    assert fixed["params"] == none["params"]
    assert (fixed["params_fixed"], none["params_fixed"]) == (17 * 8, 0)


def test_seconds_count_every_session(tmp_path: Path) -> None:
    def slowly(job: int, row: dict[str, float]) -> None:
        time.sleep(0.3)
        if row["epoch"] == 2:
            raise Stop

    with pytest.raises(Stop):
        tiny.run(tmp_path / "a", slowly)
    cost = tiny.run(tmp_path / "a")["cost"]
    assert cost["wall_seconds"] >= cost["device_seconds"]
    assert cost["wall_seconds"] > 0.3  # what passed before the last epoch that was kept


def test_provenance_names_the_code_and_what_it_ran_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/some/where/vit-train", "--data.root", "my pictures"])
    origin = tiny.run(tmp_path / "a")["provenance"]
    assert origin["command"] == "vit-train --data.root 'my pictures'"
    assert torch.__version__.startswith(origin["versions"]["torch"])
    assert origin["versions"]["python"] == sys.version.split()[0]
    assert (origin["hardware"]["device"], origin["hardware"]["threads"]) == ("cpu", 1)
    assert origin["started"] <= origin["finished"]


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        tiny.run(tmp_path / "half", stop_after(1))
    tiny.run(tmp_path / "whole")
    for name in ("half", "whole"):
        before = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        with pytest.raises(record.RecordError, match=f"{name}.* is of another run"):
            tiny.run(tmp_path / name, seed=1)
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == before


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_finished_run_that_was_altered_is_refused(name: str, tmp_path: Path) -> None:
    tiny.run(tmp_path / "a")
    path = tmp_path / "a" / name
    body = bytearray(path.read_bytes())
    body[-3] ^= 1
    path.write_bytes(body)
    with pytest.raises(record.RecordError, match=f"a/{name}"):
        tiny.run(tmp_path / "a")


@pytest.mark.parametrize("spoil", [lambda b: b[:100], lambda b: b"", lambda b: b"x" * 500], ids=["cut", "empty", "junk"])
def test_a_state_that_cannot_be_read_is_refused(spoil: Any, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        tiny.run(tmp_path / "a", stop_after(1))
    path = tmp_path / "a" / RESUME
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(record.RecordError, match=f"a/{RESUME}: cannot be read"):
        tiny.run(tmp_path / "a")


def test_refused_input_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.root"):
        tiny.run(tmp_path / "out" / "a", data__name="cifar10", data__root=str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"data\.train_limit"):
        tiny.run(tmp_path / "out" / "a", data__train_limit=9999)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "gpu", "meta", "cuda:99", "hpu"])
def test_a_device_that_is_not_here_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"device: '{name}' is not here; allowed: auto, cpu"):
        pick_device(name)


def test_the_users_own_images_train(tmp_path: Path) -> None:
    for name, colour in (("red", (250, 0, 0)), ("green", (0, 250, 0))):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(20):
            Image.new("RGB", (12, 10), colour).save(tmp_path / "images" / name / f"{i}.png")
    changes = {
        "data__name": "imagefolder", "data__root": str(tmp_path / "images"), "data__img_size": 8, "data__train_limit": None,
        "optim__lr": 0.02, "train__epochs": 6, "train__batch_size": 8,
    }  # fmt: skip
    summary = tiny.run(tmp_path / "a", **changes)
    assert summary["test/acc"] == 1.0  # red is not green
    shutil.rmtree(tmp_path / "images")
    assert tiny.run(tmp_path / "a", **changes) == summary  # the record outlives the pictures
