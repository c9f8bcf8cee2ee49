"""Kinds that rotate queries and keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vit.config import ViTConfig
from vit.pos_embed.base import PosEmbed, grid


class Rope2d(PosEmbed):
    """Axial rotary embedding (Su et al. 2021; Heo et al. 2024).

    Half of the channel pairs of a head rotate with the row, half with the column. Pair t of an axis rotates by the angle
    coordinate * 100^(-t / (Dh / 4)). Class and register tokens are not rotated.
    """

    cos: Tensor
    sin: Tensor
    BASE = 100.0  # as Heo et al., for grids of tens of patches; language models use 10000

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        quarter = cfg.head_dim // 4
        frequency = self.BASE ** -(torch.arange(quarter, dtype=torch.float64) / quarter)
        angle = (grid(cfg.grid_size).double()[:, :, None] * frequency).flatten(
            1
        )  # [N, Dh/2]: row angles, then column angles
        angle = F.pad(angle, (0, 0, cfg.num_prefix_tokens, 0))  # [T, Dh/2]
        self.register_buffer("cos", angle.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angle.sin().to(torch.get_default_dtype()), persistent=False)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self._rotate(q), self._rotate(k)

    def _rotate(self, x: Tensor) -> Tensor:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)  # the two channels of each pair, [B, H, T, Dh/2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)
