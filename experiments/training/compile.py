"""`torch.compile` for runs whose configuration asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.errors import UserError

if TYPE_CHECKING:
    import torch

OFF = "none"


def compiled(function: Callable, mode: str) -> Callable:
    """Compile a function as one graph in a mode of `torch.compile`, or return it unchanged if the mode is `OFF`.

    It first discards all compiled code of the process, because PyTorch limits how often the same code is compiled and a
    worker builds many engines. Kernels are read from PyTorch's cache on disk.
    """
    if mode == OFF:
        return function
    import torch

    torch._dynamo.reset()
    return torch.compile(function, mode=mode, fullgraph=True, dynamic=False)


def require(mode: str, device: torch.device) -> None:
    """Raise `UserError` if compilation does not work on this device, for example without a C++ compiler or Triton."""
    if mode == OFF:
        return
    import torch

    try:
        compiled(lambda x: x.sin() + 1, mode)(torch.zeros(8, device=device))
    except RuntimeError as error:  # compiler errors and an unsupported version of Python are RuntimeErrors
        why = str(error).splitlines()[0]
        raise UserError(f"train.compile: {mode!r} does not work here; allowed: {OFF} (PyTorch says: {why})") from error
