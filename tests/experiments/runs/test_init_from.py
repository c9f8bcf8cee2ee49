"""Runs that start from another run's weights: against that run's own metrics, checkpoint and evaluation at other
sizes.
"""

import hashlib
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from PIL import Image
from safetensors.torch import load_file

from experiments.config import override, run_id
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import train
from experiments.study import RunSpec
from sweeps.plan import make_plan
from sweeps.study import Study
from sweeps.study_folder import plan_of, write_plan
from vit.plugins import Source
from vit.pos_embed import Additive
from vit.registry import REGISTRY, Kind

STILL = {"optim__lr": 1e-300, "optim__warmup_epochs": 0, "train__epochs": 1}  # a training that changes no weight
KINDS = sorted(name for name, kind in REGISTRY.items() if not kind.is_plugin)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / record.CHECKPOINT)


def source(tmp_path: Path, **changes: Any) -> str:
    """The folder of a finished run."""
    tiny.run(tmp_path / "source", **{"train__epochs": 2, **changes})
    return str(tmp_path / "source")


@pytest.mark.parametrize("kind", ["learned-1d", "frozen-random", "rel-bias-2d"])
def test_at_the_same_size_the_run_starts_with_the_weights_and_metrics_of_its_source(kind, tmp_path):
    before = tiny.run(tmp_path / "source", model__pos_embed=kind)
    after = tiny.run(tmp_path / "a", init_from=str(tmp_path / "source"), model__pos_embed=kind, seed=7, **STILL)
    metrics = ("val/loss", "val/acc", "test/loss", "test/acc")
    assert {name: after[name] for name in metrics} == {name: before[name] for name in metrics}
    expected, found = weights(tmp_path / "source"), weights(tmp_path / "a")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("side", [4, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_at_another_size_the_run_starts_where_eval_img_sizes_evaluates_its_source(kind, side, tmp_path):
    changes = {"model__pos_embed": kind, "data__normalize": "half"}
    before = tiny.run(tmp_path / "source", eval__img_sizes=side, train__epochs=1, optim__warmup_epochs=0, **changes)
    after = tiny.run(tmp_path / "a", init_from=str(tmp_path / "source"), data__img_size=side, **{**changes, **STILL})
    for name in ("val/loss", "val/acc", "test/loss", "test/acc"):
        assert after[name] == before[f"{name}@{side}px"]


def test_the_optimiser_and_the_schedule_are_new(tmp_path):
    """A run that starts from a copy of its own initial weights is that run."""
    initial = {**STILL, "model__pos_embed": "learned-1d"}
    tiny.run(tmp_path / "initial", **initial)
    tiny.run(tmp_path / "a")
    tiny.run(tmp_path / "b", init_from=str(tmp_path / "initial"))
    assert (tmp_path / "a" / record.METRICS).read_bytes() == (tmp_path / "b" / record.METRICS).read_bytes()
    assert all(torch.equal(t, weights(tmp_path / "b")[name]) for name, t in weights(tmp_path / "a").items())


@pytest.mark.parametrize(("head", "last"), [("logits", "head.0"), ("mlp", "head.2")])
def test_another_number_of_classes_gets_a_last_layer_of_zeros(head, last, tmp_path):
    folder = source(tmp_path, model__head=head)
    # four classes, not ten
    summary = tiny.run(tmp_path / "a", init_from=folder, data__name="probe-direction", model__head=head, **STILL)
    assert summary["val/loss"] == pytest.approx(math.log(4), abs=1e-6)
    expected, found = weights(tmp_path / "source"), weights(tmp_path / "a")
    assert torch.equal(found[f"{last}.weight"], torch.zeros(4, 8))
    assert torch.equal(found[f"{last}.bias"], torch.zeros(4))
    others = [name for name in expected if not name.startswith(last)]
    assert all(torch.equal(found[name], expected[name]) for name in others)
    trained = tiny.run(tmp_path / "b", init_from=folder, data__name="probe-direction", model__head=head)
    assert trained["init"]["new_head"] is True
    assert weights(tmp_path / "b")[f"{last}.weight"].any()


def test_members_of_a_cohort_start_from_the_source(tmp_path):
    changes = {"init_from": source(tmp_path), "train__precision": "float64", "data__img_size": 12}
    configs = [tiny.config(**changes, seed=seed) for seed in (0, 1)]
    stacked = train([RunSpec.of(f"s{config.seed}", config) for config in configs], tmp_path / "stack", device="cpu")
    for config, together in zip(configs, stacked, strict=True):
        (alone,) = train([RunSpec.of("a", config)], tmp_path / str(config.seed), device="cpu")
        assert together["cost"]["cohort"] == 2
        assert together["init"] == alone["init"]
        for name in ("train/loss", "val/loss", "test/loss"):
            assert together[name] == pytest.approx(alone[name], abs=1e-9)


def test_the_weights_are_part_of_the_run_id_and_the_folder_is_not(tmp_path):
    folder, scratch = source(tmp_path), tiny.config()
    tiny.run(tmp_path / "other", seed=1)
    shutil.copytree(folder, tmp_path / "copy")
    first, copy, other = (tiny.config(init_from=str(tmp_path / name)) for name in ("source", "copy", "other"))
    assert run_id(first) == run_id(copy)
    assert len({run_id(scratch), run_id(first), run_id(other)}) == 3
    assert override(first, {"init-from": other.init_from}) == other  # another source replaces the weights
    assert override(first, {"init_from": "none"}) == scratch
    assert override(first, {"seed": 3}).init_weights == first.init_weights


def test_the_record_names_the_source_and_its_weights(tmp_path):
    folder = source(tmp_path)
    before = record.read_summary(Path(folder))
    tiny.run(tmp_path / "a", init_from=folder, data__img_size=16)
    found = record.read_run(tmp_path / "a")
    digest = hashlib.sha256((tmp_path / "source" / record.CHECKPOINT).read_bytes()).hexdigest()
    assert found.config["init_weights"] == digest == found.summary["init"]["weights"]
    assert found.summary["init"]["run_id"] == before["run_id"]
    assert found.summary["init"]["img_size"] == 8
    assert found.summary["init"]["new_head"] is False
    assert "init" not in before


@pytest.mark.parametrize("epoch", [1, 3])
def test_after_an_interruption_the_source_is_no_longer_needed(epoch, tmp_path):
    changes = {"init_from": source(tmp_path), "data__img_size": 12}
    whole, config = tiny.run(tmp_path / "whole", **changes), tiny.config(**changes)
    run = [RunSpec.of("cut", config)]
    with pytest.raises(tiny.Stop):
        train(run, tmp_path, device="cpu", on_row=tiny.stop_after(epoch))
    shutil.move(tmp_path / "source", tmp_path / "moved")
    (again,) = train(run, tmp_path, device="cpu")
    assert tiny.results(tmp_path / "cut") == tiny.results(tmp_path / "whole")
    assert again["init"] == whole["init"]


def refused(tmp_path: Path, **changes: Any) -> str:
    """The message with which a run is refused; nothing is written."""
    with pytest.raises(UserError) as error:
        tiny.run(tmp_path / "refused", **changes)
    assert not (tmp_path / "refused").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__depth": 2, "model__embed_dim": 16}, ["model.embed_dim: 16", "model.embed_dim=8 model.depth=1"]),
        ({"data__split_seed": 1}, ["data.split_seed: 1", "digits split with 0", "allowed: 0"]),
        ({"data__split_seed": "per-seed", "seed": 2}, ["data.split_seed: 2", "allowed: 0"]),
        ({"data__classes": "1,2"}, ["data.classes: 1,2", 'digits split with ""', 'allowed: ""']),
        ({"data__val_fraction": 0.2}, ["data.val_fraction: 0.2", "allowed: 0.1"]),
        ({"init_weights": "abc"}, ["init_weights: 'abc' is not allowed"]),
        ({"init_from": "nowhere"}, ["init_from: 'nowhere' does not exist"]),
        ({"init_from": "x" * 5000}, ["init_from: 'xxx", "does not exist"]),
        ({"init_from": "none", "init_weights": "0" * 64}, ["init_weights: '0000", "without init_from"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_settings_that_cannot_start_from_the_source_are_refused(changes, words, tmp_path):
    line = refused(tmp_path, **{"init_from": source(tmp_path), **changes})
    assert "\n" not in line and [word for word in words if word not in line] == []


def test_unfinished_diverged_pruned_and_changed_sources_are_refused(tmp_path):
    tiny.cut(tmp_path / "cut", 1)
    assert "holds no checkpoint.safetensors" in refused(tmp_path, init_from=str(tmp_path / "cut"))
    folder = Path(source(tmp_path))
    (folder / record.SUMMARY).rename(tmp_path / "summary")
    assert "is not finished: it has no summary.json" in refused(tmp_path, init_from=str(folder))
    (tmp_path / "summary").rename(folder / record.SUMMARY)
    diverged = {"optim__lr": 1e30, "optim__name": "sgd", "optim__schedule": "constant"}
    tiny.run(tmp_path / "diverged", **diverged)
    assert "has the status diverged; allowed: finished" in refused(tmp_path, init_from=str(tmp_path / "diverged"))
    tiny.run(tmp_path / "pruned", lambda job, row: row["epoch"] == 2)
    assert "has the status pruned; allowed: finished" in refused(tmp_path, init_from=str(tmp_path / "pruned"))
    planned = tiny.config(init_from=str(folder))
    shutil.rmtree(folder)
    tiny.run(folder, seed=5)
    with pytest.raises(UserError, match="not init_weights, "):
        train([RunSpec.of("a", planned)], tmp_path, device="cpu")
    with (folder / record.CHECKPOINT).open("ab") as file:
        file.write(b"x")
    assert "does not match the digest" in refused(tmp_path, init_from=str(folder))


def test_images_that_an_earlier_source_was_trained_on_do_not_become_test_images(tmp_path):
    """digits, then a probe, then digits with another split: the first run has seen its test images."""
    folder = source(tmp_path)
    tiny.run(tmp_path / "probe", init_from=folder, data__name="probe-direction", data__split_seed=1)
    second = {"init_from": str(tmp_path / "probe"), "data__split_seed": 1}
    message = refused(tmp_path, **second)
    assert message.startswith("data.split_seed: 1 is not allowed") and "allowed: 0" in message
    tiny.run(tmp_path / "a", **{**second, "data__split_seed": 0})
    names = [seen["name"] for seen in record.read_summary(tmp_path / "a")["init"]["seen"]]
    assert names == ["probe-direction", "digits"]


def test_images_of_a_few_shot_evaluation_were_not_trained_on(tmp_path):
    folder = source(tmp_path)
    changes = {"init_from": folder, "data__split_seed": 1, "data__name": "probe-direction"}
    tiny.run(tmp_path / "a", **changes)
    assert "data.split_seed: 1" in refused(tmp_path, **changes, eval__fewshot="digits", eval__shots="1")


OF_FOLDER = {
    "data__name": "imagefolder", "data__img_size": 8, "data__train_limit": "none", "data__val_fraction": 0.2
}  # fmt: skip


@pytest.fixture
def images(tmp_path):
    """A folder of colour images of two classes."""
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


def test_another_number_of_channels_is_refused(tmp_path, images):
    message = refused(tmp_path, init_from=source(tmp_path), data__root=str(images), **OF_FOLDER)
    assert message.startswith("data.name: imagefolder has 3 channel(s)") and "datasets with 1" in message


def test_image_folders_are_the_same_data_by_their_files(tmp_path, images):
    again = {**OF_FOLDER, "init_from": source(tmp_path, data__root=str(images), **OF_FOLDER)}
    shutil.copytree(images, tmp_path / "copy")
    message = refused(tmp_path, **again, data__root=str(tmp_path / "copy"), data__split_seed=1)
    assert message.startswith("data.split_seed: 1 is not allowed")
    (images / "a" / "0.png").unlink()
    message = refused(tmp_path, **again, data__root=str(images))
    assert message.startswith("data.root: the files of ")
    tiny.run(tmp_path / "a", **again, data__root=str(tmp_path / "copy"))


def test_weights_of_a_plugin_whose_source_was_changed_are_refused(tmp_path, monkeypatch):
    class Shift(Additive):
        def add(self, x):
            return x + 1

    def saved(text):
        return Kind(Shift, ("stem",), plugin=Source("mine", tmp_path, {"mine.py": text}))

    monkeypatch.setitem(REGISTRY.data, "mine", saved(b"x + 1"))
    folder = source(tmp_path, model__pos_embed="mine")
    tiny.run(tmp_path / "same", init_from=folder, model__pos_embed="mine")
    monkeypatch.setitem(REGISTRY.data, "mine", saved(b"x + 2"))
    message = refused(tmp_path, init_from=folder, model__pos_embed="mine")
    assert message.startswith(
        f"model.pos_embed: the source of the plug-in 'mine' was changed after {folder} was trained"
    )


def test_a_source_with_other_weights_than_a_study_was_planned_with_is_named(tmp_path):
    folder = source(tmp_path)
    study = Study(name="fine", factors={"init_from": [None, folder]}, base=tiny.settings(), seeds=1)
    write_plan(make_plan(study), tmp_path / "fine", "vit-sweep run")
    shutil.rmtree(folder)
    tiny.run(Path(folder), seed=5)
    with pytest.raises(UserError, match=f"the weights in '{folder}' were changed; restore them"):
        plan_of(tmp_path / "fine")


@pytest.mark.parametrize(
    ("factors", "more", "said"),
    [
        ({"model.head": ["logits", "mlp"]}, {}, "variant 'mlp': model.head: mlp is not allowed with the weights of"),
        ({"model.head": ["logits"]}, {"data.split_seed": "per-seed"}, "variant 'logits': data.split_seed: 1 is not"),
        ({"data.test_fraction": [0.2, 0.3]}, {}, "variant '0.3': data.test_fraction: 0.3 is not allowed"),
    ],
)
def test_a_sweep_with_a_variant_that_cannot_start_from_the_source_is_refused_before_it_trains(
    factors, more, said, tmp_path
):
    study = Study(name="fine", factors=factors, base={**tiny.settings(), **more}, seeds=2)
    with pytest.raises(UserError) as error:
        make_plan(study, changes={"init_from": source(tmp_path)})
    assert said in str(error.value)
