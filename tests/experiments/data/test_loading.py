"""Datasets: the split is fixed, stratified and complete; the user's own images; one line where files will not do."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.loading import Images, Splits
from experiments.errors import UserError


def load(**changes: object) -> Splits:
    return loading.load(override(RunConfig(), {path.replace("__", "."): value for path, value in changes.items()}))


def rows(images: Images) -> Counter[bytes]:
    """The images as a multiset, labels included."""
    return Counter(x.numpy().tobytes() + bytes([y]) for x, y in zip(images.x, images.y.tolist(), strict=True))


def test_digits_are_split_completely_and_without_overlap() -> None:
    splits, whole = load(), load_digits()
    pixels = np.round(whole.images / 16 * 255).astype(np.uint8)
    expected = Counter(x.tobytes() + bytes([y]) for x, y in zip(pixels, whole.target.tolist(), strict=True))
    assert rows(splits.train) + rows(splits.val) + rows(splits.test) == expected
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [1293, 144, 360]
    assert splits.train.x.shape == (1293, 1, 8, 8)
    assert splits.train.x.dtype == torch.uint8


def test_every_part_has_every_class_in_proportion() -> None:
    splits, whole = load(), np.bincount(load_digits().target) / 1797
    for part in (splits.train, splits.val, splits.test):
        counts = np.bincount(part.y.numpy(), minlength=10)
        assert np.abs(counts - whole * len(part)).max() <= 1  # no further than rounding makes it


def test_the_split_does_not_follow_the_seed_but_the_split_seed() -> None:
    first, other_run, other_split = load(seed=0), load(seed=1), load(data__split_seed=1)
    for name in ("train", "val", "test"):
        assert torch.equal(getattr(first, name).x, getattr(other_run, name).x)
        assert rows(getattr(first, name)) != rows(getattr(other_split, name))


@pytest.mark.parametrize("limit", [10, 276, 280, 287, 1283, 1293])  # some that floating point would round to one fewer
def test_train_limit_is_exact_stratified_and_leaves_the_rest_alone(limit: int) -> None:
    splits, whole = load(data__train_limit=limit), load()
    assert len(splits.train) == limit
    assert set(splits.train.y.tolist()) == set(range(10))
    assert rows(splits.train) <= rows(whole.train)
    assert torch.equal(splits.val.x, whole.val.x)
    assert torch.equal(splits.test.x, whole.test.x)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data__train_limit": 5}, ["data.train_limit: 5 of 1293"]),
        ({"data__train_limit": 1294}, ["data.train_limit: 1294", "1293"]),
        ({"data__val_fraction": 0.001}, ["data.val_fraction: 0.001 of 1437"]),
        ({"data__test_fraction": 0.9999}, ["data.test_fraction: 0.9999 of 1797"]),
    ],
)
def test_a_split_that_cannot_be_is_refused(changes: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as refusal:
        load(**changes)
    assert [word for word in words if word not in str(refusal.value)] == []


def patches(x: torch.Tensor, size: int) -> list[list[bytes]]:
    """Each image's patches in raster order, cut out with plain slices."""
    side = range(0, x.shape[-1], size)
    return [[image[:, i : i + size, j : j + size].numpy().tobytes() for i in side for j in side] for image in x]


def test_shuffled_patches_are_each_images_own_patches_in_an_order_of_its_own() -> None:
    plain, shuffled, again = load(), load(data__shuffle_patches=True), load(data__shuffle_patches=True, seed=7)
    for name in ("train", "val", "test"):
        before, after = getattr(plain, name), getattr(shuffled, name)
        assert torch.equal(before.y, after.y)
        assert [Counter(p) for p in patches(before.x, 2)] == [Counter(p) for p in patches(after.x, 2)]
        assert torch.equal(after.x, getattr(again, name).x)
    marked = Images(
        torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4).expand(50, 1, 4, 4), torch.zeros(50, dtype=torch.long)
    )
    orders = {tuple(p) for p in patches(loading.shuffle_patches(marked, 1, 0).x, 1)}
    assert len(orders) == 50  # of 16! orders, two of fifty images will not share one


