"""A trained model alone: its predictions are those that the run recorded for its test images."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from PIL import Image

import experiments
from experiments.catalogue import DATASETS
from experiments.config import run_id
from experiments.data import loading
from experiments.errors import UserError
from experiments.runs import predictions, record
from vit.plugins import Source
from vit.pos_embed import Additive
from vit.registry import REGISTRY, Kind

DIGITS = [str(digit) for digit in range(10)]


def agree(found: tuple[list[str], np.ndarray], folder: Path) -> bool:
    """Whether names and probabilities are those in the run's test predictions (float16)."""
    summary = record.read_summary(folder)
    known = predictions.read(folder, summary["files"][record.PREDICTIONS])
    names, probabilities = found
    of_true = probabilities[np.arange(len(names)), known.labels]
    hits = np.array(names) == np.array(known.classes)[known.labels]
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    return bool((hits == known.hits).all() and np.allclose(of_true, known.probabilities, atol=1e-3))


@pytest.mark.parametrize(
    "changes",
    [{"data__normalize": "dataset"}, {"model__head": "softmax"}, {"train__precision": "bfloat16"}],
    ids=["logits", "softmax", "bfloat16"],
)
def test_a_model_predicts_what_its_run_recorded(changes, tmp_path):
    tiny.run(tmp_path / "a", **changes)
    trained = experiments.load_model(tmp_path / "a")
    pixels = loading.load(tiny.config(**changes)).test.x[:, 0].numpy()  # [N, 8, 8]
    assert not trained.model.training and trained.classes == tuple(DIGITS)
    assert agree(trained.predict(list(pixels)), tmp_path / "a")
    assert agree(trained.predict(pixels[..., None]), tmp_path / "a")
    assert agree(trained.predict([Image.fromarray(one) for one in pixels]), tmp_path / "a")


def image_folder(root: Path) -> list[Path]:
    """Images of several sizes in two classes with a test part. Returns those of the test, in their order."""
    random = np.random.default_rng(0)
    for part, count in (("train", 8), ("test", 4)):
        for name in ("cat", "dog"):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                shape = (*random.integers(12, 40, 2), 3)
                image = Image.fromarray(random.integers(0, 255, shape, dtype=np.uint8))
                image.save(root / part / name / f"{number}.png")
    return sorted((root / "test").glob("*/*.png"))


def of_folder(root: Path, **changes: Any) -> dict[str, Any]:
    data = {"data__name": "imagefolder", "data__root": str(root), "data__img_size": 8, "data__train_limit": None}
    return {**data, "data__val_fraction": 0.25, **changes}


def test_images_of_any_size_are_resized_and_cropped_as_in_training(tmp_path):
    files = image_folder(tmp_path / "images")
    tiny.run(tmp_path / "a", **of_folder(tmp_path / "images"))
    trained = experiments.load_model(tmp_path / "a")
    assert trained.classes == ("cat", "dog")
    assert agree(trained.predict([Image.open(file) for file in files]), tmp_path / "a")
    assert agree(trained.predict([np.asarray(Image.open(file)) for file in files]), tmp_path / "a")


def test_a_model_for_grey_images_reads_the_luminance_of_colours(tmp_path):
    tiny.run(tmp_path / "a", train__epochs=1)
    trained = experiments.load_model(str(tmp_path / "a"))
    colours = np.random.default_rng(0).integers(0, 255, (3, 8, 8, 3), dtype=np.uint8)
    grey = np.round(colours @ [0.299, 0.587, 0.114]).astype(np.uint8)  # ITU-R 601
    assert np.allclose(trained.predict(colours)[1], trained.predict(list(grey))[1], atol=1e-2)


def test_a_folder_without_a_finished_run_is_one_line(tmp_path):
    tiny.cut(tmp_path / "cut", 1)
    tiny.run(tmp_path / "diverged", optim__lr=1e30, optim__name="sgd", optim__schedule="constant")
    tiny.run(tmp_path / "pruned", lambda job, row: row["epoch"] == 2)
    status = "has the status {}; allowed: finished"
    reasons = {
        "no": "is no folder",
        f"pruned/{record.CHECKPOINT}": "is no folder",
        "cut": "is not finished: it has no summary.json",
    }
    for name, reason in {**reasons, **{name: status.format(name) for name in ("diverged", "pruned")}}.items():
        with pytest.raises(UserError, match=f"^run_folder: '{tmp_path / name}' {reason}"):
            experiments.load_model(tmp_path / name)


def test_a_changed_checkpoint_is_refused(tmp_path):
    with (_finished(tmp_path) / record.CHECKPOINT).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match="does not match the digest"):
        experiments.load_model(tmp_path / "a")


def test_a_plugin_whose_source_was_changed_is_another_run_and_refused(tmp_path, monkeypatch):
    class Shift(Additive):
        def add(self, x):
            return x + 1

    def saved(text):
        return Kind(Shift, ("stem",), plugin=Source("mine", tmp_path, {"mine.py": text}))

    monkeypatch.setitem(REGISTRY.data, "mine", saved(b"x + 1"))
    tiny.run(tmp_path / "a", model__pos_embed="mine")
    experiments.load_model(tmp_path / "a")
    before = run_id(tiny.config(model__pos_embed="mine"))
    monkeypatch.setitem(REGISTRY.data, "mine", saved(b"x + 2"))
    assert run_id(tiny.config(model__pos_embed="mine")) != before
    with pytest.raises(UserError, match=f"^model.pos_embed: the source of the plug-in 'mine' was .* {tmp_path / 'a'} "):
        experiments.load_model(tmp_path / "a")


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        (np.zeros((8, 8), np.uint8), "expected a list of images, also for a single one"),
        ([np.zeros((8, 8))], r"an array of float64, \[8, 8\] is not allowed: expected uint8"),
        ([np.zeros((2, 8, 8), np.uint8)], r"an array of uint8, \[2, 8, 8\] is not allowed"),
    ],
)
def test_what_is_no_image_is_one_line(images, reason, tmp_path):
    model = experiments.load_model(_finished(tmp_path))
    with pytest.raises(UserError, match=f"^images: {reason}"):
        model.predict(images)
    assert model.predict([])[1].shape == (0, 10)


def test_a_model_needs_neither_its_registered_dataset_nor_an_expanded_path(tmp_path, monkeypatch):
    """In a later process, without VIT_PLUGINS; there, the plug-in may still be registered."""
    monkeypatch.setattr(DATASETS, "data", dict(DATASETS.data))
    images = np.random.default_rng(0).integers(0, 255, (24, 10, 10, 3), dtype=np.uint8)
    read = lambda root: ((images, ["cat", "dog", "cow"] * 8), (images[:6], ["cat", "dog", "cow"] * 2))  # noqa: E731
    experiments.register_dataset("mine")(read)
    data = {"data__name": "mine", "data__img_size": 8, "data__train_limit": None, "data__val_fraction": 0.25}
    tiny.run(tmp_path / "a", **data)
    del DATASETS.data["mine"]
    monkeypatch.setenv("HOME", str(tmp_path))
    trained = experiments.load_model("~/a")
    assert trained.config.data.name == "mine" and agree(trained.predict(list(images[:6])), tmp_path / "a")
    with pytest.raises(UserError, match="^data.name: 'mine' needs its plug-in; set VIT_PLUGINS$"):
        loading.load(trained.config)
    experiments.register_dataset("mine")(read)
    assert len(loading.load(trained.config).test) == 6


def _finished(tmp_path: Path) -> Path:
    tiny.run(tmp_path / "a", train__epochs=1)
    return tmp_path / "a"
