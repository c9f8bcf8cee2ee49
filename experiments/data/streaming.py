"""Images that are decoded when used, by threads, a few batches before they are needed.

Threads and not processes: Pillow and torch release the interpreter's lock while they decode and resize, and the workers
of a sweep, being daemons, may not start processes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from experiments.devices import CORES
from experiments.errors import say
from experiments.memory import GIB, machine_memory

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
