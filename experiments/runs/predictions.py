"""The test predictions of a finished run, test_predictions.npz: hits, probabilities and labels, in the order of the
test set, and the names of the classes.

The file is written and read by numpy. Hits take one bit for each image, probabilities two bytes, labels one or two. The
file imports no torch.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from experiments.files import UNUSABLE
from experiments.runs import record


@dataclass(frozen=True)
class Predictions:
    """hits: [N] bool, whether the prediction is correct; probabilities: [N] float16, of the true class; labels: [N],
    uint8 or uint16, the true class; classes: their names, none in older records."""

    hits: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...] = ()


def to_bytes(hits: ArrayLike, probabilities: ArrayLike, labels: ArrayLike, classes: Sequence[str] = ()) -> bytes:
    """The content of the file. The same predictions give the same bytes."""
    labels = np.asarray(labels)
    body = io.BytesIO()
    np.savez_compressed(
        body,
        hits=np.packbits(np.asarray(hits, dtype=bool)),
        probabilities=np.asarray(probabilities).astype(np.float16),
        labels=labels.astype(np.min_scalar_type(int(labels.max(initial=0)))),
        classes=np.array(classes, dtype=str),
    )
    return body.getvalue()


def read(run_dir: Path, digest: str) -> Predictions:
    """Read the predictions of a run. `digest` is the SHA-256 that its summary states.

    Raises `RecordError` where the file is missing, unreadable or changed.
    """
    path = Path(run_dir) / record.PREDICTIONS
    body = record.read_bytes(path, digest)
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            labels, probabilities, packed = (arrays[name] for name in ("labels", "probabilities", "hits"))
            classes = tuple(map(str, arrays["classes"])) if "classes" in arrays else ()
        if (
            packed.shape != (-(-len(labels) // 8),)
            or probabilities.shape != labels.shape
            or probabilities.dtype.kind != "f"
        ):
            raise ValueError("it has not one hit and one probability for each image")
        if labels.ndim != 1 or labels.dtype.kind != "u" or (classes and int(labels.max(initial=0)) >= len(classes)):
            raise ValueError("its labels are no numbers of classes")
        hits = np.unpackbits(packed, count=len(labels)).astype(bool)
    except UNUSABLE as error:
        raise record.RecordError(f"{path}: is not a file of test predictions: {error}") from error
    return Predictions(hits, probabilities, labels, classes)
