"""The user's image folders: layout, decoding, and one clear line for what cannot be used."""

import os
import struct
import zlib
from pathlib import Path
from unittest.mock import Mock

import commands
import numpy as np
import pytest
import torch
from commands import refusal
from PIL import Image

from experiments.config import RunConfig, override
from experiments.data.folder import KEPT, files_digest
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


def test_images_too_large_for_memory_are_refused_before_reading(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            (tmp_path / name / f"{i}.png").write_bytes(b"never read")
    with pytest.raises(
        UserError, match=r"data\.img_size: 10000000: 6 decoded images need 1,676,380\.6 GiB; the memory"
    ):
        load_folder(tmp_path, img_size=10_000_000)


def test_another_folder_beside_train_and_test_is_named(tmp_path, capsys):
    for part in ("train", "test", "val"):
        paint(tmp_path / part / "a", (9, 9, 9), 20)
        paint(tmp_path / part / "b", (200, 9, 9), 20)
    splits = load_folder(tmp_path)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [36, 4, 40]
    assert f"data: not used, only train and test are: val in {str(tmp_path)!r}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("train", "test", "more"),
    [
        ("Train", "Test", ()),
        ("training", "testing", ()),
        ("seg_train", "seg_test", ("seg_pred",)),
        ("train", "Test", ("Validation",)),
        ("TrainImages", "test-images", ("VAL",)),
        ("trainval", "test", ()),
    ],
)
def test_parts_under_other_names_are_parts(train, test, more, tmp_path):
    for part in (train, test, *more):
        paint(tmp_path / part / "a", (9, 9, 9), 20)
        paint(tmp_path / part / "b", (200, 9, 9), 20)
    splits = load_folder(tmp_path)
    assert splits.classes == ("a", "b")
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [36, 4, 40]


@pytest.mark.parametrize(
    "names",
    [
        ("Train", "Validation"),
        ("fold1", "fold2", "fold3"),
        ("trainA", "trainB", "testA", "testB"),
        ("cat", "Val", "TEST"),
    ],
)
def test_parts_that_are_no_train_and_test_are_refused(names, tmp_path):
    for name in names:
        paint(tmp_path / name, (9, 9, 9), 5)
    parts = ", ".join(sorted({*names} - {"cat"}))
    with pytest.raises(UserError, match=rf"has the parts {parts}, which are no classes; name one train and one test"):
        load_folder(tmp_path)


@pytest.mark.parametrize("names", [("train", "bus"), ("Test pattern", "photo"), ("contest", "restrain", "trainer")])
def test_a_class_may_be_called_like_a_part(names, tmp_path):
    for name in names:
        paint(tmp_path / name, (9, 9, 9), 9)
    assert load_folder(tmp_path, test_fraction=0.34, val_fraction=0.34).classes == tuple(sorted(names))


@pytest.mark.usefixtures("new_process")
@pytest.mark.parametrize(
    ("folders", "warned"),
    [
        (("cats/2023", "cats/2024", "dogs/2023", "dogs/2024"), "holds the folders 2023, 2024; "),
        (
            ("site1/ill", "site1/well", "site2/ill", "site2/well"),
            "holds the folders ill, well; they are read as CLASS/FOLDER: 2 classes.",
        ),
        (("cats/2023/may", "dogs/2023/june"), "holds the folders 2023; "),
        (("cats/2023", "cats/2024", "dogs/2023"), ""),
        (("cats/2023", "dogs/2023", "dogs"), ""),
    ],
)
def test_classes_of_the_same_folders_are_a_warning_with_both_readings(folders, warned, tmp_path, capsys):
    for name in reversed(folders):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        for number in range(6):
            Image.new("RGB", (9, 9), (9, 9, number)).save(tmp_path / name / f"{number}.png")
    assert len(load_folder(tmp_path, test_fraction=0.25, val_fraction=0.25).classes) == 2
    out = capsys.readouterr().out
    assert warned in out and out.count("If they are PART/CLASS, name the parts train and test") == bool(warned)


@pytest.fixture
def new_process(monkeypatch):
    """Nothing has been printed in this process."""
    monkeypatch.setattr("experiments.data.folder._said", set())


@pytest.mark.parametrize("links", [{"more": "."}, {"0-copy.png": "0.png", "9-copy.png": "0.png", "again": "../b"}])
def test_an_image_that_several_paths_lead_to_counts_once(links, tmp_path):
    for number, name in enumerate(("a", "b")):
        paint(tmp_path / name, (9, 9, number), 20)
    plain = load_folder(tmp_path)
    for name, target in links.items():
        (tmp_path / "b" / name).symlink_to(target)
    linked = load_folder(tmp_path)
    for part in ("train", "val", "test"):
        assert torch.equal(getattr(linked, part).x, getattr(plain, part).x)


@pytest.mark.parametrize("links", [1, 4])
def test_a_file_of_two_classes_is_refused(links, tmp_path):
    """Through a link to the folder of all classes."""
    for name in ("a", "b"):
        paint(tmp_path / name, (9, 9, 9), 6)
    for number in range(links):
        (tmp_path / "b" / f"up{number}").symlink_to("..")
    with pytest.raises(UserError, match=r"^data\.root: '.*b/up0/a/0\.png' is a file of two classes: a and b$"):
        load_folder(tmp_path)


