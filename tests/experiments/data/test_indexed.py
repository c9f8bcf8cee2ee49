"""Datasets by a class of torchvision, and by a user's own function: against the arrays that their files hold."""

import gzip
import math
import struct
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import commands
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from commands import refusal
from PIL import Image
from scipy.io import savemat
from torchvision import datasets

from experiments.catalogue import DATASETS, register_dataset
from experiments.config import RunConfig, override
from experiments.data import loading, streaming
from experiments.data.images import Splits
from experiments.errors import UserError
from experiments.main import main
from experiments.runs import record
from vit.plugins import digest

ROOT = Path(__file__).resolve().parents[3]
RANDOM = np.random.default_rng(0)


def load(name: str, root: Path | str = "data", side: int = 32, **changes: Any) -> Splits:
    settings = {"data.name": name, "data.root": str(root), "data.img_size": side, "data.val_fraction": 0.25}
    return loading.load(
        override(RunConfig(), {**settings, **{f"data.{name}": value for name, value in changes.items()}})
    )


def sizes(splits: Splits) -> list[int]:
    return [len(part) for part in (splits.train, splits.val, splits.test)]


@pytest.fixture
def fake(monkeypatch):
    """FakeData with 60 images of 12 x 12 pixels in 3 classes."""
    monkeypatch.setattr(datasets.FakeData.__init__, "__defaults__", (60, (3, 12, 12), 3, None, None, 0))
    return datasets.FakeData()


def test_a_class_without_a_test_part_gives_part_of_its_images(fake):
    splits = load("torchvision:FakeData", side=12, test_fraction=0.2)
    assert sizes(splits) == [36, 12, 12]
    assert splits.classes == ("0", "1", "2") and splits.train.x.shape[1:] == (3, 12, 12)
    expected = sorted((np.asarray(image).transpose(2, 0, 1).tobytes(), int(label)) for image, label in fake)
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


