"""Linear layers by oneDNN, for processors whose AVX-512 PyTorch leaves idle otherwise. No model imports it.

PyTorch multiplies float32 matrices with Intel's MKL, which keeps to AVX2 on processors of other makers; oneDNN, which
comes with PyTorch too, asks only what the processor can do. On a Zen 5 core it does 120 to 200 GFLOP/s on the shapes of
a small ViT where MKL does 65 to 85. The sums are taken in another order, and so differ by rounding.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from experiments.provenance import cpu_field

LARGE = 2**23  # multiply-adds of a product from which on the gain exceeds the price of the call


@functools.cache
def pays() -> bool:
    """Whether this machine is one of those: x86 with AVX-512, a PyTorch with MKL and oneDNN, and not made by Intel."""
    libraries = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise")  # PyTorch promises nothing of it to anyone but its compiler
    return libraries and known and wide and cpu_field("vendor_id") == "AuthenticAMD"


def adopt(model: nn.Module) -> nn.Module:
    """Give the model's linear layers this file's forward pass, where it pays. Names and weights stay as they are."""
    for module in model.modules() if pays() else ():
        if type(module) is nn.Linear:
            module.__class__ = Linear  # it adds no state
    return model


class Linear(nn.Linear):
    """`nn.Linear`, its large float32 products by oneDNN."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]"""
        plain = x.dtype != torch.float32 or x.device.type != "cpu" or torch.is_autocast_enabled("cpu")
        if plain or x.numel() * self.out_features < LARGE:
            return F.linear(x, self.weight, self.bias)
        return _Product.apply(x, self.weight, self.bias)


class _Product(torch.autograd.Function):
    """x @ weight.T + bias, and its gradients."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _multiplied(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows, needed = grad.reshape(-1, grad.shape[-1]), ctx.needs_input_grad
        return (
            _multiplied(grad, weight.t().contiguous(), None) if needed[0] else None,
            _weight_gradient(rows, x.reshape(-1, x.shape[-1])) if needed[1] else None,
            rows.sum(0) if needed[2] else None,
        )


def _weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """grad.T @ x: [B, N], [B, K] -> [N, K]. The narrower of the two goes first: that is faster."""
    if grad.shape[1] <= x.shape[1]:
        return _multiplied(grad.t(), x.t(), None)
    return _multiplied(x.t(), grad.t(), None).t().contiguous()


def _multiplied(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias, by the operation that PyTorch's own compiler uses for it."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
