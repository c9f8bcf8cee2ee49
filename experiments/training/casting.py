"""Casting the parameters of linear layers to bfloat16 in one operation instead of one per parameter.

Under `vmap` autocast casts the weight of a linear layer, but not its bias. The sum is then float32, and later layers
cast it again. With weight and bias cast beforehand a stack computes what autocast computes in a single run.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def linear_names(model: nn.Module) -> list[str]:
    """Names of the parameters of linear layers."""
    layers = [(prefix, module) for prefix, module in model.named_modules() if isinstance(module, nn.Linear)]
    return [f"{prefix}.{name}" for prefix, layer in layers for name, _ in layer.named_parameters(recurse=False)]


def to_bfloat16(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters in bfloat16. Gradients reach the parameters in their own dtype."""
    return dict(zip(params, _ToBfloat16.apply(*params.values()), strict=True))


class _ToBfloat16(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)  # a parameter that is not used keeps no gradient
        ctx.dtypes = [t.dtype for t in tensors]
        return tuple(_copies(tensors, [torch.bfloat16] * len(tensors)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [i for i, grad in enumerate(grads) if grad is not None]
        casts = _copies([grads[i] for i in present], [ctx.dtypes[i] for i in present])
        cast_by_place = dict(zip(present, casts, strict=True))
        return tuple(cast_by_place.get(i) for i in range(len(grads)))


def _copies(tensors: Any, dtypes: list[torch.dtype]) -> list[Tensor]:
    copies = [torch.empty(t.shape, dtype=dtype, device=t.device) for t, dtype in zip(tensors, dtypes, strict=True)]
    torch._foreach_copy_(copies, list(tensors))
    return copies
