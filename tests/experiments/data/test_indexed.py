"""Datasets by a class of torchvision, and by a user's own function: against the arrays that their files hold."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from commands import refusal
from PIL import Image
from scipy.io import savemat
from torchvision import datasets

from experiments.catalogue import DATASETS, register_dataset
from experiments.config import RunConfig, override, run_id
from experiments.data import loading
from experiments.data.images import Splits
from experiments.errors import UserError
from experiments.runs import record
from vit.plugins import Source, digest, import_plugin

ROOT = Path(__file__).resolve().parents[3]
RANDOM = np.random.default_rng(0)


def load(name: str, root: Path | str = "data", side: int = 32, **changes: Any) -> Splits:
    settings = {"data.name": name, "data.root": str(root), "data.img_size": side, "data.val_fraction": 0.25}
    return loading.load(
        override(RunConfig(), {**settings, **{f"data.{name}": value for name, value in changes.items()}})
    )


def sizes(splits: Splits) -> list[int]:
    return [len(part) for part in (splits.train, splits.val, splits.test)]


class Noise(datasets.FakeData):
    """60 images of 12 x 12 pixels in 3 classes, without a test part."""

    def __init__(self, root="data", download=False):
        super().__init__(60, (3, 12, 12), 3)
        self.classes = ["ant", "bee", "cow"]
        if download:
            raise OSError("no network")


@pytest.fixture
def noise(monkeypatch):
    monkeypatch.setattr(datasets, "FakeData", Noise)
    return Noise()


def test_a_class_without_a_test_part_gives_part_of_its_images(noise):
    splits = load("torchvision:FakeData", side=12, test_fraction=0.2)
    assert sizes(splits) == [36, 12, 12]
    assert splits.classes == ("ant", "bee", "cow") and splits.train.x.shape[1:] == (3, 12, 12)
    expected = sorted((np.asarray(image).transpose(2, 0, 1).tobytes(), int(label)) for image, label in noise)
    parts = (splits.train, splits.val, splits.test)
    found = [(x.numpy().tobytes(), y) for part in parts for x, y in zip(part.x, part.y.tolist(), strict=True)]
    assert sorted(found) == expected


def test_svhn(tmp_path, monkeypatch):
    """Its files hold [H, W, C, N], and 10 for the digit 0."""
    monkeypatch.setattr(datasets.SVHN, "_check_integrity", lambda self: True)
    pixels, labels = {}, {}
    for part, count in (("train", 40), ("test", 20)):
        pixels[part] = RANDOM.integers(0, 255, (count, 32, 32, 3), dtype=np.uint8)
        labels[part] = np.arange(count) % 10
        body = {"X": pixels[part].transpose(1, 2, 3, 0), "y": np.where(labels[part] == 0, 10, labels[part])[:, None]}
        savemat(tmp_path / f"{part}_32x32.mat", body)
    splits = load("torchvision:SVHN", tmp_path)
    assert sizes(splits) == [30, 10, 20] and splits.classes == tuple(map(str, range(10)))
    assert np.array_equal(splits.test.x.permute(0, 2, 3, 1).numpy(), pixels["test"])
    assert splits.test.y.tolist() == labels["test"].tolist()


def test_an_unknown_class_is_one_line():
    line = "data.name: 'torchvision:SVHM' is not a class of torchvision.datasets; did you mean 'SVHN'?"
    assert refusal(load, "torchvision:SVHM").startswith(line)


@pytest.fixture
def plugged(monkeypatch):
    """Register a function, for the test only."""
    monkeypatch.setattr(DATASETS, "data", dict(DATASETS.data))
    return lambda read, name="mine": register_dataset(name)(read)


COLOURS = RANDOM.integers(0, 255, (24, 10, 10, 3), dtype=np.uint8)
NAMES = ["cat", "dog", "cow"] * 8


def test_a_function_of_the_user_gives_images_and_names(plugged):
    roots = []

    @plugged
    def read(root):
        roots.append(root)
        test = [Image.fromarray(image) for image in COLOURS[:6]], NAMES[:6]
        return (torch.from_numpy(COLOURS), NAMES), test

    splits = load("mine", "somewhere", side=10)
    assert roots == ["somewhere"] and sizes(splits) == [18, 6, 6]
    assert splits.classes == ("cat", "cow", "dog")
    assert np.array_equal(splits.test.x.permute(0, 2, 3, 1).numpy(), COLOURS[:6])
    assert [splits.classes[label] for label in splits.test.y] == NAMES[:6]
    assert sizes(load("mine", side=10, classes="cat,dog")) == [12, 4, 4]


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (lambda root: Path(root, "a.csv").read_text(), "data.name: 'mine': <lambda>('no'): FileNotFoundError: "),
        (lambda root: ((COLOURS, [[1], [1, 2]] * 12), None), "data.name: 'mine': train: the labels: ValueError: set"),
        (lambda root: ((COLOURS, NAMES[1:]), None), "data.name: 'mine': train: 24 images and labels [23] of type <U3"),
        (lambda root: ((COLOURS, [1] * 24), None), "data.name: 'mine' has 1 class(es); two are needed"),
        (
            lambda root: ((COLOURS / 255, NAMES), None),
            "data.name: 'mine': image 0 of train cannot be read: an array of float64, [10, 10, 3] is not allowed: exp",
        ),
    ],
)
def test_a_function_that_cannot_be_used_is_one_line(read, line, plugged):
    plugged(read)
    assert refusal(load, "mine", "no", side=10).startswith(line)


@pytest.mark.parametrize("known", [[0, 1, 2], ["a", "b", "c"]], ids=str)
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (-1, "missing"),
        (None, "of type object"),
        (math.nan, "missing"),
        (255, "test has the class 255 (1 images), which train lacks"),
        ("eel", "test has the class eel (1 images), which train lacks"),
    ],
    ids=repr,
)
def test_a_label_that_is_no_class_of_train_does_not_become_one(other, reason, known, plugged):
    if isinstance(known[0], str) and other in (-1, 255):
        reason = f"test has the class {other} (1 images)"  # the text is a name
    if isinstance(known[0], int) and isinstance(other, float):
        reason = "of type float64"
    labels = known * 8
    plugged(lambda root: ((COLOURS, labels), (COLOURS, [labels[0], other, *labels[2:]])))
    assert reason in refusal(load, "mine", side=10)


def test_a_class_that_cannot_be_read_names_the_way_to_its_files(noise, tmp_path):
    with pytest.raises(UserError, match=r"^data\.root: .*FakeData as torchvision stores them \(no network\)$"):
        load("torchvision:FakeData", tmp_path, download=True)
    fetch = f"`vit-train data --data.name torchvision:MNIST --data.root {tmp_path} --data.download true` downloads them"
    with pytest.raises(UserError, match=rf"^data\.root: .*; {fetch}$"):
        load("torchvision:MNIST", tmp_path)


def test_other_images_in_the_place_of_a_runs_own_are_noticed(plugged, tmp_path):
    """Of equal number and labels: when a run is resumed, and when a finished run is asked for again."""
    images = {"a": COLOURS, "b": COLOURS[::-1].copy(), "c": COLOURS}
    plugged(lambda root: ((images[Path(root).name], [0, 1, 2] * 8), None))
    for name in images:
        (tmp_path / name).mkdir()
    data = {"data__name": "mine", "data__img_size": 8, "data__train_limit": None, "data__val_fraction": 0.25}
    tiny.run(tmp_path / "done", **data, data__root=str(tmp_path / "a"))
    tiny.run(tmp_path / "done", **data, data__root=str(tmp_path / "c"))  # the same images elsewhere
    with pytest.raises(UserError, match=r"^data\.root: the files of '.*b' are not those of the run in"):
        tiny.run(tmp_path / "done", **data, data__root=str(tmp_path / "b"))
    tiny.cut(tmp_path / "cut", 1, **data, data__root=str(tmp_path / "a"))
    with pytest.raises(UserError, match=r"its files were changed after epoch 1 of .*; restore them to resume"):
        tiny.run(tmp_path / "cut", **data, data__root=str(tmp_path / "b"))
    sides = [load("mine", tmp_path / name, side).files for name, side in (("a", 8), ("a", 10), ("b", 8))]
    assert sides[0] == sides[1] != sides[2]  # the size that they are resized to does not count


def test_a_name_is_taken_once(plugged):
    plugged(lambda root: ((COLOURS, NAMES), None))
    for name in ("mine", "digits", "a/b"):
        with pytest.raises(ValueError, match="the name is taken or not allowed"):
            plugged(lambda root: ((COLOURS, NAMES), None), name)


PLUGIN = """
import numpy as np
from experiments import register_dataset

