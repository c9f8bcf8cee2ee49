"""Loading: the split is fixed, stratified and complete; missing or damaged files give one clear line."""

from collections import Counter

import numpy as np
import pytest
import torch
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.images import Images, Splits
from experiments.data.loading import stratified_split


def load(**changes: object) -> Splits:
    return loading.load(override(RunConfig(), {path.replace("__", "."): value for path, value in changes.items()}))


def rows(images: Images) -> Counter[bytes]:
    """The images with their labels, as a multiset."""
    return Counter(x.numpy().tobytes() + bytes([y]) for x, y in zip(images.x, images.y.tolist(), strict=True))


def test_digits_split_is_complete_and_disjoint():
    splits, whole = load(), load_digits()
    pixels = np.round(whole.images / 16 * 255).astype(np.uint8)
    expected = Counter(x.tobytes() + bytes([y]) for x, y in zip(pixels, whole.target.tolist(), strict=True))
    assert rows(splits.train) + rows(splits.val) + rows(splits.test) == expected
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [1293, 144, 360]
    assert splits.train.x.shape == (1293, 1, 8, 8)
    assert splits.train.x.dtype == torch.uint8


def test_chosen_classes_are_those_images_with_labels_from_zero():
    splits, whole = load(data__classes="8,3"), load_digits()
    pixels = np.round(whole.images / 16 * 255).astype(np.uint8)
    expected = Counter(x.tobytes() + b"\0" for x in pixels[whole.target == 3])
    expected += Counter(x.tobytes() + b"\1" for x in pixels[whole.target == 8])
    assert rows(splits.train) + rows(splits.val) + rows(splits.test) == expected and splits.classes == ("3", "8")


def test_split_depends_on_split_seed_only():
    first, other_run, other_split = load(seed=0), load(seed=1), load(data__split_seed=1)
    for name in ("train", "val", "test"):
        assert torch.equal(getattr(first, name).x, getattr(other_run, name).x)
        assert rows(getattr(first, name)) != rows(getattr(other_split, name))


@pytest.mark.parametrize(
    "changes",
    [{}, {"data__train_limit": 100}, {"data__shuffle_patches": True}, {"data__name": "probe-where"}],
    ids=["digits", "train limit", "shuffled patches", "generated"],
)
def test_a_split_per_seed_is_that_of_the_seed(changes):
    varied = load(data__split_seed="per-seed", seed=3, **changes)
    fixed = load(data__split_seed=3, seed=0, **changes)
    for name in ("train", "val", "test"):
        assert torch.equal(getattr(varied, name).x, getattr(fixed, name).x)
        assert torch.equal(getattr(varied, name).y, getattr(fixed, name).y)
    assert torch.equal(varied.mean, fixed.mean)


# for some, a float fraction would round to one image less
@pytest.mark.parametrize("limit", [10, 276, 280, 287, 1283, 1293])
def test_train_limit_is_exact_and_stratified_and_keeps_val_and_test(limit):
    splits, whole = load(data__train_limit=limit), load()
    assert len(splits.train) == limit
    assert set(splits.train.y.tolist()) == set(range(10))
    assert rows(splits.train) <= rows(whole.train)
    assert torch.equal(splits.val.x, whole.val.x)
    assert torch.equal(splits.test.x, whole.test.x)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data__train_limit": 5}, ["data.train_limit: 5 is not allowed", "1293 images of 10 classes"]),
        ({"data__train_limit": 1294}, ["data.train_limit: 1294 is not allowed: up to 1293"]),
        ({"data__classes": "1,seven"}, ["data.classes: 'seven' is not a class; allowed: 0, 1"]),
        ({"data__val_fraction": 0.001}, ["data.val_fraction: 0.001 is not allowed", "into 1435 and 2:"]),
        ({"data__test_fraction": 0.9999}, ["data.test_fraction: 0.9999 is not allowed", "into 0 and 1797:"]),
    ],
)
def test_impossible_split_is_refused(changes, words):
    line = refusal(load, **changes)
    assert [word for word in words if word not in line] == []


def patches(x: torch.Tensor, size: int) -> list[list[bytes]]:
    """The patches of each image in raster order, by plain slices."""
    side = range(0, x.shape[-1], size)
    return [[image[:, i : i + size, j : j + size].numpy().tobytes() for i in side for j in side] for image in x]


def test_shuffle_patches_permutes_the_patches_of_each_image():
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
    assert len(orders) == 50  # of 16! orders, no two of fifty images share one


@pytest.mark.parametrize(
    ("name", "patch"), [("mnist", 7), ("fashion-mnist", 7), ("cifar10", 8), ("cifar100", 8), ("imagefolder", 8)]
)
def test_missing_files_give_the_folder_and_the_remedy(name, patch, tmp_path):
    root = tmp_path / "nowhere"
    error = refusal(load, data__name=name, data__root=str(root), model__patch_size=patch)
    assert error.startswith("data.root: ") and str(root) in error
    assert name == "imagefolder" or "--data.download true" in error
    assert list(tmp_path.iterdir()) == []


def test_mnist(shared_data):
    splits = load(data__name="mnist", data__root=str(shared_data), model__patch_size=7)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [54000, 6000, 10000]
    assert splits.train.x.shape[1:] == (1, 28, 28)
    assert float(splits.mean) == pytest.approx(0.1307, abs=1e-3)  # the published values
    assert float(splits.std) == pytest.approx(0.3081, abs=1e-3)
    assert splits.test.y[:5].tolist() == [7, 2, 1, 0, 4]  # its first images, in file order


def test_cifar10(shared_data):
    splits = load(data__name="cifar10", data__root=str(shared_data), model__patch_size=4)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [45000, 5000, 10000]
    assert splits.train.x.shape[1:] == (3, 32, 32)
    assert torch.bincount(splits.val.y).tolist() == [500] * 10
    assert splits.mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-3)  # the published values
    assert splits.std.tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=1e-3)
    assert splits.classes[3] == "cat"
    assert splits.test.y[:5].tolist() == [3, 8, 8, 0, 6]


def test_dataset_normalization_matches_numpy_on_the_training_images():
    splits = load(data__train_limit=200)
    pixels = splits.train.x.numpy().astype(np.float64) / 255
    assert splits.mean.numpy() == pytest.approx(pixels.mean((0, 2, 3)), rel=1e-6)
    assert splits.std.numpy() == pytest.approx(pixels.std((0, 2, 3)), rel=1e-6)
    seen = splits.normalized(splits.scaled(splits.train.x, torch.float64))
    assert (float(seen.mean()), float(seen.std(correction=0))) == pytest.approx((0, 1), abs=1e-6)


@pytest.mark.parametrize(("normalize", "low", "high"), [("unit", 0.0, 1.0), ("half", -1.0, 1.0)])
def test_fixed_normalizations(normalize, low, high):
    splits = load(data__normalize=normalize)
    seen = splits.normalized(splits.scaled(splits.train.x))
    assert (float(seen.min()), float(seen.max())) == (low, high)


SECOND = st.one_of(st.floats(0.01, 0.99), st.integers(1, 60))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), SECOND, st.integers(0, 2**31 - 1))
def test_equals_scikit_learns_or_both_refuse(labels, second, seed):
    try:
        expected = train_test_split(range(len(labels)), test_size=second, stratify=labels, random_state=seed)
    except ValueError:
        with pytest.raises(ValueError):
            stratified_split(np.array(labels), second, seed)
        return
    for ours, theirs in zip(stratified_split(np.array(labels), second, seed), expected, strict=True):
        assert ours.tolist() == sorted(theirs)
