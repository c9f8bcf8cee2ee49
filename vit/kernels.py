"""Attention and linear layers, each in the form that is fastest on the device at hand.

Each computes what PyTorch's own function computes, within rounding, alone and under `vmap`. The model can be read
without them: `attend` is `F.scaled_dot_product_attention`, `Linear` is `nn.Linear`.

Attention is an operation `vit::attend` that a single run and a stack of runs under `vmap` share. Under `vmap` it folds
the axis of runs into the batch and calls PyTorch's fused attention once, below `vmap`. Inside `vmap` PyTorch sees
tensors without `requires_grad`. It chooses the CUDA kernel, and what the kernel saves for the backward pass, by that
flag, so attention called there saves nothing and its backward pass fails (PyTorch 2.11 to 2.13). On the CPU the fused
kernel has no batching rule at all.

The weight gradient of a linear layer is computed in parts on a GPU. With thousands of rows and narrow layers it is a
product with a long inner axis and a small result, which keeps few of a GPU's processors busy. As up to sixteen
products, whose results are summed, it keeps all of them busy (split-K).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_MOST_TOKENS = 320  # in bfloat16 on a CPU: the logits of 1,000 images with 4 heads take 0.8 GiB
_SHORT, _NARROW = range(16, 33), 8  # numbers of tokens, and width of a head, in float32 on a CPU
_CUDA_ALIGNMENT = 8  # the memory-efficient kernel needs head widths and strides of a bias that are multiples of this
_LIBRARY = torch.library.Library("vit", "DEF")
_LIBRARY.define("attend(Tensor q, Tensor k, Tensor v, Tensor? bias) -> Tensor")


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """softmax(q k^T / sqrt(Dh) + bias) v.

    q: [B, H, Tq, Dh]; k: [B, H, T, Dh]; v: [B, H, T, Dv]; bias: [B or 1, H, Tq, T], dtype of q -> [B, H, Tq, Dv]
    """
    return torch.ops.vit.attend(q, k, v, bias)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    if is_faster_in_parts(q, k):
        return _attend_in_parts(q, k, v, bias)
    if q.is_cuda and q.dtype == torch.bfloat16 and bias is not None and q.shape[-1] % _CUDA_ALIGNMENT:
        return _attend_padded(q, k, v, bias)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def is_faster_in_parts(q: Tensor, k: Tensor) -> bool:
    """Whether attention is computed in separate operations: on a CPU, where PyTorch's fused kernel is slower.

    Separate operations are 7 times as fast in bfloat16. In float32 they are 1.3 times as fast for 16 to 32 tokens and
    heads of width 8; for fewer tokens or wider heads a training step is slower with them.
    """
    if q.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if q.dtype == torch.bfloat16:
        return k.shape[-2] <= _MOST_TOKENS
    is_small = q.shape[-2] in _SHORT and k.shape[-2] in _SHORT and q.shape[-1] <= _NARROW
    return q.dtype == torch.float32 and is_small


def _attend_in_parts(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    logits = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)  # [B, H, Tq, T]
    if bias is not None:
        logits = logits + bias
    return logits.softmax(-1) @ v


def _attend_padded(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Attention with head widths padded by zeros: for others PyTorch would use separate operations."""
    width, mixed = q.shape[-1], v.shape[-1]
    q, k, v = (F.pad(x, (0, -x.shape[-1] % _CUDA_ALIGNMENT)) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=width**-0.5)[..., :mixed]


def _attend_stacked(
    info: Any, in_dims: tuple[int | None, ...], q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None
) -> tuple[Tensor, int]:
    """The rule for `vmap`: fold R runs into the batch, attend, and unfold. Returns the result and its axis of runs."""
    runs = info.batch_size

    def runs_first(x: Tensor, dim: int | None) -> Tensor:
        return x.expand(runs, *x.shape) if dim is None else x.movedim(dim, 0)

    q, k, v = (runs_first(x, dim) for x, dim in zip((q, k, v), in_dims[:3], strict=True))  # [R, B, H, T, Dh]
    if bias is not None:
        bias = _fold_bias(runs_first(bias, in_dims[3]), q.shape[1])
    out = attend(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), bias)  # [R B, H, Tq, Dh]
    return out.unflatten(0, q.shape[:2]), 0


def _fold_bias(bias: Tensor, batch: int) -> Tensor:
    """[R, B or 1, H, Tq, T] -> [R B, H, Tq, T], with aligned strides on CUDA.

    PyTorch aligns a bias by padding. Doing it here pads before the copy to R B, not after.
    """
    tokens = bias.shape[-1]
    if bias.is_cuda:
        bias = F.pad(bias, (0, -tokens % _CUDA_ALIGNMENT))
    return bias.expand(-1, batch, -1, -1, -1).flatten(0, 1)[..., :tokens]


_LIBRARY.impl("attend", _attend, "CompositeImplicitAutograd")
torch.library.register_vmap("vit::attend", _attend_stacked, lib=_LIBRARY)


_PARTS, _LEAST_ROWS = 16, 4096
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
