"""One run and its record: repeatable, what it says is so, diverged runs kept, the test set touched once."""

import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from PIL import Image
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments import version
from experiments.compared import RunSpec
from experiments.config import RunConfig, override, run_id
from experiments.data import loading
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.provenance import model_cost
from experiments.runs.run import pick_device, train
from experiments.training.trainer import Solo
from vit import ViT, ViTConfig
from vit.registry import REGISTRY

README = Path(__file__).resolve().parents[3] / "experiments" / "README.md"


def test_a_finished_run_is_not_trained_again(tmp_path, monkeypatch):
    first = tiny.run(tmp_path / "a")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    monkeypatch.setattr(loading, "load", lambda config: pytest.fail("looked at the data of a finished run"))
    assert tiny.run(tmp_path / "a") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == stamps


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_run_that_diverges_is_kept_as_diverged(optimiser, tmp_path):
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


def test_an_infinite_gradient_norm_is_recorded_and_does_not_end_a_run(tmp_path, monkeypatch):
    whole = tiny.run(tmp_path / "whole")
    monkeypatch.setattr(Solo, "gradient_norms", lambda self: torch.full((1,), math.inf))
    summary = tiny.run(tmp_path / "a")
    assert (summary["status"], summary["val/loss"]) == ("finished", whole["val/loss"])
    assert [row["train/grad_norm"] for row in record.read_run(tmp_path / "a").rows] == [math.inf] * 3
    assert all(row["train/grad_norm"] > 0 for row in record.read_run(tmp_path / "whole").rows)


def test_without_the_test_set_a_run_is_equal_but_has_no_test_figure(tmp_path, monkeypatch):
    with_test = tiny.run(tmp_path / "a")
    spec, load = RunSpec.of("b", tiny.config()), loading.load

    def other_labels(config):
        splits = load(config)
        splits.test.y.fill_(10**6)  # no class: any use of these labels is an error
        return splits

    monkeypatch.setattr(loading, "load", other_labels)
    (summary,) = train([spec], tmp_path, device="cpu", test=False)
    assert tiny.results(tmp_path / "a") == tiny.results(tmp_path / "b")
    assert (summary["status"], summary["val/acc"]) == ("finished", with_test["val/acc"])
    assert (summary["test/loss"], summary["test/acc"], summary["data"]["test_images"]) == (None, None, 0)
    assert tiny.files(tmp_path / "b") == tiny.FILES - {record.PREDICTIONS}
    assert train([spec], tmp_path, device="cpu", test=False) == [summary]


def test_pruning_does_not_hide_that_a_run_diverged(tmp_path):
    changes = {"optim__lr": 1e30, "optim__name": "sgd", "optim__schedule": "constant"}
    summary = tiny.run(tmp_path / "a", lambda job, row: not math.isfinite(row["train/loss"]), **changes)
    assert summary["status"] == "diverged"


