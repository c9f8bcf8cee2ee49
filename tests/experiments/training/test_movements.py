"""The comparison of `movements` with float64, which the tests on a GPU use, sees gradients that are wrong."""

import movements
import pytest
import torch
import torch.nn.functional as F

from vit.kernels import attention


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("missing", [None, 0, 1, 2, 3], ids=["nothing", "queries", "keys", "values", "bias"])
def test_a_missing_gradient_of_attention_shows(missing, precision, monkeypatch):
    """Losses hardly change: with the bias detached, by 1e-4."""
    ours, torchs = attention._attend_in_parts, F.scaled_dot_product_attention

    def detached(tensors):
        return [t.detach() if t is not None and number == missing else t for number, t in enumerate(tensors)]

    def attend(*tensors):
        return ours(*detached(tensors))

    def fused(q, k, v, attn_mask=None):
        right = q.dtype == torch.float64  # the reference
        return torchs(q, k, v, attn_mask) if right else torchs(*detached((q, k, v, attn_mask)))

    monkeypatch.setattr(attention, "_attend_in_parts", attend)
    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    config = movements.config("rel-bias-2d", precision, "17 tokens, width 4")
    error = max(movements.errors([config], movements.CPU).values())
    assert (error > 3 * movements.TOLERANCE[precision]) == (missing is not None)
    assert error < movements.TOLERANCE[precision] or missing is not None
