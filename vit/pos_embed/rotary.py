"""Kinds that rotate queries and keys."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.pos_embed.additive import Learned1d
from vit.pos_embed.base import PosEmbed, grid
from vit.registry import BUILTIN


class Rotary(PosEmbed):
    """Base class of kinds that rotate queries and keys. A kind overrides `angles`.

    Channels 2 t and 2 t + 1 of a head are a pair, which turns by angle t. Class and register tokens are not rotated.
    `angles` is called once, by `__init__`. If `learned` is set, it is called at each use, and may read parameters.
    """

    defaults = BUILTIN["rope-2d"].defaults
    learned: ClassVar[bool] = False
    cos: Tensor
    sin: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.factor = 1.0
        if not self.learned:
            for name, table in zip(("cos", "sin"), self._cos_and_sin()):
                self.register_buffer(name, table.to(torch.get_default_dtype()), persistent=False)

    def angles(self) -> Tensor:
        """Radians for each patch, in proportion to its coordinates: [N, Dh/2], or [H, N, Dh/2] where heads differ."""
        raise NotImplementedError("override `angles`")

    def frequencies(self, count: int) -> Tensor:
        """base^(-t / count) for t < count, with the base `rope_base`: float64 [count]"""
        return self.cfg.own_setting("rope_base") ** -(torch.arange(count, dtype=torch.float64) / count)

    def _cos_and_sin(self) -> tuple[Tensor, Tensor]:
        """Of the angles of all tokens, each [T, Dh/2] or [H, T, Dh/2]."""
        angle = F.pad(self.angles() * self.factor, (0, 0, self.cfg.num_prefix_tokens, 0))
        return angle.cos(), angle.sin()

    def stretch(self, factor: float) -> None:
        self.factor = factor
        if not self.learned:
            for table, values in zip((self.cos, self.sin), self._cos_and_sin()):
                table.copy_(values)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Raises `ValueError` where `angles` returns another shape."""
        cos, sin = self._cos_and_sin() if self.learned else (self.cos, self.sin)
        if cos.shape[-2:] != (self.cfg.num_tokens, self.cfg.head_dim / 2):
            expected = f"[N, Dh/2] = [{self.cfg.num_patches}, {self.cfg.head_dim / 2:g}]"
            raise ValueError(f"`angles` returns {[*self.angles().shape]}; expected {expected}")
        return rotated(q, cos, sin), rotated(k, cos, sin)


class Rope2d(Rotary):
    """Axial rotary embedding (Su et al. 2021; Heo et al. 2024).

    Half of the channel pairs of a head rotate with the row, half with the column. Pair t of an axis rotates by the
    angle coordinate * base^(-t / (Dh / 4)), with `rope_base` 100 by default. Class and register tokens are not rotated.
    """

    def angles(self) -> Tensor:
        place = grid(self.cfg.grid_size).double()[:, :, None]  # [N, 2, 1]
        return (place * self.frequencies(self.cfg.head_dim // 4)).flatten(1)  # row angles, then column angles


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


class RopeSpherical(Rotary):
    """Rotary embedding on a sphere (van de Geijn et al. 2025, arXiv 2511.08368, section 4 and appendices F and G).

    Channels 3 t, 3 t + 1 and 3 t + 2 of a head are a point (x, y, z). It turns about the z axis by the column, then
    about the x axis by the row, each by coordinate * base^(-t / (Dh / 3)), with `rope_base` 100 by default. The two
    turns do not commute, so the attention between two patches depends on their places, not only on their offset.
    Coordinates are patches from the centre of the grid; the paper's step is 2 pi / (G - 1) for a trained grid of G x G
    patches, 0.9 for 8 x 8. The paper's heads have 60 or 63 channels; here the last Dh mod 3 channels are not rotated.
    Class and register tokens are not rotated.
    """

    defaults = BUILTIN["rope-spherical"].defaults

    def angles(self) -> Tensor:
        """float64 [2, N, Dh/3]: by the row, by the column"""
        place = grid(self.cfg.grid_size).double() - (self.cfg.grid_size - 1) / 2  # [N, 2]
        return place.T[:, :, None] * self.frequencies(self.cfg.head_dim // 3)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self._turned(q), self._turned(k)

    def _turned(self, points: Tensor) -> Tensor:
        (row_cos, cos), (row_sin, sin) = self.cos, self.sin  # each [T, Dh/3]
        width = 3 * cos.shape[-1]
        x, y, z = points[..., :width].unflatten(-1, (-1, 3)).unbind(-1)  # each [B, H, T, Dh/3]
        x, y = x * cos - y * sin, x * sin + y * cos
        y, z = y * row_cos - z * row_sin, y * row_sin + z * row_cos
        return torch.cat([torch.stack([x, y, z], -1).flatten(-2), points[..., width:]], -1)  # [B, H, T, Dh]


class RopeMixed(Rotary):
    """Rotary embedding with learned two-dimensional frequencies for each head and layer (Heo et al. 2024, RoPE-Mixed).

    Channel pair t of head h rotates by row * f[0, h, t] + column * f[1, h, t]. As in the authors' code
    (naver-ai/rope-vit, `init_random_2d_freqs`), f starts with the lengths of `rope-2d`, at base 10 by default, and with
    two directions for each head that are orthogonal and random. Class and register tokens are not rotated.
    """

    defaults = BUILTIN["rope-mixed"].defaults
    learned = True
    position: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        length = self.frequencies(cfg.head_dim // 4).to(torch.get_default_dtype())  # [Dh/4]
        turn = torch.rand(cfg.num_heads, 1) * 2 * math.pi
        column = torch.cat([length * turn.cos(), length * (turn + math.pi / 2).cos()], 1)
        row = torch.cat([length * turn.sin(), length * (turn + math.pi / 2).sin()], 1)
        self.frequency = nn.Parameter(torch.stack([row, column]))  # [2, H, Dh/2]
        position = F.pad(grid(cfg.grid_size), (0, 0, cfg.num_prefix_tokens, 0))  # [T, 2]
        self.register_buffer("position", position, persistent=False)

    def angles(self) -> Tensor:
        row, column = self.position[:, :, None, None].unbind(1)  # each [T, 1, 1]; a gradient's sum rounds by its length
        angle = (row * self.frequency[0] + column * self.frequency[1]).transpose(0, 1)  # [H, T, Dh/2]
        return angle[:, self.cfg.num_prefix_tokens :]

    def stretch(self, factor: float) -> None:
        self.position.mul_(factor)  # of the coordinates, which rounds as earlier records did


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Channel pairs (0, 1), (2, 3), ... of x [B, H, T, Dh], rotated by angles [T, Dh/2] or [H, T, Dh/2]."""
    x = x.contiguous()  # a view of the projection is slower
    other = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)  # b, a; faster than separate halves, with equal values
    return x * torch.stack([cos, cos], -1).flatten(-2) + other * torch.stack([-sin, sin], -1).flatten(-2)