class Watched(loading.Images):
    """Images that count how often they are looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name in ("x", "y"):
            Watched.looks += 1
        return super().__getattribute__(name)

    def to(self, device: torch.device) -> loading.Images:
        return self


def test_the_test_set_is_touched_only_when_training_is_over(tmp_path, monkeypatch):
    splits = loading.load(tiny.config())
    watched = replace(splits, test=Watched(splits.test.x, splits.test.y))
    monkeypatch.setattr(loading, "load", lambda config: watched)
    Watched.looks, counts = 0, []
    assert tiny.run(tmp_path / "a", lambda job, row: counts.append(Watched.looks))["test/acc"] is not None
    assert counts == [0, 0, 0]
    assert Watched.looks > 0


def test_what_a_record_says_is_so(tmp_path):
    config = tiny.config()
    summary = tiny.run(tmp_path / "a")
    assert tiny.files(tmp_path / "a") == tiny.FILES
    assert (summary["status"], summary["epochs"], summary["run_id"]) == ("finished", 3, run_id(config))
    assert json.loads((tmp_path / "a" / "config.json").read_text()) == config.model_dump()

    header, *lines = (tmp_path / "a" / "metrics.csv").read_text().splitlines()
    assert header == "epoch,lr,train/loss,train/acc,val/loss,val/acc,train/grad_norm"
    assert [line.split(",")[0] for line in lines] == ["1", "2", "3"]
    last = dict(zip(header.split(","), map(float, lines[-1].split(",")), strict=True))
    assert {key: summary[key] for key in last if "/" in key} == {
        key: value for key, value in last.items() if "/" in key
    }

    splits = loading.load(config)
    sizes = {"train_images": len(splits.train.y), "val_images": len(splits.val.y), "test_images": len(splits.test.y)}
    moments = {"mean": splits.mean.tolist(), "std": splits.std.tolist()}
    assert summary["data"] == {**sizes, **moments, "classes": [str(digit) for digit in range(10)]}


def test_cost_by_hand(tmp_path):
    """The digits model: 8 px, one channel, patch 2: 16 patches and a class token; width 32, two layers, MLP of 128."""
    shape = {"model__embed_dim": 32, "model__depth": 2, "model__num_heads": 4, "model__mlp_ratio": 4}
    cost = tiny.run(tmp_path / "a", **shape, train__epochs=1)["cost"]
    layer = 2 * (32 + 32) + (32 * 96 + 96) + (32 * 32 + 32) + (32 * 128 + 128) + (128 * 32 + 32)
    assert cost["params"] == (4 * 32 + 32) + 32 + 17 * 32 + 2 * layer + (32 + 32) + (32 * 10 + 10)
    assert cost["params_fixed"] == 0
    # projections and MLP; scores and their mixing
    products = 17 * (32 * 96 + 32 * 32 + 2 * 32 * 128) + 2 * 17 * 17 * 32
    assert cost["flops_per_image"] == 2 * (16 * 4 * 32 + 2 * products + 32 * 10)
    assert cost["cohort"] == 1
    assert cost["wall_seconds"] >= cost["device_seconds"] > 0
    assert cost["images_per_second"] == pytest.approx(80 / cost["device_seconds"])


def test_provenance_names_the_code_and_what_it_ran_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/some/where/vit-train", "--data.root", "my pictures"])
    origin = tiny.run(tmp_path / "a")["provenance"]
    assert origin["command"] == "vit-train --data.root 'my pictures'"
    assert torch.__version__.startswith(origin["versions"]["torch"])
    assert origin["versions"]["python"] == sys.version.split()[0]
    assert (origin["hardware"]["device"], origin["hardware"]["threads"]) == ("cpu", 1)
    assert origin["started"] <= origin["finished"]


def test_another_run_in_the_folder_is_refused(tmp_path):
    tiny.cut(tmp_path / "half", 1)
    tiny.run(tmp_path / "whole")
    for name in ("half", "whole"):
        before = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        with pytest.raises(record.RecordError, match=f"{name}.* belongs to run"):
            tiny.run(tmp_path / name, seed=1)
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == before


@pytest.mark.parametrize("name", ["", "gpu", "meta", "cuda:99", "hpu"])
def test_a_device_that_is_not_here_is_refused(name):
    with pytest.raises(UserError, match=f"device: '{name}' is not available; allowed: auto, cpu"):
        pick_device(name)


def test_the_users_own_images_train(tmp_path):
    for name, colour in (("red", (250, 0, 0)), ("green", (0, 250, 0))):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(20):
            Image.new("RGB", (12, 10), colour).save(tmp_path / "images" / name / f"{i}.png")
    data = {"name": "imagefolder", "root": str(tmp_path / "images"), "img_size": 8, "train_limit": None}
    changes = {f"data__{name}": value for name, value in data.items()} | {"optim__lr": 0.02, "train__batch_size": 8}
    changes["train__epochs"] = 6
    summary = tiny.run(tmp_path / "a", **changes)
    assert summary["test/acc"] == 1.0  # red is not green
    tiny.cut(tmp_path / "b", 3, **changes)
    moved = {**changes, "data__root": str(tmp_path / "disk" / "images")}
    shutil.move(tmp_path / "images", tmp_path / "disk" / "images")
    assert tiny.run(tmp_path / "b", **moved)["test/acc"] == 1.0  # it goes on where the images are now
    assert (tmp_path / "a" / record.METRICS).read_bytes() == (tmp_path / "b" / record.METRICS).read_bytes()
    assert tiny.run(tmp_path / "a", **changes) == summary  # the record outlives the pictures


def test_the_calls_that_the_readme_lists_are_those_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listing = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)[1]
    assert len(listing.splitlines()) <= 40
    exec(listing, {})
    config = override(RunConfig(), {"model.pos_embed": "rope-2d", "train.epochs": 2})
    train([RunSpec.of("a", config)], tmp_path, device="cpu")
    assert tiny.results(tmp_path / "a") == tiny.results(tmp_path / "runs" / "my-run")
    assert tiny.files(tmp_path / "a") == tiny.files(tmp_path / "runs" / "my-run")
    mine, listed = (record.read_summary(tmp_path / name) for name in ("a", "runs/my-run"))
    for summary in (mine, listed):
        del summary["cost"], summary["provenance"], summary["digest"]  # with times
    assert mine == listed


def test_uncommitted_changes_are_kept_beside_the_record(tmp_path, monkeypatch):
    checkout = tmp_path / "project"
    (checkout / "experiments").mkdir(parents=True)
    file = checkout / "experiments" / "version.py"
    file.write_text("one\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(version, "__file__", str(file))
    version._git.cache_clear()
    tiny.run(tmp_path / "clean")
    assert not (tmp_path / "clean" / record.DIFF).exists()

    file.write_text("two\n")
    version._git.cache_clear()
    tiny.run(tmp_path / "changed")
    diff = (tmp_path / "changed" / record.DIFF).read_text()
    assert "-one\n+two\n" in diff
    applied = subprocess.run([*git, "apply", "--reverse"], input=diff, text=True, cwd=checkout)
    assert applied.returncode == 0 and file.read_text() == "one\n"
    assert record.DIFF in record.read_run(tmp_path / "changed").summary["files"]

    version._git.cache_clear()


PARTS = [{"pos_embed": kind} for kind in REGISTRY]
PARTS += [{"stem": "conv"}, {"attn": "sliced", "head": "mlp"}, {"pool": "map", "mlp": "swiglu"}, {"qk_norm": True}]


@pytest.mark.parametrize("changes", PARTS, ids=lambda changes: "-".join(map(str, changes.values())))
def test_flops_are_those_that_torch_counts(changes):
    model = ViT(ViTConfig(img_size=16, patch_size=4, embed_dim=24, depth=3, num_heads=3, num_classes=7, **changes))
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # not fused: counted
        model.eval()(torch.zeros(1, 3, 16, 16))
    assert model_cost(model)["flops_per_image"] == counter.get_total_flops() > 0
