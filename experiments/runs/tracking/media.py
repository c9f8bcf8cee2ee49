"""What W&B shows of a finished run: pictures with captions, and a table of the test accuracy of each class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.runs import predictions, record
from experiments.runs.tracking.pictures import Pictures

ATTENTION, SIMILARITY, CLASSES = "attention", "position_similarity", "test/classes"  # names in W&B
MIN_SIDE = 128  # pixels; smaller pictures are enlarged


def of_pictures(pictures: Pictures) -> dict[str, Any]:
    """Pictures as W&B shows them."""
    import wandb

    overlays = [
        wandb.Image(_enlarged(overlay(image, attention)), caption=f"true {truth}, predicted {predicted}")
        for image, attention, truth, predicted in zip(
            pictures.images,
            pictures.attention,
            pictures.classes[pictures.truth],
            pictures.classes[pictures.predicted],
            strict=True,
        )
    ]
    shown: dict[str, Any] = {ATTENTION: overlays}
    if pictures.similarity.size:
        caption = "cosine similarity with each patch's position: blue -1, white 0, red 1"
        shown[SIMILARITY] = [wandb.Image(_enlarged(tiles(pictures.similarity)), caption=caption)]
    return shown


def of_predictions(run_dir: Path, summary: dict[str, Any], names: Sequence[str] = ()) -> dict[str, Any]:
    """The test accuracy of each class, from the recorded predictions; empty where the record has none."""
    import wandb

    digest = summary["files"].get(record.PREDICTIONS)
    if digest is None:
        return {}
    found = predictions.read(run_dir, digest)
    return {CLASSES: wandb.Table(columns=["class", "images", "accuracy"], data=per_class(found, names))}


def per_class(found: predictions.Predictions, names: Sequence[str] = ()) -> list[list[Any]]:
    """[class, number of images, accuracy] of each class among the test images, in the order of the classes."""
    rows: list[list[Any]] = []
    for label in np.unique(found.labels):
        hits = found.hits[found.labels == label]
        rows.append([names[label] if label < len(names) else str(label), len(hits), float(hits.mean())])
    return rows


def overlay(image: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """An image [S, S, C], uint8, beside the same image lit by attention [S, S]: [S, 2 S + 1, 3], uint8."""
    colour = np.broadcast_to(image, (*image.shape[:2], 3)).astype(np.float64)
    lit = colour * (attention / max(float(attention.max()), 1e-12))[..., None]
    line = np.full((len(image), 1, 3), 255.0)
    return np.concatenate([colour, line, lit], 1).round().astype(np.uint8)


def tiles(similarity: np.ndarray) -> np.ndarray:
    """Similarities [G, G, G, G] as a mosaic [G (G + 1) - 1, G (G + 1) - 1, 3], uint8; tile (r, c) belongs to patch (r, c)."""
    grid = len(similarity)
    apart = np.full((grid, grid, grid + 1, grid + 1), np.nan)
    apart[:, :, :grid, :grid] = similarity
    flat = apart.transpose(0, 2, 1, 3).reshape(grid * (grid + 1), -1)[:-1, :-1]
    ends = ((33, 102, 172), (247, 247, 247), (178, 24, 43))  # at -1, 0 and 1
    channels = [np.interp(flat, (-1, 0, 1), channel) for channel in zip(*ends, strict=True)]
    return np.nan_to_num(np.stack(channels, -1), nan=0).round().astype(np.uint8)


def _enlarged(picture: np.ndarray) -> np.ndarray:
    """The picture with every pixel repeated, so that it has at least `MIN_SIDE` rows."""
    factor = -(-MIN_SIDE // len(picture))
    return picture.repeat(factor, 0).repeat(factor, 1)
