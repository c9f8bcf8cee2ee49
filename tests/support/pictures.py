"""Folders of images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def paint(root: Path, count: int, names: Sequence[str] = ("a", "b"), size: tuple[int, int] = (8, 8)) -> Path:
    """So many images of noise in a folder for each class, of a size (width, height). Returns the root."""
    random = np.random.default_rng(0)
    for name in names:
        (root / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 255, (*size[::-1], 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root