@register_dataset("mine")
def load(root):
    images = np.fromfile(f"{root}/images", dtype=np.uint8).reshape(-1, 10, 10, 3)
    return (images, ["cat", "dog", "cow"] * 8), None
"""


def test_the_record_holds_the_source_of_a_function(tmp_path, monkeypatch):
    """Another source is another run."""
    monkeypatch.setattr(DATASETS, "data", dict(DATASETS.data))
    (tmp_path / "images").write_bytes(COLOURS.tobytes())
    (tmp_path / "my_data.py").write_text(PLUGIN)
    import_plugin(str(tmp_path / "my_data.py"))
    data = {"data__name": "mine", "data__root": str(tmp_path), "data__img_size": 8, "data__train_limit": None}
    summary = tiny.run(tmp_path / "a", **data, data__val_fraction=0.25)
    assert summary["provenance"]["data_plugin"]["digest"] == digest({"my_data.py": PLUGIN.encode()})
    assert (tmp_path / "a" / record.DATA_PLUGIN / "my_data.py").read_text() == PLUGIN
    other = replace(DATASETS["mine"], plugin=Source("my_data", tmp_path, {"my_data.py": b"another"}))
    DATASETS["mine"] = other
    assert run_id(tiny.config(**data, data__val_fraction=0.25)) != summary["run_id"]