@pytest.mark.parametrize(
    ("name", "patch"), [("mnist", 7), ("fashion-mnist", 7), ("cifar10", 8), ("cifar100", 8), ("imagefolder", 8)]
)
def test_missing_files_say_where_and_what_to_do(name: str, patch: int, tmp_path: Path) -> None:
    root = tmp_path / "nowhere"
    with pytest.raises(UserError) as refusal:
        load(data__name=name, data__root=str(root), model__patch_size=patch)
    assert str(refusal.value).startswith("data.root: ")
    assert str(root) in str(refusal.value)
    assert name == "imagefolder" or "--data.download true" in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_half_of_the_images_that_a_file_announces_are_refused(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        images = struct.pack(">IIII", 0x803, 10, 28, 28) + bytes(5 * 28 * 28)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(images)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 10) + bytes(10))
    with pytest.raises(UserError, match="^data.root: .* does not hold the files of mnist"):
        load(data__name="mnist", data__root=str(tmp_path), model__patch_size=7)


@pytest.mark.parametrize("kept", [0, 7, 1000])
def test_a_dataset_file_cut_short_is_refused(kept: int, tmp_path: Path, shared_data: Path) -> None:
    raw, spoiled = tmp_path / "MNIST" / "raw", "train-images-idx3-ubyte"
    raw.mkdir(parents=True)
    for path in (shared_data / "MNIST" / "raw").iterdir():
        if path.name == spoiled:
            (raw / spoiled).write_bytes(path.read_bytes()[:kept])
        else:
            (raw / path.name).symlink_to(path)
    with pytest.raises(UserError, match=r"data\.root: .*mnist"):
        load(data__name="mnist", data__root=str(tmp_path), model__patch_size=7)


def test_mnist(shared_data: Path) -> None:
    splits = load(data__name="mnist", data__root=str(shared_data), model__patch_size=7)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [54000, 6000, 10000]
    assert splits.train.x.shape[1:] == (1, 28, 28)
    assert float(splits.mean) == pytest.approx(0.1307, abs=1e-3)  # the figures everybody uses
    assert float(splits.std) == pytest.approx(0.3081, abs=1e-3)
    assert splits.test.y[:5].tolist() == [7, 2, 1, 0, 4]  # its first pictures, in their own order


def test_cifar10(shared_data: Path) -> None:
    splits = load(data__name="cifar10", data__root=str(shared_data), model__patch_size=4)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [45000, 5000, 10000]
    assert splits.train.x.shape[1:] == (3, 32, 32)
    assert torch.bincount(splits.val.y).tolist() == [500] * 10
    assert splits.mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-3)  # the figures everybody uses
    assert splits.std.tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=1e-3)
    assert splits.classes[3] == "cat"
    assert splits.test.y[:5].tolist() == [3, 8, 8, 0, 6]


def test_normalisation_is_numpys_mean_and_deviation_of_the_training_images() -> None:
    splits = load(data__train_limit=200)
    pixels = splits.train.x.numpy().astype(np.float64) / 255
    assert splits.mean.numpy() == pytest.approx(pixels.mean((0, 2, 3)), rel=1e-6)
    assert splits.std.numpy() == pytest.approx(pixels.std((0, 2, 3)), rel=1e-6)
    seen = splits.normalized(splits.scaled(splits.train.x, torch.float64))
    assert (float(seen.mean()), float(seen.std(correction=0))) == pytest.approx((0, 1), abs=1e-6)


@pytest.mark.parametrize(("normalize", "low", "high"), [("unit", 0.0, 1.0), ("half", -1.0, 1.0)])
def test_fixed_normalisations(normalize: str, low: float, high: float) -> None:
    splits = load(data__normalize=normalize)
    seen = splits.normalized(splits.scaled(splits.train.x))
    assert (float(seen.min()), float(seen.max())) == (low, high)


def test_images_are_resized_where_asked() -> None:
    splits = load(data__img_size=16)
    assert splits.train.x.shape[1:] == (1, 16, 16)
    means = [part.x.double().mean((1, 2, 3)) for part in (splits.train, load().train)]
    assert float((means[0] - means[1]).abs().max()) < 12  # of 255: stretched, not cut


def paint(folder: Path, colour: tuple[int, int, int], count: int, size: tuple[int, int] = (20, 16)) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        Image.new("RGB", size, colour).save(folder / f"{i}.png")


def own_images(root: Path, **changes: object) -> Splits:
    return load(data__name="imagefolder", data__root=str(root), data__img_size=8, **changes)


def test_a_folder_of_class_folders(tmp_path: Path) -> None:
    paint(tmp_path / "red", (255, 0, 0), 20)
    paint(tmp_path / "blue", (0, 0, 255), 30)
    splits = own_images(tmp_path, data__test_fraction=0.2, data__val_fraction=0.25)
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


