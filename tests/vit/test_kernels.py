"""The kernels, computed on the CPU: linear layers against PyTorch's, attention in parts against float64."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from vit import kernels
from vit.kernels import Linear, attend


@pytest.fixture(autouse=True)
def in_parts(monkeypatch):
    monkeypatch.setattr(kernels, "in_parts", lambda x: True)


def results(tensors: list[Tensor], stacked: bool) -> list[list[Tensor]]:
    """The value and all gradients of three runs: PyTorch's layer one by one, and ours."""
    found = []
    for ours in (False, True):
        leaves = [t.clone().requires_grad_() for t in tensors]
        layer = kernels.linear if ours else torch.nn.functional.linear
        out = vmap(layer)(*leaves) if ours and stacked else torch.stack([layer(*run) for run in zip(*leaves)])
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    return found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("shape", [(256, 65, 6), (99, 65, 6), (5, 6), (6,)], ids=["parts", "odd", "few rows", "vector"])
def test_value_and_gradients_equal_torchs(shape, stacked, bias):
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, *shape), (3, 4, 6)] + [(3, 4)] * bias
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    for theirs, ours in zip(*results(tensors, stacked), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-11)


def test_autocast_gives_the_dtype_of_torchs_layer():
    layer, x = Linear(6, 4), torch.randn(8, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
        expected = torch.nn.functional.linear(x, layer.weight, layer.bias)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=2**-7, atol=1e-2)
    found.sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


ROUNDING = 2.0**-8  # of bfloat16, relative


@pytest.mark.parametrize("bias_shape", [None, (1, 3, 17, 17), (4, 3, 17, 17)], ids=["no bias", "bias", "per image"])
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(("dtype", "most"), [(torch.bfloat16, 2 * ROUNDING), (torch.float32, 1e-6)])
def test_attention_and_its_gradients(dtype, most, bias_shape, stacked):
    """The error is that of a few roundings: of queries, logits, weights and results."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3, 17, 8)] * 3 + ([bias_shape] if bias_shape else [])
    leaves = [torch.randn(2, *shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    weight = torch.randn(2, 4, 3, 17, 8, generator=generator).to(dtype)
    out = vmap(attend)(*leaves) if stacked else torch.stack([attend(*run) for run in zip(*leaves, strict=True)])
    found = [out, *torch.autograd.grad((out * weight).sum(), leaves)]

    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    q, k, v, *bias = exact
    logits = torch.einsum("rbhid,rbhjd->rbhij", q, k) / 8**0.5
    exact_out = torch.einsum("rbhij,rbhjd->rbhid", (logits + bias[0] if bias else logits).softmax(-1), v)
    expected = [exact_out, *torch.autograd.grad((exact_out * weight).sum(), exact)]
    for ours, true in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        assert float((ours.double() - true).detach().norm() / true.detach().norm()) < most
