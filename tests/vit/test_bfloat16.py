"""The form of attention that bfloat16 uses on a CPU, against float64."""

import pytest
import torch
from torch.func import vmap

from vit.kernels import attend

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
