"""Images that are decoded when they are used give the same pixels, batches and runs as images in memory."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import flags
from torchvision.transforms.v2 import functional as tv

from experiments.config import RunConfig, override
from experiments.data import images
from experiments.data.images import AHEAD, Splits, StreamedPixels
from experiments.data.loading import load
from experiments.errors import UserError
from experiments.main import main


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two classes of 40 JPEG images of noise; no two are equal, and some are not square."""
    root = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for label, name in enumerate(("a", "b")):
        (root / name).mkdir()
        for i in range(40):
            pixels = random.integers(label * 60, 196 + label * 60, (20 + i % 3, 18, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i:02}.jpg")
    return root


def splits(root: Path, monkeypatch: pytest.MonkeyPatch, streamed: bool, **changes: object) -> Splits:
    monkeypatch.setattr(images, "IN_MEMORY", 0 if streamed else 1)
    settings = {"data.name": "imagefolder", "data.root": str(root), "data.img_size": 8, "data.normalize": "dataset"}
    return load(override(RunConfig(), {**settings, **{f"data.{name}": value for name, value in changes.items()}}))


def decoded(path: str) -> torch.Tensor:
    """By hand: the shorter side becomes 8 pixels, then the centre is cropped."""
    return tv.center_crop(tv.resize(tv.pil_to_tensor(Image.open(path)), 8, antialias=True), 8)


def test_streamed_pixels_are_those_in_memory(root, monkeypatch):
    memory, stream = (splits(root, monkeypatch, streamed, train_limit=40) for streamed in (False, True))
    assert torch.equal(memory.mean, stream.mean)
    assert torch.equal(memory.std, stream.std)
    for part in ("train", "val", "test"):
        held, lazy = getattr(memory, part), getattr(stream, part)
        assert isinstance(held.x, torch.Tensor)
        assert isinstance(lazy.x, StreamedPixels)
        assert lazy.x.shape == held.x.shape
        assert torch.equal(lazy.y, held.y)
        assert torch.equal(lazy.x[:], held.x)
        assert torch.equal(held.x, torch.stack([decoded(path) for path in lazy.x.items]))
        index = torch.tensor([[3, 0, 3], [1, 1, 2]])
        assert torch.equal(lazy.x[index], held.x[index])
        for (pixels, labels), (expected, truth) in zip(lazy.batches(3), held.batches(3), strict=True):
            assert torch.equal(pixels, expected)
            assert torch.equal(labels, truth)


def test_only_a_few_batches_are_decoded_ahead(root, monkeypatch):
    """This bounds the memory, whatever the number of images."""
    lazy, seen = splits(root, monkeypatch, True).train.x, set()
    assert isinstance(lazy, StreamedPixels)
    decode = lazy.decode
    monkeypatch.setattr(lazy, "decode", lambda path: (seen.add(path), decode(path))[1])
    batches = lazy.batches(torch.arange(40).split(4))
    for given in range(1, 4):
        next(batches)
        assert 4 * given <= len(seen) <= 4 * (given + AHEAD)
    batches.close()


@pytest.mark.parametrize(
    "augmentation", [[], ["--data.hflip", "--data.rrc-scale", "0.8", "--data.randaugment"]], ids=["plain", "augmented"]
)
def test_a_run_gives_the_same_bytes(root, tmp_path, monkeypatch, augmentation):
    """Batches of 7 do not divide the images, so the last one is shorter."""
    data = ["--data.name", "imagefolder", "--data.root", root, "--data.img-size", "8", "--train.batch-size", "7"]
    words = [*map(str, [*flags(data__train_limit="none"), *data]), *augmentation]
    for name, share in (("memory", 1), ("stream", 0)):
        monkeypatch.setattr(images, "IN_MEMORY", share)
        with pytest.raises(SystemExit) as exited:
            main([*words, "--out", str(tmp_path / name)])
        assert not exited.value.code
    runs = [next((tmp_path / name).iterdir()) for name in ("memory", "stream")]
    for file in ("metrics.csv", "checkpoint.safetensors", "test_predictions.npz"):
        assert (runs[0] / file).read_bytes() == (runs[1] / file).read_bytes(), file


def test_shuffled_patches_need_the_images_in_memory(root, monkeypatch):
    with pytest.raises(UserError, match=r"data\.shuffle_patches: true is not allowed"):
        splits(root, monkeypatch, True, shuffle_patches=True)
