"""What the machine can do, and what a training step needs of it: the two sides of a roofline. No contender here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

Score = tuple[float, float]  # work done (images, unless the task says otherwise), seconds


class Clock:
    """Seconds of the block it times, the device's work included."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.seconds = device, 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        self._wait()
        start = time.perf_counter()
        yield
        self._wait()
        self.seconds = time.perf_counter() - start

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class Machine:
    """Matrix products and copies as large as they come: the rates that nothing on this machine exceeds."""

    SIDE = {"cpu": 1536, "cuda": 8192}
    COPIED = {"cpu": 2**26, "cuda": 2**30}  # bytes; far beyond any cache

    def __init__(self, entry: Any, splits: Any, device: torch.device, seat: int) -> None:
        side, kind = self.SIDE.get(device.type, 1536), torch.bfloat16 if device.type == "cuda" else torch.float32
        self.clock, self.a = Clock(device), torch.randn(side, side, device=device).to(kind)
        self.layer = nn.Linear(side, side, bias=False, device=device, dtype=kind)
        self.source = torch.zeros(self.COPIED.get(device.type, 2**26) // 4, device=device)
        self.target = torch.empty_like(self.source)

    def matmul(self, n: int) -> Score:
        """(FLOPs, seconds) of n products of square matrices; a multiply-add is two."""
        with torch.no_grad():
            return self._timed(n, lambda: self.layer(self.a), 2 * self.a.shape[0] ** 3)

    def copy(self, n: int) -> Score:
        """(bytes read and written, seconds) of n copies."""
        return self._timed(n, lambda: self.target.copy_(self.source), 2 * self.source.nbytes)

    def _timed(self, n: int, call: Callable[[], Any], work: int) -> Score:
        with self.clock.running():
            for _ in range(n):
                call()
        return n * work, self.clock.seconds


class Traffic(TorchDispatchMode):
    """Counts the bytes that operations read and write, each operation from memory and back to it."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view and not _allocates(func):
            self.total += sum(t.nbytes for t in _tensors((args, kwargs, out)))
        return out


def needs(model: nn.Module, images: Tensor, classes: Tensor) -> dict[str, float]:
    """What one image costs in training, forward and backward: `flops` (torch's `FlopCounterMode`) and `bytes`.

    The bytes are those of each operation's inputs and outputs: the traffic of running them one by one with no cache
    between. The optimiser, whose cost does not grow with the batch, is left out. images: [B, C, S, S], classes: [B]
    """
    model.train()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:  # fused kernels compute things twice
        F.cross_entropy(model(images), classes).backward()
    with Traffic() as traffic:
        F.cross_entropy(model(images), classes).backward()
    return {"flops": flops.get_total_flops() / len(images), "bytes": traffic.total / len(images)}


def _allocates(func: Any) -> bool:
    return func._schema.name.startswith(("aten::empty", "aten::new_empty", "aten::detach"))


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
