"""A rotation of one's own, from its angles alone."""

import math

import pytest
import torch
from torch import nn

from vit import ViT, ViTConfig
from vit.pos_embed import REGISTRY, Rotary, register
from vit.resize import resized

T, N, DH = 19, 16, 8  # the class token and two registers before 4 x 4 patches; the width of a head


class Raster(Rotary):
    """Raster order, as in a language model. Head h turns h + 1 times as fast."""

    defaults = {"rope_base": 50.0}

    def angles(self):
        angle = torch.arange(self.cfg.num_patches)[:, None] * self.frequencies(self.cfg.head_dim // 2)
        return torch.stack([angle * (head + 1) for head in range(self.cfg.num_heads)])


class LearnedRaster(Raster):
    learned = True

    def __init__(self, cfg):
        super().__init__(cfg)
        self.speed = nn.Parameter(torch.ones(()))

    def angles(self):
        return self.speed * super().angles()


@pytest.fixture(params=[Raster, LearnedRaster])
def model(request, monkeypatch):
    monkeypatch.setattr(REGISTRY, "data", dict(REGISTRY.data))
    register("mine")(request.param)

    def new(**changes):
        shape = {"img_size": 8, "patch_size": 2, "embed_dim": 2 * DH, "num_heads": 2, "depth": 2, "reg_tokens": 2}
        return ViT(ViTConfig(pos_embed="mine", **shape, **changes)).double()

    return new


def products(model, q, k):
    """Products of rotated queries and keys [H, Dh] that are the same for all tokens: [H, T, T]."""
    q, k = (x[None, :, None].expand(-1, -1, model.cfg.num_tokens, -1) for x in (q, k))
    q, k = model.pos[0].rotate(q, k)
    return (q @ k.transpose(-2, -1))[0]


@pytest.mark.parametrize("base", [None, 7.0])
@pytest.mark.parametrize(("side", "factor"), [(8, 1.0), (12, 1.0), (12, 2 / 3)])
def test_patches_turn_by_their_angles_and_other_tokens_do_not(base, side, factor, model):
    q, k = torch.randn(2, 2, DH, dtype=torch.float64)
    found = products(resized(model(rope_base=base), side, interpolated=factor != 1), q, k)
    pairs = [[complex(*x[head, 2 * t : 2 * t + 2]) for x in (q, k)] for head in range(2) for t in range(DH // 2)]
    tokens = 3 + (side // 2) ** 2
    for head in range(2):
        for i, j in [(0, 2), (1, 9), (4, 4), (5, 17), (tokens - 1, 3)]:
            steps = max(i - 3, 0) - max(j - 3, 0)
            expected = 0.0
            for t, (a, b) in enumerate(pairs[head * DH // 2 : (head + 1) * DH // 2]):
                angle = factor * (head + 1) * steps * (base or 50.0) ** (-t / (DH / 2))
                expected += (a * b.conjugate() * complex(math.cos(angle), math.sin(angle))).real
            assert found[head, i, j].item() == pytest.approx(expected, abs=1e-6)
