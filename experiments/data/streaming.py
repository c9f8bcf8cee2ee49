"""Images that stay in their files: they are decoded by threads, a few batches before they are needed.

Threads and not processes: Pillow and torch release the interpreter's lock while they decode and resize, and the workers of a
sweep, being daemons, may not start processes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

Decode = Callable[[str], Tensor]
AHEAD = 2  # batches that are decoded before they are asked for
MOST_THREADS = 16


class StreamedPixels:
    """The pixels [N, 3, S, S] of image files, uint8. An index gives a tensor on `device`, as with a tensor of all pixels.

    `decode` returns the pixels [3, S, S] of a file. `check` gets the errors of the files that it cannot decode, by path,
    and raises the error to report.
    """

    def __init__(
        self,
        paths: Sequence[str],
        side: int,
        decode: Decode,
        check: Callable[[dict[str, Exception]], None],
        device: torch.device | None = None,
    ) -> None:
        self.paths, self.side, self.decode, self.check = paths, side, decode, check
        self.device = device or torch.device("cpu")

    @property
    def shape(self) -> torch.Size:
        """(N, 3, S, S)"""
        return torch.Size((len(self.paths), 3, self.side, self.side))

    def __len__(self) -> int:
        return len(self.paths)

    def to(self, device: torch.device) -> StreamedPixels:
        """The same images, decoded to another device."""
        return StreamedPixels(self.paths, self.side, self.decode, self.check, device)

    def pick(self, index: Tensor) -> StreamedPixels:
        """The images at these indices, [n] int64. Nothing is decoded."""
        return StreamedPixels([self.paths[i] for i in index.tolist()], self.side, self.decode, self.check, self.device)

    def __getitem__(self, index: Tensor | Sequence[int] | slice) -> Tensor:
        (pixels,) = self.batches([torch.arange(len(self))[index]])
        return pixels

    def batches(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """The pixels [..., 3, S, S] of each index [...], in order. The next `AHEAD` ones are decoded meanwhile."""
        pool = ThreadPoolExecutor(threads(), "decode")
        try:
            waiting: deque[_Batch] = deque()
            for index in indices:
                waiting.append(_Batch(self, pool, index.cpu()))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Batch:
    """A batch that is being decoded."""

    def __init__(self, source: StreamedPixels, pool: ThreadPoolExecutor, index: Tensor) -> None:
        self.source = source
        unique, self.inverse = torch.unique(index, return_inverse=True)  # the padding of a batch repeats an image
        self.pixels = torch.empty(len(unique), *source.shape[1:], dtype=torch.uint8)
        self.paths = [source.paths[i] for i in unique.tolist()]
        parts = [range(start, len(self.paths), threads()) for start in range(threads())]
        self.futures: list[Future[dict[str, Exception]]] = [
            pool.submit(decode_into, self.pixels, self.paths, part, source.decode) for part in parts
        ]

    def result(self) -> Tensor:
        """Wait for the pixels, [..., 3, S, S]."""
        broken = {path: error for future in self.futures for path, error in future.result().items()}
        if broken:
            self.source.check(broken)
        return self.pixels[self.inverse].to(self.source.device, non_blocking=True)


def decode_into(pixels: Tensor, paths: Sequence[str], part: range, decode: Decode) -> dict[str, Exception]:
    """Decode the files in `part` into pixels [N, 3, S, S]. Returns the errors of the others by path."""
    broken: dict[str, Exception] = {}
    for i in part:
        try:
            pixels[i] = decode(paths[i])
        except Exception as error:
            broken[paths[i]] = error
    return broken


def threads() -> int:
    """The number of threads that decode: one per core that this process may use, up to `MOST_THREADS`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)
