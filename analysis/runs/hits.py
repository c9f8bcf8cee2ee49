"""Hits: which test images each run classifies correctly. Read from run folders, kept in exports."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.catalogue import DATASETS
from experiments.runs import predictions, record
from experiments.sections import PER_SEED


@dataclass(frozen=True)
class RunHits:
    """A run on its N test images: whether each is classified correctly [N], bool, and its true class [N].

    `classes`: their names; none in older records. `images` identifies the test images: two runs with the same text were
    tested on the same images in the same order.
    """

    hits: np.ndarray
    labels: np.ndarray
    images: str
    classes: tuple[str, ...] = ()


def read_hits(run: record.RunRecord, row: Mapping[str, Any], labels: dict[str, np.ndarray]) -> RunHits | None:
    """Read the hits of a run with this row of `Runs.runs`; None for a record without test predictions.

    `labels` keeps one copy of the labels for each set of images. Raises `RecordError` where the file was changed.
    """
    if (digest := run.summary["files"].get(record.PREDICTIONS)) is None:
        return None
    stored = predictions.read(run.dir, digest)
    images = _identity(row, stored.labels)
    return RunHits(stored.hits, labels.setdefault(images, stored.labels), images, stored.classes)


def _identity(row: Mapping[str, Any], labels: np.ndarray) -> str:
    """The text that identifies the test images. The split counts where the test images depend on it."""
    name, files = row.get("data.name"), row["image_files"]
    parts = [str(name), hashlib.sha256(labels.astype("<u2").tobytes()).hexdigest()]
    if name not in DATASETS or DATASETS[name].source != "torchvision":
        split = row["seed"] if row.get("data.split_seed") == PER_SEED else row.get("data.split_seed")
        parts += [f"split {split}", f"test fraction {row.get('data.test_fraction')}"]
    return ", ".join([*parts, f"files {files}"] if files else parts)


def to_bytes(hits: Mapping[str, RunHits]) -> bytes:
    """Hits by run as one compressed file of numpy. The same hits give the same bytes."""
    arrays: dict[str, np.ndarray] = {}
    for number, images in enumerate(sorted({one.images for one in hits.values()})):
        runs = [run for run, one in hits.items() if one.images == images]
        arrays[f"images-{number}"] = np.array(images)
        arrays[f"labels-{number}"] = hits[runs[0]].labels
        if classes := max(hits[run].classes for run in runs):
            arrays[f"classes-{number}"] = np.array(classes)
        arrays[f"runs-{number}"] = np.array(runs)
        arrays[f"hits-{number}"] = np.packbits(np.stack([hits[run].hits for run in runs]), axis=1)
    body = io.BytesIO()
    np.savez_compressed(body, allow_pickle=False, **arrays)
    return body.getvalue()


def from_bytes(body: bytes) -> dict[str, RunHits]:
    """The inverse of `to_bytes`."""
    hits, arrays = {}, predictions.load_arrays(body)
    for number in range(sum(name.startswith("images-") for name in arrays)):
        classes = tuple(map(str, arrays.get(f"classes-{number}", ())))
        images, labels = str(arrays[f"images-{number}"]), arrays[f"labels-{number}"]
        packed = arrays[f"hits-{number}"]
        predictions.check_labels(labels, classes, packed)
        matrix = np.unpackbits(packed, axis=1, count=len(labels)).astype(bool)
        for run, row in zip(arrays[f"runs-{number}"].tolist(), matrix, strict=True):
            hits[str(run)] = RunHits(row, labels, images, classes)
    return hits