@pytest.mark.usefixtures("new_process")
def test_what_is_not_used_is_said_with_its_number(tmp_path, capsys):
    for name in ("a", "b", ".hidden", "__MACOSX"):
        paint(tmp_path / name, (9, 9, 9), 20)
    for i in range(5):
        Image.new("L", (9, 9)).save(tmp_path / "a" / f"{i}.gif")
    (tmp_path / "b" / "._0.png").write_text("of the file manager")
    (tmp_path / "labels.csv").write_text("mine")
    (tmp_path / "empty").mkdir()
    splits = load_folder(tmp_path)
    assert splits.classes == ("a", "b") and sum(map(len, (splits.train, splits.val, splits.test))) == 40
    assert capsys.readouterr().out.splitlines() == [
        f"data: not used in {str(tmp_path)!r}: class folders without images: 1 (empty); "
        "files of type .gif: 5 (a/0.gif, a/1.gif, a/2.gif, ...); "
        "names that begin with . or __: 3 (.hidden, __MACOSX, b/._0.png); outside the class folders: 1 (labels.csv)"
    ]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["ppm", "png"])
def test_images_that_are_in_training_and_test_are_counted(kind, streamed, tmp_path, capsys, monkeypatch):
    """All end with the same 4 KiB of pixels. Under other names, 7 test images of each class are in train, from which
    the validation images are taken."""
    monkeypatch.setattr("experiments.data.streaming.IN_MEMORY", 0 if streamed else 1)
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
    assert f"data: warning: {count} of the 36 test images are training images as well\n" in capsys.readouterr().err


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


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"junk"])
def test_a_damaged_file_of_the_cache_is_not_believed(body, tmp_path):
    for name in ("a", "b"):
        paint(tmp_path / name, (9, 9, 9), 10)
    before = files_digest(str(tmp_path))
    for file in KEPT.iterdir():
        file.write_bytes(body)
    assert files_digest(str(tmp_path)) == before


def test_images_of_one_size_in_bytes_are_told_apart_by_their_content(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(10):
            Image.new("RGB", (8, 8), (9, 9, i)).save(tmp_path / name / f"{i}.bmp")
    before = load_folder(tmp_path, test_fraction=0.2).files
    assert load_folder(tmp_path, test_fraction=0.2).files == before
    one, other = (tmp_path / name / "0.bmp" for name in ("a", "b"))
    Image.new("RGB", (8, 8), (200, 0, 0)).save(one)
    assert one.stat().st_size == other.stat().st_size
    assert (changed := load_folder(tmp_path, test_fraction=0.2).files) != before
    os.utime(one, (1, 1))
    os.utime(other, (1, 1))
    for source, target in ((one, tmp_path / "kept"), (other, one), (tmp_path / "kept", other)):  # exchanged
        source.rename(target)
    assert load_folder(tmp_path, test_fraction=0.2).files != changed


@pytest.mark.usefixtures("new_process")
def test_transparency_is_ignored_and_said_once(tmp_path, capsys):
    for name in ("a", "b"):
        paint(tmp_path / name, (10, 20, 30), 6)
    load_folder(tmp_path, test_fraction=0.25, val_fraction=0.25)
    assert capsys.readouterr().out == ""
    for i in range(4):
        Image.new("RGBA", (9, 9), (10, 20, 30, 100 + i)).save(tmp_path / "a" / f"clear-{i}.png")
    splits = load_folder(tmp_path, test_fraction=0.25, val_fraction=0.25)
    assert capsys.readouterr().out.count("transparency is ignored") == 1
    assert splits.train.x.flatten(2).float().mean(dim=(0, 2)).tolist() == [10, 20, 30]


def _png(pixels: np.ndarray) -> bytes:
    """A PNG of 16 bits per channel, by the standard; Pillow writes none in colour. pixels: [H, W, (3)], uint16."""
    height, width, *colours = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, 2 if colours else 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    parts = (struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _netpbm(kind: str, most: int, value: int) -> bytes:
    return f"{kind}\n8 8\n{most}\n".encode() + np.full(64 * (3 if kind == "P6" else 1), value, ">u2").tobytes()


@pytest.mark.usefixtures("new_process")
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("16-bit grey.png", _png(np.full((8, 8), 0xC0FF, np.uint16))),
        ("16-bit colour.png", _png(np.full((8, 8, 3), 0xC0FF, np.uint16))),
        ("10-bit grey.pgm", _netpbm("P5", 1023, 0x304)),  # 0x304 / 1023 is 0xC137 / 65535
        ("10-bit text.pgm", b"P2\n8 8\n1023\n" + b"772 " * 64),
        ("16-bit grey.pgm", _netpbm("P5", 65535, 0xC0FF)),
        ("12-bit colour.ppm", _netpbm("P6", 4095, 0xC08)),
    ],
)
def test_deep_images_are_scaled_not_clipped_which_is_said_once(name, body, tmp_path, capsys):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(6):
            (tmp_path / label / f"{number} {name}").write_bytes(body)
    splits = load_folder(tmp_path, test_fraction=0.25, val_fraction=0.25)
    rounded = {0} if name.endswith("png") else {0, 1}  # Pillow rounds netpbm files to 8 bits
    assert {int(value) - 0xC0 for value in splits.train.x.unique()} <= rounded
    assert capsys.readouterr().out.count("16 bits per channel; only the upper 8 are used") == 1


