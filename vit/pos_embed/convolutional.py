"""Kinds that take position from a convolution over the grid of tokens."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.pos_embed.base import Additive


class Conditional(Additive):
    """Conditional position: a 3 x 3 depth-wise convolution over the grid of tokens, added to them (Chu et al. 2021, CPVT).

    It knows the place by the zeros beyond the border. The class and register tokens get nothing. CPVT puts it after the
    first layer; here it enters where every additive kind does, before the first layer or before each, so that kinds
    differ in nothing else: figures measured here are not CPVT's.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.grid_size = cfg.grid_size
        self.conv = nn.Conv2d(cfg.embed_dim, cfg.embed_dim, kernel_size=3, padding=1, groups=cfg.embed_dim)

    def add(self, x: Tensor) -> Tensor:
        n = self.grid_size**2
        patches = x[:, -n:].transpose(1, 2).unflatten(2, (self.grid_size, self.grid_size))  # [B, D, G, G]
        return x + F.pad(self.conv(patches).flatten(2).transpose(1, 2), (0, 0, x.shape[1] - n, 0))
