"""What W&B shows of a finished run beside numbers: the accuracy of each class, attention, position similarity.

All of it is made from the record. The pictures show validation images: a run evaluates its test images once.
"""

from __future__ import annotations

import contextlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.config import RunConfig, load
from experiments.data.catalogue import DATASETS
from experiments.runs import predictions, record

if TYPE_CHECKING:
    from experiments.data.images import Splits

ATTENTION, SIMILARITY, CLASSES = "attention", "position_similarity", "test/classes"  # names in W&B
IMAGES = 8  # the first validation images
MIN_SIDE = 128  # pixels; smaller pictures are enlarged


def of_record(run: record.Run) -> dict[str, Any]:
    """The pictures and the table. Without the dataset, or with images in a folder, there are no pictures."""
    shown: dict[str, Any] = {}
    config = load({**run.config, "data": {**run.config["data"], "download": False}})
    if run.summary["status"] == "finished" and DATASETS[config.data.name].source != "folder":
        with contextlib.suppress(Exception):  # such as a dataset that was moved: all else is sent
            shown = _pictures(run, config)
    if digest := run.summary["files"].get(record.PREDICTIONS):
        shown[CLASSES] = _classes(predictions.read(run.dir, digest))
    return shown


def _classes(kept: predictions.Predictions) -> Any:
    """A table: the number of test images of each class, and their accuracy."""
    import wandb

    hits = {int(label): kept.hits[kept.labels == label] for label in np.unique(kept.labels)}
    rows = [[str(label), len(own), float(own.mean())] for label, own in hits.items()]
    return wandb.Table(columns=["class", "images", "accuracy"], data=rows)


def _pictures(run: record.Run, config: RunConfig) -> dict[str, Any]:
    import torch
    import wandb
    from safetensors.torch import load_file

    from vit import ViT, diagnostics

    splits = _splits(config.data.model_dump_json(), config)
    cfg = config.vit_config(len(splits.classes))
    with torch.no_grad():
        model = ViT(cfg).eval()
        model.load_state_dict(load_file(run.dir / record.CHECKPOINT))
        images = splits.val.x[: min(IMAGES, len(splits.val))]
        inputs = splits.normalized(splits.scaled(images))
        last = model.attention_maps(inputs)[-1]
        attention = diagnostics.pooled_attention(last, model.pooling_weights(inputs), cfg)  # [n, S, S]
        predicted = model(inputs).argmax(-1)
        similarity = diagnostics.position_similarity(model.pos[0], cfg)  # [G, G, G, G]
    overlays = [
        wandb.Image(
            _enlarged(_overlay(image.numpy(), lit.numpy())),
            caption=f"true {splits.classes[truth]}, predicted {splits.classes[guess]}",
        )
        for image, lit, truth, guess in zip(images.permute(0, 2, 3, 1), attention, splits.val.y, predicted)
    ]
    shown: dict[str, Any] = {ATTENTION: overlays}
    if similarity is not None:
        caption = "cosine similarity with each patch's position: blue -1, white 0, red 1"
        shown[SIMILARITY] = [wandb.Image(_enlarged(_tiles(similarity.numpy())), caption=caption)]
    return shown


@lru_cache(maxsize=1)
def _splits(data: str, config: RunConfig) -> Splits:
    """The dataset of a run on the CPU. `data` identifies it among the runs of a study."""
    import torch

    from experiments.data import loading

    torch.set_num_threads(1)  # the others train
    return loading.load(config)


def _overlay(image: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """An image [S, S, C], uint8, beside the same image lit by attention [S, S]: [S, 2 S + 1, 3], uint8."""
    colour = np.broadcast_to(image, (*image.shape[:2], 3)).astype(np.float64)
    lit = colour * (attention / max(float(attention.max()), 1e-12))[..., None]
    line = np.full((len(image), 1, 3), 255.0)
    return np.concatenate([colour, line, lit], 1).round().astype(np.uint8)


def _tiles(similarity: np.ndarray) -> np.ndarray:
    """Similarities [G, G, G, G] as a mosaic [G (G + 1), G (G + 1), 3], uint8; tile (r, c) belongs to patch (r, c)."""
    grid = len(similarity)
    apart = np.zeros((grid, grid, grid + 1, grid + 1))
    apart[:, :, :grid, :grid] = similarity
    flat = apart.transpose(0, 2, 1, 3).reshape(grid * (grid + 1), -1)
    ends = ((33, 102, 172), (247, 247, 247), (178, 24, 43))  # at -1, 0 and 1
    channels = [np.interp(flat, (-1, 0, 1), channel) for channel in zip(*ends, strict=True)]
    return np.stack(channels, -1).round().astype(np.uint8)


def _enlarged(picture: np.ndarray) -> np.ndarray:
    """The picture with every pixel repeated, so that it has at least `MIN_SIDE` rows."""
    factor = -(-MIN_SIDE // len(picture))
    return picture.repeat(factor, 0).repeat(factor, 1)
