"""`torch.compile` for runs whose configuration asks for it. Compiled steps are kept, and later trainers use them."""

from collections.abc import Callable, Hashable

import torch

from experiments.errors import UserError

OFF = "none"
_compiled: dict[Hashable, Callable] = {}


def compiled(key: Hashable, build: Callable[[], Callable], mode: str) -> Callable:
    """The compiled step of `key`: the one compiled before, or else the function that `build` returns, compiled now.

    A step is compiled as one graph and for fixed shapes. PyTorch limits how often it compiles the same code in a
    process; at that limit all compiled steps are discarded. Kernels are then read from PyTorch's cache on disk.
    """
    if key not in _compiled:
        if len(_compiled) >= torch._dynamo.config.recompile_limit:
            torch._dynamo.reset()
            _compiled.clear()
        _compiled[key] = torch.compile(build(), mode=mode, fullgraph=True, dynamic=False)
    return _compiled[key]


def require(mode: str, device: torch.device) -> None:
    """Raise `UserError` if compilation does not work on this device, for example without a C++ compiler or Triton."""
    if mode == OFF:
        return
    try:
        torch.compile(lambda x: x.sin() + 1, mode=mode, fullgraph=True, dynamic=False)(torch.zeros(8, device=device))
    except RuntimeError as error:  # compiler errors and an unsupported version of Python are RuntimeErrors
        why = str(error).splitlines()[0]
        raise UserError(f"train.compile: {mode!r} does not work here; allowed: {OFF} (PyTorch says: {why})") from error