def test_fashion_mnist_is_the_dataset_of_the_catalogue_in_three_channels(tmp_path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 80), ("t10k", 20)):
        body = struct.pack(">IIII", 0x803, count, 28, 28) + RANDOM.bytes(count * 784)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(body)
        labels = bytes(number % 10 for number in range(count))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
        for kind in ("images-idx3", "labels-idx1"):  # as torchvision downloads them
            file = raw / f"{part}-{kind}-ubyte"
            (raw / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    known, splits = load("fashion-mnist", tmp_path, side=28), load("torchvision:FashionMNIST", tmp_path, side=28)
    assert splits.classes == known.classes and splits.classes[9] == "Ankle boot"
    for name in ("train", "val", "test"):
        ours, theirs = getattr(splits, name), getattr(known, name)
        assert torch.equal(ours.x, theirs.x.expand(-1, 3, -1, -1)) and torch.equal(ours.y, theirs.y)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "torchvision:SVHM",
            "data.name: 'torchvision:SVHM' is not a class of torchvision.datasets; did you mean 'SVHN'?",
        ),
        (
            "torchvision:Kinetics",
            "data.name: 'torchvision:Kinetics' needs frames_per_clip; allowed: classes that need only",
        ),
        ("torchvision:EMNIST", "data.name: 'torchvision:EMNIST' has no split named train: Unknown value 'train'"),
        (
            "torchvision:VisionDataset",
            "data.name: 'torchvision:VisionDataset' does not yield images and labels: NotImp",
        ),
        ("torchvision:SVHN", "data.root: 'no' does not hold the files of torchvision:SVHN"),
        ("torchvision", "data.name: 'torchvision' is not known; allowed: digits, "),
    ],
)
def test_a_class_that_cannot_be_used_is_one_line(name, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(load, name, "no").startswith(line)


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


def test_images_of_several_sizes_are_resized_and_cropped(plugged):
    wide = np.zeros((12, 8, 24), np.uint8)
    wide[:, :, 8:16] = 200  # the centre
    plugged(lambda root: ((list(wide), [0, 1] * 6), None))
    splits = load("mine", side=8)
    assert sizes(splits) == [6, 3, 3] and bool((splits.train.x == 200).all())


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (lambda root: Path(root, "a.csv").read_text(), "data.name: 'mine': <lambda>('no'): FileNotFoundError: "),
        (lambda root: ((COLOURS, [[1], [1, 2]] * 12), None), "data.name: 'mine': the labels of train: ValueError: set"),
        (lambda root: (None, (COLOURS, NAMES)), "data.name: 'mine': <lambda>('no') returns for train a NoneType; exp"),
        (lambda root: None, "data.name: 'mine': <lambda>('no') returns a NoneType; expected (train, test), each of"),
        (
            lambda root: ((COLOURS, NAMES),),
            "data.name: 'mine': <lambda>('no') returns a tuple of 1; expected (train, t",
        ),
        (lambda root: ((COLOURS, NAMES),) * 3, "data.name: 'mine': <lambda>('no') returns a tuple of 3; expected (tra"),
        (lambda root: [*zip(COLOURS, NAMES)], "data.name: 'mine': <lambda>('no') returns a list of 24; expected (trai"),
        (
            lambda root: (COLOURS, NAMES),
            "data.name: 'mine': <lambda>('no') returns for train a ndarray of 24; expected",
        ),
        (
            lambda root: {"train": (COLOURS, NAMES), "test": (COLOURS, NAMES)},
            "data.name: 'mine': <lambda>('no') returns a dict of 2; expected (train, test), each of them (images, lab",
        ),
        (
            lambda root: ({"image": COLOURS, "label": NAMES}, None),
            "data.name: 'mine': <lambda>('no') returns for train a dict of 2; expected",
        ),
        (
            lambda root: ([*zip(COLOURS, NAMES)], None),
            "data.name: 'mine': <lambda>('no') returns for train a list of 24; expected",
        ),
        (lambda root: ((COLOURS, NAMES[1:]), None), "data.name: 'mine' has 24 images and labels [23] of type <U3"),
        (
            lambda root: ((COLOURS, np.eye(3)[[0, 1, 2] * 8]), None),
            "data.name: 'mine' has 24 images and labels [24, 3] of",
        ),
        (
            lambda root: ((COLOURS, None), None),
            "data.name: 'mine': 24 of the 24 labels of train are missing: none, NaN",
        ),
        (lambda root: ((COLOURS, [0.5] * 24), None), "data.name: 'mine' has 24 images and labels [24] of type float64"),
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


NONE = [-1, None, math.nan, pd.NA, pd.NaT, "", "-1", "nan"]  # "nan": np.array(["cat", math.nan])
WORDS = [" ", "NaN", "NAN", "n/A", "NULL ", "<na>", "#n/a", "nat", "None", "\tna"]  # as pandas reads them, in any case
FOREIGN = [255, 3, "eel"]


@pytest.mark.parametrize("known", [[0, 1, 2], [10, 20, 30], ["a", "b", "c"]], ids=str)
@pytest.mark.parametrize(
    ("other", "reason"),
    [(none, ": 1 of the 24 labels of test are missing: ") for none in NONE]
    + [(label, f": test has the class {label} (1 images), which train lacks") for label in FOREIGN],
    ids=repr,
)
def test_a_label_that_is_no_class_of_train_does_not_become_one(other, reason, known, plugged):
    """By its number where it says that there is none, else by its name, in the second of 24 test images."""
    labels = known * 8
    plugged(lambda root: ((COLOURS, labels), (COLOURS, [labels[0], other, *labels[2:]])))
    assert reason in refusal(load, "mine", side=10)


@pytest.mark.parametrize("none", [*NONE, *WORDS], ids=repr)
def test_labels_that_are_missing_are_refused_in_train_and_are_no_test_set(none, plugged, capsys):
    plugged(lambda root: ((COLOURS, [none] * 3 + NAMES[3:]), None))
    with pytest.raises(UserError, match="'mine': 3 of the 24 labels of train are missing: "):
        load("mine", side=10)
    plugged(lambda root: ((COLOURS, NAMES), (COLOURS[:6], [none] * 6)), "other")
    splits = load("other", side=10, test_fraction=0.25)
    assert sizes(splits) == [13, 5, 6] and splits.classes == ("cat", "cow", "dog")
    assert (
        capsys.readouterr().out
        == "data.name: 'other': the 6 test images have no labels; part of train is the test set\n"
    )


def test_names_may_be_in_a_column_of_pandas(plugged):
    column = np.array(NAMES, dtype=object)  # `frame["label"].to_numpy()`
    plugged(lambda root: ((COLOURS, column), None))
    assert load("mine", side=10).classes == ("cat", "cow", "dog")


class Pairs(datasets.FakeData):
    """As LFWPairs: two images and whether they show the same person."""

    def __init__(self, root="data"):
        super().__init__(60, (3, 12, 12), 2)
        self.targets = [0, 1] * 30

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image, image, label


class Others(datasets.FakeData):
    """As QMNIST: the labels of its items are a column of its targets."""

    def __init__(self, root="data"):
        super().__init__(60, (3, 12, 12), 3)
        self.targets = np.array([[super(Others, self).__getitem__(i)[1], 7] for i in range(60)])


class Parent(datasets.FakeData):
    def __init__(self, root="data", download=False):
        super().__init__(60, (3, 12, 12), 3)
        self.categories = ["ant", "bee", "cow"]
        if download:
            raise OSError("no network")


class ByParent(Parent):
    """As QMNIST and Caltech101: its parent downloads, and `categories` has the names of its classes."""

    def __init__(self, root="data", **kwargs):
        super().__init__(root, **kwargs)


class Without(Parent):
    """As ImageNet: nothing downloads it."""

    def __init__(self, root):
        raise OSError("no file")


def test_a_class_is_downloaded_by_its_parent_and_its_categories_are_names(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "Caltech101", ByParent)
    monkeypatch.setattr(datasets, "ImageNet", Without)
    assert load("torchvision:Caltech101", tmp_path, side=12).classes == ("ant", "bee", "cow")
    with pytest.raises(UserError, match=r"^data\.root: .*\(no network\); torchvision could not download them$"):
        load("torchvision:Caltech101", tmp_path, download=True)
    for download in (True, False):
        with pytest.raises(UserError, match=r"^data\.root: .*\(no file\); torchvision does not download them$"):
            load("torchvision:ImageNet", tmp_path, download=download)


def test_qmnist_tries_a_download(monkeypatch, tmp_path):
    """torchvision's own class takes `download` through its parent."""
    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", Mock(side_effect=OSError("tried")))
    monkeypatch.setattr("torchvision.datasets.mnist.download_url", Mock(side_effect=OSError("tried")), raising=False)
    with pytest.raises(UserError, match=r"\(tried\); torchvision could not download them$"):
        load("torchvision:QMNIST", tmp_path, download=True)


@pytest.mark.parametrize("known", ["SVHN", "STL10", "Omniglot", "Flowers102", "EuroSAT", "DTD"])
def test_the_nearest_class_is_named_whatever_its_case(known):
    for name in (known.lower(), known[:-1].swapcase()):
        with pytest.raises(UserError, match=f"did you mean {known!r}"):
            load(f"torchvision:{name}")


def test_labels_are_those_of_the_items(monkeypatch):
    monkeypatch.setattr(datasets, "QMNIST", Others)
    monkeypatch.setattr(datasets, "LFWPairs", Pairs)
    splits = load("torchvision:QMNIST", side=12)
    found = {x.numpy().tobytes(): y for x, y in zip(splits.train.x, splits.train.y.tolist(), strict=True)}
    known = {np.asarray(image).transpose(2, 0, 1).tobytes(): label for image, label in Others()}
    assert found.items() <= known.items()
    with pytest.raises(UserError, match="LFWPairs' does not yield images and labels: ValueError: too many values"):
        load("torchvision:LFWPairs", side=12)


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


def test_images_that_do_not_fit_in_memory_are_decoded_when_used(fake, tmp_path, monkeypatch):
    data = {"data__name": "torchvision:FakeData", "data__img_size": 8, "data__train_limit": None, "data__hflip": True}
    tiny.run(tmp_path / "memory", **data)
    monkeypatch.setattr(streaming, "IN_MEMORY", 0)
    assert isinstance(load("torchvision:FakeData", side=8).train.x, streaming.StreamedPixels)
    tiny.run(tmp_path / "stream", **data)
    assert tiny.results(tmp_path / "memory") == tiny.results(tmp_path / "stream")


PLUGIN = """
import numpy as np
from experiments import register_dataset
from my_labels import NAMES

@register_dataset("mine")
def load(root):
    images = np.fromfile(f"{root}/images", dtype=np.uint8).reshape(-1, 10, 10, 3)
    return (images, NAMES), None
"""


def test_the_record_holds_the_source_of_a_function(tmp_path):
    """Another source is another run."""
    (tmp_path / "images").write_bytes(COLOURS.tobytes())
    sources = {"my_data.py": PLUGIN, "my_labels.py": f"NAMES = {NAMES}\n"}
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    words = ["--data.name", "mine", "--data.root", str(tmp_path), "--data.img-size", "8", "--data.val-fraction", "0.2"]
    command = [*words, "--train.epochs", "1", "--out", "runs", "--tracking", "off"]
    assert commands.run("vit-train", *command, cwd=tmp_path, VIT_PLUGINS="my_data.py")[0] == 0
    (run,) = tmp_path.glob("runs/mine-*")
    found = record.read_run(run).summary["provenance"]["data_plugin"]
    assert found["digest"] == digest({name: text.encode() for name, text in sources.items()})
    assert {name: (run / record.DATA_PLUGIN / name).read_text() for name in sources} == sources
    (tmp_path / "my_labels.py").write_text(f"NAMES = {NAMES[::-1]}\n")
    assert commands.run("vit-train", *command, cwd=tmp_path, VIT_PLUGINS="my_data.py")[0] == 0
    assert len([*tmp_path.glob("runs/mine-*")]) == 2


def test_the_name_of_a_runs_folder_has_no_colon(fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exited:
        main(
            ["--data.name", "torchvision:FakeData", "--data.img-size", "8", "--train.epochs", "1", "--tracking", "off"]
        )
    (run,) = tmp_path.glob("runs/single/torchvision*")
    assert not exited.value.code and ":" not in run.name


@pytest.mark.parametrize("name", ["Nancy", " cat ", "no", "nano", "a,b", "-", "0"])
def test_a_name_that_only_looks_like_none_is_a_class_as_it_is_typed(name, plugged):
    plugged(lambda root: ((COLOURS, [name] * 12 + ["dog"] * 12), None))
    assert name in load("mine", side=10).classes


def test_a_class_that_is_called_like_a_missing_value_has_a_way_out(plugged):
    plugged(lambda root: ((COLOURS, ["NA"] * 12 + ["tumour"] * 12), None))
    with pytest.raises(
        UserError, match="12 of the 24 labels of train are missing: .* a word such as NA.*rename the class"
    ):
        load("mine", side=10)
