"""The forms of attention and GELU that bfloat16 uses on a CPU, against float64."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from vit.kernels import attend, gelu

tanh_gelu = partial(gelu, approximate="tanh")
ROUNDING = 2.0**-8  # of bfloat16, relative


@pytest.mark.parametrize("shape", [(3,), (5, 70_000), (0,)], ids=["one block", "several blocks", "empty"])
@pytest.mark.parametrize("stacked", [False, True])
def test_tanh_gelu_and_its_gradient(shape, stacked):
    x = (4 * torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))).bfloat16().requires_grad_()
    weight = torch.randn(2, *shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    y = vmap(tanh_gelu)(x) if stacked else tanh_gelu(x)
    (gradient,) = torch.autograd.grad((y * weight).sum(), x)
    exact_x = x.detach().double().requires_grad_()
    exact = F.gelu(exact_x, approximate="tanh")
    (exact_gradient,) = torch.autograd.grad((exact * weight).sum(), exact_x)
    assert y.dtype == gradient.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), exact.detach(), rtol=ROUNDING, atol=1e-3)
    torch.testing.assert_close(gradient.double(), exact_gradient, rtol=4 * ROUNDING, atol=2e-2)


@pytest.mark.parametrize("value", [1e4, -1e4, float("inf"), float("nan")])
def test_tanh_gelu_of_extreme_numbers_equals_torchs(value):
    x = torch.tensor([value])
    found, expected = tanh_gelu(x.bfloat16()).float(), F.gelu(x, approximate="tanh")
    torch.testing.assert_close(found, expected, rtol=ROUNDING, atol=0, equal_nan=True)


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
