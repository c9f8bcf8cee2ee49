"""Kinds that rotate queries and keys."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.pos_embed.additive import Learned1d
from vit.pos_embed.base import PosEmbed, grid
from vit.registry import BUILTIN


class Rope2d(PosEmbed):
    """Axial rotary embedding (Su et al. 2021; Heo et al. 2024).

    Half of the channel pairs of a head rotate with the row, half with the column. Pair t of an axis rotates by the
    angle coordinate * base^(-t / (Dh / 4)), with `rope_base` 100 by default. Class and register tokens are not rotated.
    """

    defaults = BUILTIN["rope-2d"].defaults
    cos: Tensor
    sin: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        frequency = frequencies(cfg)
        angle = grid(cfg.grid_size).double()[:, :, None] * frequency  # [N, 2, Dh/4]
        angle = angle.flatten(1)  # [N, Dh/2]: row angles, then column angles
        angle = F.pad(angle, (0, 0, cfg.num_prefix_tokens, 0))  # [T, Dh/2]
        self.register_buffer("cos", angle.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angle.sin().to(torch.get_default_dtype()), persistent=False)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)


class Rope2dAndTable(Rope2d):
    """`rope-2d` in every layer and a `learned-1d` table at the stem (Heo et al. 2024, RoPE-Axial + APE).

    The table of Heo et al. has no entry for the class token.
    """

    defaults = BUILTIN["rope-2d-learned-1d"].defaults
    table: Learned1d | None

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.table = Learned1d(cfg)

    def at_layer(self, layer: int) -> None:
        if layer:
            self.table = None

    def add(self, x: Tensor) -> Tensor:
        return x if self.table is None else self.table.add(x)

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        new = {} if self.table is None else self.table.resized(cfg)
        return {f"table.{name}": values for name, values in new.items()}


class RopeMixed(PosEmbed):
    """Rotary embedding with learned two-dimensional frequencies for each head and layer (Heo et al. 2024, RoPE-Mixed).

    Channel pair t of head h rotates by row * f[0, h, t] + column * f[1, h, t]. As in the authors' code
    (naver-ai/rope-vit, `init_random_2d_freqs`), f starts with the lengths of `rope-2d`, at base 10 by default, and with
    two directions for each head that are orthogonal and random. Class and register tokens are not rotated.
    """

    defaults = BUILTIN["rope-mixed"].defaults
    position: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        length = frequencies(cfg).to(torch.get_default_dtype())  # [Dh/4]
        turn = torch.rand(cfg.num_heads, 1) * 2 * math.pi
        column = torch.cat([length * turn.cos(), length * (turn + math.pi / 2).cos()], 1)
        row = torch.cat([length * turn.sin(), length * (turn + math.pi / 2).sin()], 1)
        self.frequency = nn.Parameter(torch.stack([row, column]))  # [2, H, Dh/2]
        position = F.pad(grid(cfg.grid_size), (0, 0, cfg.num_prefix_tokens, 0))  # [T, 2]
        self.register_buffer("position", position, persistent=False)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        row, column = self.position[:, :, None, None].unbind(1)  # each [T, 1, 1]
        angle = (row * self.frequency[0] + column * self.frequency[1]).transpose(0, 1)  # [H, T, Dh/2]
        cos, sin = angle.cos(), angle.sin()
        return rotated(q, cos, sin), rotated(k, cos, sin)


def frequencies(cfg: ViTConfig) -> Tensor:
    """base^(-t / (Dh / 4)) for t < Dh / 4, float64."""
    quarter = cfg.head_dim // 4
    return cfg.own_setting("rope_base") ** -(torch.arange(quarter, dtype=torch.float64) / quarter)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Channel pairs (0, 1), (2, 3), ... of x [B, H, T, Dh], rotated by angles [T, Dh/2] or [H, T, Dh/2]."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)  # the two channels of each pair, [B, H, T, Dh/2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
