"""Kinds that derive position from a convolution over the grid of patch tokens."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.pos_embed.base import Additive


class Conditional(Additive):
    """Conditional position: a 3 x 3 depth-wise convolution over the grid of patch tokens, added to them (Chu et al. 2021).

    The zero padding at the border provides absolute position. Class and register tokens get nothing. CPVT applies it
    after the first layer: `pos_site` after-first-layer. The natural site is the stem, as for every additive kind, so that
    kinds differ in nothing else. Results measured there are therefore not CPVT's.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.grid_size = cfg.grid_size
        self.conv = nn.Conv2d(cfg.embed_dim, cfg.embed_dim, kernel_size=3, padding=1, groups=cfg.embed_dim)

    def add(self, x: Tensor) -> Tensor:
        n = self.grid_size**2
        patches = x[:, -n:].transpose(1, 2).unflatten(2, (self.grid_size, self.grid_size))  # [B, D, G, G]
        return x + F.pad(self.conv(patches).flatten(2).transpose(1, 2), (0, 0, x.shape[1] - n, 0))

    def flops(self) -> int:
        return 2 * self.grid_size**2 * self.conv.weight.numel()