def test_images_that_memory_cannot_hold_are_refused_before_any_is_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            (tmp_path / name / f"{i}.png").write_bytes(b"never read")
    with pytest.raises(UserError, match=r"data\.img_size: 10000000: 6 decoded images need 1676380\.6 GiB, and this"):
        load(data__name="imagefolder", data__root=str(tmp_path), data__img_size=10_000_000)


def test_a_folder_with_a_test_set_of_its_own(tmp_path: Path) -> None:
    for part, count in (("train", 20), ("test", 3)):
        paint(tmp_path / part / "a", (9, 9, 9), count)
        paint(tmp_path / part / "b", (200, 9, 9), count)
    splits = own_images(tmp_path)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [36, 4, 6]


def test_pictures_of_every_mode_become_three_channels(tmp_path: Path) -> None:
    for name in ("a", "b"):
        paint(tmp_path / name, (10, 20, 30), 6)
        for mode in ("L", "RGBA", "P", "1", "LA", "CMYK"):
            extension = "jpg" if mode == "CMYK" else "png"
            Image.new("RGB", (9, 30), (10, 20, 30)).convert(mode).save(tmp_path / name / f"mode-{mode}.{extension}")
    splits = own_images(tmp_path, data__test_fraction=0.25, data__val_fraction=0.25)
    assert len(splits.train) + len(splits.val) + len(splits.test) == 24
    assert splits.train.x.shape[1:] == (3, 8, 8)


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path: Path) -> None:
    for name, value in (("a", 0x4000), ("b", 0xC0FF)):
        (tmp_path / name).mkdir()
        for i in range(12):
            Image.fromarray(np.full((8, 8), value, np.uint16)).save(tmp_path / name / f"{i}.png")
    splits = own_images(tmp_path, data__test_fraction=0.25, data__val_fraction=0.25)
    assert {int(v) for part in (splits.train, splits.val, splits.test) for v in part.x.unique()} == {0x40, 0xC0}


def _chunk(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body[:33] + b"\0\0\0\4\0\0\0\0" + body[41:])  # a chunk whose name is no name


def broken(root: Path) -> None:
    for name in ("a", "b"):
        paint(root / name, (1, 2, 3), 10)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def _bomb(path: Path) -> None:
    header = path.read_bytes()
    path.write_bytes(header[:6] + b"\xff\xff\xff\xff" + header[10:])  # a GIF that says it is 65,535 pixels each way


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("cut.png", _cut),
        ("chunk.png", _chunk),
        ("float.tif", lambda path: Image.new("F", (9, 9)).save(path)),
        ("bomb.gif", _bomb),
        ("text.png", lambda path: path.write_text("not a picture")),
        ("empty.jpg", lambda path: path.write_bytes(b"")),
    ],
)
def test_a_picture_that_cannot_be_read_is_named(
    name: str, spoil, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    broken(tmp_path)
    path = tmp_path / "b" / name
    Image.effect_noise((64, 64), 50).save(path)
    if name == "bomb.gif":
        path = path.rename(path.with_suffix(".png"))  # ImageFolder takes no GIF by its name; PIL goes by what is inside
    spoil(path)
    with pytest.raises(UserError) as refusal:
        own_images(tmp_path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_folders_that_are_no_dataset_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    paint(tmp_path / "single" / "only", (1, 1, 1), 5)
    paint(tmp_path / "hollow" / "a", (1, 1, 1), 5)
    (tmp_path / "hollow" / "b").mkdir()
    for name in ("empty", "single", "hollow"):
        with pytest.raises(UserError, match=rf"data\.root: .*{name}"):
            own_images(tmp_path / name)


def test_parts_with_other_names_are_not_taken_for_classes(tmp_path: Path) -> None:
    for part in ("train", "val"):  # as ImageNet lies on many disks
        for name in ("a", "b"):
            paint(tmp_path / part / name, (1, 1, 1), 5)
    with pytest.raises(UserError, match=r"data\.root: .*train/CLASS but no test"):
        own_images(tmp_path)


def test_parts_with_other_classes_are_refused(tmp_path: Path) -> None:
    for part, names in (("train", "ab"), ("test", "ac")):
        for name in names:
            paint(tmp_path / part / name, (1, 1, 1), 5)
    with pytest.raises(UserError, match="has the classes a, c, not a, b"):
        own_images(tmp_path)


def test_expected_number_of_classes(tmp_path: Path) -> None:
    broken(tmp_path)
    with pytest.raises(UserError, match=r"data\.num_classes: 3, but .* has 2"):
        own_images(tmp_path, data__num_classes=3)