def _photo(path: Path, orientation: int, seed: int = 0) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, exif=exif)


@pytest.mark.parametrize(
    ("orientation", "turn"),  # by the EXIF standard: where the stored first row and first column are
    [
        (3, lambda x: x.flip(-1, -2)),
        (4, lambda x: x.flip(-2)),
        (6, lambda x: x.rot90(-1, (-2, -1))),
        (7, lambda x: x.transpose(-1, -2).flip(-1, -2)),
        (8, lambda x: x.rot90(1, (-2, -1))),
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


def test_all_broken_images_are_named_at_once(tmp_path):
    """In train and test."""
    for part in ("train", "test"):
        for label in ("a", "b"):
            paint(tmp_path / part / label, (1, 2, 3), 5)
    broken = [tmp_path / "train/a/1.png", tmp_path / "train/b/4.png", tmp_path / "test/b/0.png"]
    broken[0].write_text("text")
    broken[1].write_bytes(b"")
    _cut(broken[2])
    for look in (lambda: load_folder(tmp_path), lambda: files_digest(str(tmp_path))):
        line = refusal(look)
        assert line.startswith("data.root: ") and line.endswith(" (3 files)") and line.count("data.root") == 1
        assert all(f"{str(path)!r} cannot be read as an image" in line for path in broken)


def test_warnings_of_pillow_are_not_shown(tmp_path):
    """A palette with transparency as bytes, damaged EXIF data, and a picture of more than 89 million pixels, which the
    environment allows.
    """
    for label in ("a", "b"):
        paint(tmp_path / label, (1, 2, 3), 5)
    Image.new("P", (8, 8)).save(tmp_path / "a" / "p.png", transparency=bytes(range(200)))
    Image.new("RGB", (8, 8)).save(tmp_path / "a" / "e.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05\1\x12\0\3")
    Image.new("1", (10_000, 9_000)).save(tmp_path / "b" / "large.png")
    code = "import sys; from experiments.data.folder import files_digest; print(files_digest(sys.argv[1]))"
    status, _, err = commands.run(code, tmp_path, PYTHONWARNINGS="always", VIT_MAX_PIXELS="90000000")
    assert status == 0 and "PIL" not in err and "Warning" not in err, err


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA"])
def test_an_image_of_more_pixels_than_allowed_is_named_before_it_is_decoded(mode, tmp_path, monkeypatch):
    for label in ("a", "b"):
        paint(tmp_path / label, (1, 2, 3), 10)
    large = tmp_path / "a" / "large.png"
    for most, side, said in ((500, 30, "30 x 30 pixels; allowed: 1 to 500 in all"), (500, 40, "exceeds limit of 1000")):
        Image.new(mode, (side, side)).save(large)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
        for read in (load_folder, lambda root: files_digest(str(root))):
            with pytest.raises(UserError, match=rf"large\.png' cannot be .*{said}.*; VIT_MAX_PIXELS=N in the env"):
                read(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1600)
    assert load_folder(tmp_path).classes == ("a", "b")


def test_a_limit_that_is_no_number_is_one_line(tmp_path):
    words = ("data", "--data.name", "imagefolder")
    status, _, err = commands.run("vit-train", *words, cwd=tmp_path, VIT_MAX_PIXELS="1e9")
    line = "vit-train: error: VIT_MAX_PIXELS: '1e9' is not allowed: expected a number of pixels\n"
    assert (status, err) == (2, line)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _bomb(path: Path) -> None:
    header = path.read_bytes()
    path.write_bytes(header[:6] + b"\xff\xff\xff\xff" + header[10:])  # a GIF whose header claims 65,535 x 65,535 pixels


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("cut.png", _cut),
        ("float.tif", lambda path: Image.new("F", (9, 9)).save(path)),
        ("bomb.gif", _bomb),
        ("pipe.png", _pipe),
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
        ({}, {}, r"data\.root: "),
        ({"only": 5}, {}, r"data\.root: "),
        ({"a": 5, "b": 0}, {}, r"data\.root: "),
        ({"train/a": 5, "train/b": 5, "val/a": 5, "val/b": 5}, {}, r"data\.root: .*train/CLASS but no test"),
        (
            {"test/a": 5, "test/b": 5},
            {},
            r"data\.root: .* has a test folder but no train folder; train/CLASS is missing",
        ),
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


@pytest.mark.parametrize("made", [["0.png"], ["train/0.png", "test/0.png"], ["a/notes.txt", "b/notes.txt"]])
def test_a_folder_of_images_without_classes_says_how_they_are_laid_out(made, tmp_path):
    for name in made:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name) if name.endswith("png") else (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=r"0 class folder\(s\) with images; two are needed; give each class a folder"):
        load_folder(tmp_path)
