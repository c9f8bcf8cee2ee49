"""Dropout whose masks are a pure function of a key.

A mask is a hash of (key, stream, position). It is the same on every device, for a single run and for a run of a stack
under `vmap`, and after a resume. PyTorch's own dropout samples from one global generator, so its masks change with all
of these.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

_GOLDEN = -1640531527  # 2**32 / golden ratio, as a signed 32-bit integer: separates neighbouring streams
_BLOCK = 2**16  # int32 numbers that fit into the cache of one CPU core


def _hash(x: Tensor) -> Tensor:
    """Hash int32 to int32: the 32-bit finaliser `lowbias32` of C. Wellons, "Prospecting for Hash Functions" (2018)."""
    x = (x >> 16).bitwise_and_(0xFFFF).bitwise_xor_(x).mul_(0x7FEB352D)
    x = (x >> 15).bitwise_and_(0x1FFFF).bitwise_xor_(x).mul_(-2073254261)
    return (x >> 16).bitwise_and_(0xFFFF).bitwise_xor_(x)


def keep_mask(key: Tensor, stream: int, shape: tuple[int, ...], rate: float) -> Tensor:
    """The elements to keep: bool tensor of `shape`, each element True with probability 1 - rate (accurate to 2**-31).

    key: int32 scalar, a new one for each step. stream: a different number for each dropout layer.
    """
    return torch.cat([block.ge(int(rate * 2**31)) for block in _integers(key, stream, shape)]).reshape(shape)


def uniform(key: Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """Random numbers from the uniform distribution on [0, 1), multiples of 2**-24: float32 tensor of `shape`.

    key, stream: as in `keep_mask`; dropout layers use the streams from 0.
    """
    return torch.cat([block >> 7 for block in _integers(key, stream, shape)]).reshape(shape) / 2.0**24


def _integers(key: Tensor, stream: int, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Random integers in 0 .. 2**31 - 1 for the elements of `shape` in order, in blocks."""
    seed = _hash(_hash(key) + (stream * _GOLDEN + 2**31) % 2**32 - 2**31)
    total = math.prod(shape)
    whole = key.device.type != "cpu" or torch.compiler.is_compiling()  # a compiler fuses it into one pass
    block = max(total, 1) if whole else _BLOCK
    for first in range(0, total, block):
        index = torch.arange(first, min(first + block, total), dtype=torch.int32, device=key.device)
        yield _hash(index ^ seed).bitwise_and_(0x7FFFFFFF)


class Dropout(nn.Module):
    """Zero each element with probability `rate` in training and scale the rest by 1 / (1 - rate).

    `per_sample=True` drops whole samples of a batch instead: stochastic depth (Huang et al., 2016).
    """

    def __init__(self, rate: float, stream: int, per_sample: bool = False) -> None:
        super().__init__()
        self.rate, self.stream, self.per_sample = rate, stream, per_sample

    def forward(self, x: Tensor, key: Tensor | None) -> Tensor:
        """x: [B, ...]; key: int32 scalar, or None if nothing is dropped (evaluation, or rate 0)."""
        if not self.training or self.rate == 0:
            return x
        assert key is not None, "dropout in training needs a key"
        shape = (x.shape[0],) + (1,) * (x.ndim - 1) if self.per_sample else tuple(x.shape)
        return x * keep_mask(key, self.stream, shape, self.rate).to(x.dtype).div_(1 - self.rate)
