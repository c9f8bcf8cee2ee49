"""Images and their splits: uint8, in memory or in files, normalized on the way into the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.data.streaming import StreamedPixels

Pixels = Tensor | StreamedPixels


@dataclass(frozen=True)
class Images:
    """Labelled images. x: [N, C, S, S] uint8, a tensor or `StreamedPixels`; y: [N] int64"""

    x: Pixels
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> Images:
        """The same images on another device."""
        return Images(self.x.to(device), self.y.to(device))

    def pick(self, index: Tensor) -> Images:
        """The images at these indices, [n] int64."""
        x = self.x.pick(index) if isinstance(self.x, StreamedPixels) else self.x[index]
        return Images(x, self.y[index])

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Consecutive batches of at most `size` images: x [B, C, S, S] uint8, y [B]."""
        ys = self.y.split(size)
        if isinstance(self.x, StreamedPixels):
            return zip(self.x.batches(torch.arange(len(self)).split(size)), ys, strict=True)
        return zip(self.x.split(size), ys, strict=True)


@dataclass(frozen=True)
class Splits:
    """A dataset split in three, its class names, and the normalization of each channel: (x / 255 - mean) / std."""

    train: Images
    val: Images
    test: Images
    classes: tuple[str, ...]
    mean: Tensor  # [C]
    std: Tensor  # [C]
    files: str = ""  # a hash of the user's files; empty for a dataset of the catalogue that does not change

    def to(self, device: torch.device) -> Splits:
        """The same splits on another device."""
        train, val, test = (part.to(device) for part in (self.train, self.val, self.test))
        return Splits(train, val, test, self.classes, self.mean.to(device), self.std.to(device), self.files)

    def scaled(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Scale uint8 pixels [..., C, S, S] to floating point in [0, 1]."""
        return x.to(dtype) / 255

    def normalized(self, x: Tensor) -> Tensor:
        """Normalize scaled pixels [..., C, S, S] by channel: the input of the model."""
        mean, std = (v.to(x.dtype)[:, None, None] for v in (self.mean, self.std))
        return (x - mean) / std
