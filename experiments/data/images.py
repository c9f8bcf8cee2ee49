"""Images and their splits: uint8, in memory or in files, normalized on the way into the model.

Those that do not fit in memory are decoded when used, by threads, a few batches before they are needed. Threads and not
processes: Pillow and torch release the interpreter's lock while they decode and resize, and the workers of a sweep,
being daemons, may not start processes.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.devices import CORES, GIB, machine_memory
from experiments.errors import say
from experiments.files import reading

IN_MEMORY = 1 / 8  # of this machine's memory, for decoded images: the parts of a split and each worker need a copy
AHEAD = 2  # batches that are decoded before they are asked for
THREADS = min(16, CORES)  # that decode: each holds a whole image


@dataclass
class StreamedPixels:
    """The pixels [N, 3, S, S] of images, uint8. An index gives a tensor on `device`, as a tensor's does.

    `decode` returns the pixels [3, S, S] of one of the `items`: the path of a file, or a number.
    """

    items: Sequence[Any]
    side: int
    decode: Callable[[Any], Tensor]
    device: torch.device | str = "cpu"

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.items), 3, self.side, self.side))

    def __len__(self) -> int:
        return len(self.items)

    def to(self, device: torch.device) -> StreamedPixels:
        return replace(self, device=device)

    def pick(self, index: Tensor) -> StreamedPixels:
        """The images at these indices, [n] int64. Nothing is decoded."""
        return replace(self, items=[self.items[i] for i in index.tolist()])

    def __getitem__(self, index: Tensor | Sequence[int] | slice) -> Tensor:
        (pixels,) = self.batches([torch.arange(len(self))[index]])
        return pixels

    def batches(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """The pixels [..., 3, S, S] of each index [...], in order. The next `AHEAD` ones are decoded meanwhile."""
        pool = ThreadPoolExecutor(THREADS, "decode")
        try:
            waiting: deque[Callable[[], Tensor]] = deque()
            for index in indices:
                waiting.append(self._start(pool, index.cpu()))
                if len(waiting) > AHEAD:
                    yield waiting.popleft()()
            while waiting:
                yield waiting.popleft()()
        finally:
            pool.shutdown(cancel_futures=True)

    def _start(self, pool: ThreadPoolExecutor, index: Tensor) -> Callable[[], Tensor]:
        """Start to decode the images of an index. The function that is returned waits for their pixels."""
        unique, inverse = torch.unique(index, return_inverse=True)  # the padding of a batch repeats an image
        items = [self.items[i] for i in unique.tolist()]
        pixels = torch.empty(len(items), *self.shape[1:], dtype=torch.uint8)

        def decode(i: int) -> None:
            pixels[i] = self.decode(items[i])

        futures = [pool.submit(decode, i) for i in range(len(items))]

        def result() -> Tensor:
            for future in futures:
                future.result()  # raises the error of a file that cannot be decoded
            in_order = torch.equal(inverse, torch.arange(len(items)))  # as for all images, of which no copy is made
            return (pixels if in_order else pixels[inverse]).to(self.device, non_blocking=True)

        return result


def in_memory(images: StreamedPixels) -> Tensor | StreamedPixels:
    """The pixels of images that fit in memory; else the same images, and a line that says so."""
    count, need = len(images), math.prod(images.shape)
    if need <= machine_memory() * IN_MEMORY:
        return images[:]
    say(f"data: {count:,} images need {need / GIB:,.1f} GiB decoded; they are decoded when used")
    return images


UNCOMPRESSED = (".bmp", ".pgm", ".ppm", ".tif", ".tiff")  # formats in which images of one shape have one size in bytes
END = 4096  # bytes
CHUNK = 500  # images whose values are read at once; streamed images are decoded in such batches
Pixels = Tensor | StreamedPixels


@dataclass(frozen=True)
class Images:
    """Labelled images. x: [N, C, S, S] uint8, a tensor or `StreamedPixels`; y: [N] int64"""

    x: Pixels
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> Images:
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


Parts = tuple[dict[str, Images], tuple[str, ...], str]  # `train` and perhaps `test`; the class names; `Splits.files`


@dataclass(frozen=True)
class Splits:
    """A dataset split in three, its class names, and the normalization of each channel: (x / 255 - mean) / std.

    `files`: a hash of the images, and `copies`: part -> how many of its images are training images as well. Both are
    empty for a dataset of the catalogue, which does not change; only an image folder has `copies`.
    """

    train: Images
    val: Images
    test: Images
    classes: tuple[str, ...]
    mean: Tensor  # [C]
    std: Tensor  # [C]
    files: str = ""
    copies: Mapping[str, int] = field(default_factory=dict)

    def to(self, device: torch.device) -> Splits:
        moved = {name: getattr(self, name).to(device) for name in ("train", "val", "test", "mean", "std")}
        return replace(self, **moved)

    def scaled(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Scale uint8 pixels [..., C, S, S] to floating point in [0, 1]."""
        return x.to(dtype) / 255

    def normalized(self, x: Tensor) -> Tensor:
        """Normalize scaled pixels [..., C, S, S] by channel: the input of the model."""
        return normalized(x, self.mean, self.std)


def normalized(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Scaled pixels [..., C, S, S], normalized by channel. mean, std: [C]"""
    mean, std = (v.to(x.dtype)[:, None, None] for v in (mean, std))
    return (x - mean) / std


def fitted(x: Tensor, side: int) -> Tensor:
    """uint8 images [..., C, H, W], scaled until the shorter side has `side` pixels, then cropped at the centre."""
    if x.shape[-1] == x.shape[-2] == side:
        return x
    from torchvision.transforms.v2 import functional as tv  # its import takes 2 s, and many runs do without it

    return tv.center_crop(tv.resize(x, [side], antialias=True), [side, side])


def count_copies(first: Images, second: Images) -> int:
    """The number of images of `second` that are in `first`, too: equal pixels or, if streamed, equal files."""
    hashes = set(_keys(first))
    return sum(key in hashes for key in _keys(second))


def _keys(images: Images) -> Iterator[int]:
    """A number for each image. Of a compressed file, size and end are enough: any other image has another end."""
    files = [item for item in getattr(images.x, "items", ()) if isinstance(item, str)]
    for pixels, _ in () if files else images.batches(CHUNK):
        yield from (hash(image.tobytes()) for image in pixels.numpy())
    for path in files:
        with reading(Path(path)), open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if path.lower().endswith(UNCOMPRESSED) else max(0, size - END))
            yield hash((size, file.read()))
