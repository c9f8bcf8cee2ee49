"""The user's image folders: layout, decoding, and one clear line for what cannot be used."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from commands import refusal
from PIL import Image

from experiments.config import RunConfig, override
from experiments.data.folder import files_digest
from experiments.data.images import Splits
from experiments.data.loading import load
from experiments.errors import UserError


def paint(folder: Path, colour: tuple[int, int, int], count: int, size: tuple[int, int] = (20, 16)) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        Image.new("RGB", size, colour).save(folder / f"{i}.png")


def load_folder(root: Path, **changes: object) -> Splits:
    """Load the images under a root, 8 pixels a side."""
    settings = {"data.name": "imagefolder", "data.root": str(root), "data.img_size": 8}
    return load(override(RunConfig(), {**settings, **{f"data.{field}": value for field, value in changes.items()}}))


def test_root_of_class_folders_is_split(tmp_path):
    paint(tmp_path / "red", (255, 0, 0), 20)
    paint(tmp_path / "blue", (0, 0, 255), 30)
    splits = load_folder(tmp_path, test_fraction=0.2, val_fraction=0.25)
    assert splits.classes == ("blue", "red")
    assert [torch.bincount(part.y).tolist() for part in (splits.train, splits.val, splits.test)] == [
        [18, 12],
        [6, 4],
        [6, 4],
    ]
    for part in (splits.train, splits.val, splits.test):
        assert part.x.shape[1:] == (3, 8, 8)
        expected = torch.tensor([[0, 0, 255], [255, 0, 0]], dtype=torch.uint8)[part.y]
        assert torch.equal(part.x, expected[:, :, None, None].expand_as(part.x))


def test_a_folder_of_validation_images_is_used_and_names_that_begin_with_a_dot_are_not(tmp_path):
    for part, count in (("train", 20), ("val", 3), ("test", 4)):
        paint(tmp_path / part / "a", (9, 9, 9), count)
        paint(tmp_path / part / "b", (200, 9, 9), count)
    (tmp_path / "train" / "b" / "._0.png").write_text("of the file manager")
    splits = load_folder(tmp_path)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [40, 6, 8]
    assert splits.classes == ("a", "b") and splits.val.y.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["ppm", "png"])
def test_images_that_are_in_training_and_test_are_counted(kind, streamed, tmp_path, monkeypatch):
    """All end with the same 4 KiB of pixels. Under other names, 7 test images of each class are in train, from which
    the validation images are taken."""
    monkeypatch.setattr("experiments.data.images.IN_MEMORY", 0 if streamed else 1)
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        images = random.integers(0, 256, (31, 60, 40, 3), dtype=np.uint8)
        images[:, :20] = images[:, 24:] = 7
        for part, first in (("train", 0), ("test", 13)):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(first, first + 20 if part == "train" else 31):
                Image.fromarray(images[number]).save(tmp_path / part / name / f"{number - first:02}.{kind}")
    splits = load_folder(tmp_path, val_fraction=0.05)
    in_val = sum(int((part == image).all()) for part in splits.test.x[:] for image in splits.val.x[:])
    count = 14 - in_val
    assert splits.copies == {"test": count} and len(splits.val) == 2


def test_the_digest_is_of_the_images_only(tmp_path):
    for part in ("train", "test"):
        for name in ("a", "b"):
            paint(tmp_path / part / name, (9, 9, 9), 10)
    before = load_folder(tmp_path).files
    (tmp_path / "train" / "a" / ".DS_Store").write_bytes(b"of the file manager")
    (tmp_path / "runs" / "single").mkdir(parents=True)
    (tmp_path / "runs" / "single" / "figure.png").write_bytes(b"of a run")
    assert load_folder(tmp_path).files == before
    paint(tmp_path / "elsewhere", (8, 8, 8), 1)
    (tmp_path / "train" / "b" / "more").symlink_to(tmp_path / "elsewhere")
    assert load_folder(tmp_path).files != before  # training follows links too


def test_images_that_no_command_changed_are_checked_once(tmp_path, monkeypatch):
    """A study has many runs and workers; to decode a large set takes minutes."""
    for name in ("a", "b"):
        paint(tmp_path / name, (9, 9, 9), 10)
    before = files_digest(str(tmp_path))
    monkeypatch.setattr("experiments.data.folder.to_rgb", Mock(side_effect=AssertionError))
    assert files_digest(str(tmp_path)) == before


def test_deep_images_are_scaled_not_clipped(tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(6):
            Image.fromarray(np.full((8, 8), 0xC0FF, np.uint16)).save(tmp_path / label / f"{number}.png")
    splits = load_folder(tmp_path, test_fraction=0.25, val_fraction=0.25)
    assert splits.train.x.unique().tolist() == [0xC0]


def _photo(path: Path, orientation: int, seed: int = 0) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, exif=exif)


@pytest.mark.parametrize(
    ("orientation", "turn"),  # by the EXIF standard: where the stored first row and first column are
    [
        (3, lambda x: x.flip(-1, -2)),
        (6, lambda x: x.rot90(-1, (-2, -1))),
        (7, lambda x: x.transpose(-1, -2).flip(-1, -2)),
        (1, lambda x: x),
        (77, lambda x: x),
    ],
)
def test_photos_are_turned_upright(orientation, turn, tmp_path):
    """In the images, and in their hash."""
    for root, value in (("photos", orientation), ("stored", 1)):
        for label in ("a", "b"):
            (tmp_path / root / label).mkdir(parents=True)
            for number in range(6):
                _photo(tmp_path / root / label / f"{number}.png", value if number < 5 else 1, number)
    stored, photos = (
        load_folder(tmp_path / root, img_size=16, test_fraction=0.34, val_fraction=0.3) for root in ("stored", "photos")
    )
    turned = 0
    for image, upright in zip(stored.train.x[:], photos.train.x[:], strict=True):
        assert torch.equal(upright, image) or torch.equal(upright, turn(image))
        turned += not torch.equal(upright, image)
    assert (turned > 0) == (photos.files != stored.files) == (orientation not in (1, 77))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def _bomb(path: Path) -> None:
    header = path.read_bytes()
    path.write_bytes(header[:6] + b"\xff\xff\xff\xff" + header[10:])  # a GIF whose header claims 65,535 x 65,535 pixels


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("cut.png", _cut),
        ("float.tif", lambda path: Image.new("F", (9, 9)).save(path)),
        ("bomb.gif", _bomb),
        ("text.png", lambda path: path.write_text("not an image")),
    ],
)
def test_unreadable_image_is_named(name, spoil, tmp_path, recwarn):
    for label in ("a", "b"):
        paint(tmp_path / label, (1, 2, 3), 10)
    path = tmp_path / "b" / name
    Image.effect_noise((64, 64), 50).save(path)
    if name == "bomb.gif":
        path = path.rename(path.with_suffix(".png"))  # ImageFolder skips .gif names; Pillow reads the content
    spoil(path)
    assert str(path) in refusal(load_folder, tmp_path)


@pytest.mark.parametrize(
    ("layout", "changes", "said"),
    [
        ({}, {}, r"data\.root: .*; expected .*/CLASS/IMAGE"),
        ({"only": 5}, {}, r"data\.root: .* has 1 class folder with images; two are needed"),
        ({"a": 5, "b": 0}, {}, r"data\.root: .* classes b"),
        ({"train/a": 5, "train/b": 5, "val/a": 5, "val/b": 5}, {}, r"data\.root: .* has train/CLASS but no test/CLASS"),
        ({"test/a": 5, "test/b": 5}, {}, r"data\.root: .* has test/CLASS but no train/CLASS"),
        ({"train/a": 5, "train/b": 5, "test/a": 5, "test/c": 5}, {}, "has the classes a, c, but train has a, b"),
        ({"a": 10, "b": 10}, {"num_classes": 3}, r"data\.num_classes: 3, but .* has 2"),
        ({"a": 6, "rare": 1}, {"test_fraction": 0.25}, "data.test_fraction: 0.25 is not allowed: class 'rare'"),
    ],
    ids=str,
)
def test_a_layout_that_cannot_be_used_is_refused(layout, changes, said, tmp_path):
    for name, count in layout.items():
        paint(tmp_path / name, (1, 1, 1), count)
    with pytest.raises(UserError, match=f"^{said}" if said.startswith("data") else said):
        load_folder(tmp_path, **changes)
