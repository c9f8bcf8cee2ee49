"""`torch.compile` where a run asks for it. (The bench compiles its rivals by itself, as their users would.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.errors import UserError

if TYPE_CHECKING:
    import torch

OFF = "none"


def compiled(function: Callable, mode: str) -> Callable:
    """The function compiled in a mode of `torch.compile`, whole or not at all; as it is where the mode is `OFF`.

    What was compiled for the engine before is given up, for PyTorch compiles the same code a limited number of times,
    and a worker meets many engines. The kernels come back from PyTorch's cache on disk.
    """
    if mode == OFF:
        return function
    import torch

    torch._dynamo.reset()
    return torch.compile(function, mode=mode, fullgraph=True, dynamic=False)


def require(mode: str, device: torch.device) -> None:
    """Raise `UserError` where that cannot be done on this device: for want of a C++ compiler, or of Triton."""
    if mode == OFF:
        return
    import torch

    try:
        compiled(lambda x: x.sin() + 1, mode)(torch.zeros(8, device=device))
    except RuntimeError as error:  # its compiler's errors are such, and so is its refusal of a too new Python
        why = str(error).splitlines()[0]
        raise UserError(f"train.compile: {mode!r} does not work here; allowed: {OFF} (PyTorch says: {why})") from error
