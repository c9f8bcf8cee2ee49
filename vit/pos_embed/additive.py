"""Kinds that add a vector to each token."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.pos_embed.base import Additive, grid, new_table, resize_rows, resize_tokens


def add_to_patches(x: Tensor, table: Tensor) -> Tensor:
    """Add table [N, D] to the last N tokens of x [B, T, D]."""
    return x + F.pad(table, (0, 0, x.shape[-2] - table.shape[-2], 0))


def _add_to_class_and_patches(x: Tensor, table: Tensor, class_tokens: int) -> Tensor:
    """Add table [C + N, D] to x [B, T, D]: its first C rows to the class token, the others to the patches."""
    registers = x.shape[-2] - table.shape[-2]
    if registers:
        head, tail = table[:class_tokens], table[class_tokens:]
        table = torch.cat([head, table.new_zeros(registers, table.shape[-1]), tail])
    return x + table


def sinusoids(length: int, width: int) -> Tensor:
    """The sinusoids of Vaswani et al. (2017) for positions 0 .. length - 1: [length, width]."""
    i = torch.arange(length, dtype=torch.float64)[:, None]
    j = torch.arange(width)[None, :]
    angle = i / 10000 ** ((j - j % 2) / width)
    return torch.where(j % 2 == 0, angle.sin(), angle.cos()).to(torch.get_default_dtype())


class Sinusoidal(Additive):
    """Fixed 1-D sinusoids over raster order (Vaswani et al. 2017, section 3.5), in the form of Pulfer (2022).

    p[i, j] = sin(i / 10000^(j / D)) for even j, cos(i / 10000^((j - 1) / D)) for odd j.
    The class token has index 0, the first patch 1; without a class token the first patch has index 0. `pos_scale`
    multiplies p, whose root mean square is sqrt(1/2).
    """

    table: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        table = cfg.own_setting("pos_scale") * sinusoids(cfg.class_token + cfg.num_patches, cfg.embed_dim)
        self.register_buffer("table", table)  # [C + N, D]

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.cfg.class_token)


class Learned1d(Additive):
    """A learned vector for each position in raster order, class token included (arXiv 2010.11929, eq. 1 and D.4)."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.table = new_table(cfg, cfg.class_token + cfg.num_patches, cfg.embed_dim)  # [C + N, D]

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.cfg.class_token)

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        return {**super().resized(cfg), "table": resize_tokens(self.table.detach(), cfg.class_token, cfg.grid_size)}


class GatedLearned1d(Learned1d):
    """A `learned-1d` table with a learned gate g: 1 - tanh(g) times the table is added, g = 0 at initialisation.

    This is the gate of the vision encoder of Llama 3.2 (`MllamaPrecomputedPositionEmbedding` in Hugging Face's
    transformers), without its embedding of image tiles.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.gate = nn.Parameter(torch.zeros(1))

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, (1 - self.gate.tanh()) * self.table, self.cfg.class_token)


class Learned2d(Additive):
    """Two learned tables of width D / 2, for columns (X) and rows (Y), concatenated (arXiv 2010.11929, D.4).

    The class token, which has no position on the grid, gets nothing.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.x_table = new_table(cfg, cfg.grid_size, cfg.embed_dim // 2)  # [G, D/2]
        self.y_table = new_table(cfg, cfg.grid_size, cfg.embed_dim // 2)  # [G, D/2]

    def add(self, x: Tensor) -> Tensor:
        size, half = self.x_table.shape
        columns = self.x_table[None, :, :].expand(size, size, half)
        rows = self.y_table[:, None, :].expand(size, size, half)
        return add_to_patches(x, torch.cat([columns, rows], -1).reshape(size * size, 2 * half))

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        return {name: resize_rows(table, cfg.grid_size) for name, table in super().resized(cfg).items()}


class SinCos2d(Additive):
    """Fixed 2-D sinusoids: sin x, cos x, sin y and cos y, a quarter of the width each (Chen et al. 2021, MoCo v3).

    Frequencies are 10000^(-t / (D / 4)) for t < D / 4. big_vision divides by D / 4 - 1 instead, so that its last
    frequency is 1 / 10000. `pos_scale` multiplies the table. The class token gets nothing.
    """

    table: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        quarter = cfg.embed_dim // 4
        frequency = 10000 ** -(torch.arange(quarter, dtype=torch.float64) / quarter)
        y, x = (grid(cfg.grid_size).double()[:, axis, None] * frequency for axis in (0, 1))  # [N, D/4]
        table = torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)
        table = cfg.own_setting("pos_scale") * table.to(torch.get_default_dtype())
        self.register_buffer("table", table)  # [N, D]

    def add(self, x: Tensor) -> Tensor:
        return add_to_patches(x, self.table)


class FrozenRandom(Learned1d):
    """A `learned-1d` table at its initial values, never trained: a control with position information but no learning.

    Its effect depends on the scale of the tokens at initialisation: it is large with `init` bert-0.02, where they have
    the same standard deviation (0.02), and small otherwise.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        table = self.table.detach()
        del self.table
        self.register_buffer("table", table)  # [C + N, D]


class Conditional(Additive):
    """Conditional position: a 3 x 3 depth-wise convolution over the patch grid, added to it (Chu et al. 2021).

    The zero padding at the border provides absolute position. Class and register tokens get nothing. CPVT applies it
    after the first layer: `pos_site` after-first-layer. The natural site is the stem, as for every additive kind, so
    that kinds differ in nothing else. Results measured there are therefore not CPVT's.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.conv = nn.Conv2d(cfg.embed_dim, cfg.embed_dim, kernel_size=3, padding=1, groups=cfg.embed_dim)

    def add(self, x: Tensor) -> Tensor:
        n, size = self.cfg.num_patches, self.cfg.grid_size
        patches = x[:, -n:].transpose(1, 2).unflatten(2, (size, size))  # [B, D, G, G]
        return x + F.pad(self.conv(patches).flatten(2).transpose(1, 2), (0, 0, x.shape[1] - n, 0))
