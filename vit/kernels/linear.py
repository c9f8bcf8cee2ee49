"""A linear layer whose weight gradient is computed in parts on a GPU.

With thousands of rows and narrow layers the gradient is a product with a long inner axis and a small result, which
keeps few of a GPU's processors busy. As up to sixteen products, whose results are summed, it keeps all of them busy
(split-K).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_PARTS, _LEAST_ROWS = 16, 4096
_LIBRARY = torch.library.Library("vit", "FRAGMENT")
_LIBRARY.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")


class Linear(nn.Linear):
    """`nn.Linear`; on a CPU its numbers are those of PyTorch's, bit for bit."""

    def forward(self, x: Tensor) -> Tensor:
        return (linear if in_parts(x) else F.linear)(x, self.weight, self.bias)


def in_parts(x: Tensor) -> bool:
    """Whether the weight gradient is computed in parts."""
    return x.is_cuda


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x: [..., D]; weight: [M, D]; bias: [M] -> [..., M], in the dtype of autocast where that is enabled"""
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    rows = x.reshape(1, -1, x.shape[-1]).to(dtype)  # one run; `vmap` makes it R runs
    offset = None if bias is None else bias[None].to(dtype)
    return torch.ops.vit.linear(rows, weight[None].to(dtype), offset).reshape(*x.shape[:-1], -1)


class _InParts(torch.autograd.Function):
    """Linear layers of R runs. x: [R, N, D]; weight: [R, M, D]; bias: [R, M] -> [R, N, M]"""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return x @ weight.mT if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        runs, rows, _ = x.shape
        parts = math.gcd(rows, _PARTS) if rows >= _LEAST_ROWS else 1
        split_gradient, split_x = (t.reshape(runs * parts, rows // parts, -1) for t in (gradient, x))
        products = (split_gradient.mT @ split_x).unflatten(0, (runs, parts))  # [R, parts, M, D]
        needs_x, _, needs_bias = ctx.needs_input_grad
        return (
            gradient @ weight if needs_x else None,
            products.sum(1) if parts > 1 else products[:, 0],
            gradient.sum(1) if needs_bias else None,
        )


def _of_stacks(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor | None) -> tuple[Tensor, int]:
    """The rule for `vmap`: its runs and those of each stack become one axis."""
    runs = info.batch_size
    stacks = (
        t if t is None else (t.expand(runs, *t.shape) if dim is None else t.movedim(dim, 0)).flatten(0, 1)
        for t, dim in zip(tensors, in_dims, strict=True)
    )
    return torch.ops.vit.linear(*stacks).unflatten(0, (runs, -1)), 0


# A compiler that traces through `vmap` would see the forward pass of an `autograd.Function` only.
_LIBRARY.impl("linear", _InParts.apply, "CompositeImplicitAutograd")
torch.library.register_vmap("vit::linear", _of_stacks, lib=_LIBRARY)
