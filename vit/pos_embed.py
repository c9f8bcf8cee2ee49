"""Positional embeddings: the registry, and each variant as one small class. Nothing else in the project names a variant.

A variant may act in three places, and the model calls all three without asking which variant it holds: `add` to the
tokens that enter a layer, `rotate` the queries and keys, `bias` the attention logits. To add one, write a class:

    @register("my-kind")
    class MyKind(Additive):
        def __init__(self, cfg): ...
        def add(self, x): ...                 # [B, T, D] -> [B, T, D]

T tokens are the class token, the registers, then N = G * G patches in raster order. Registers never get a position.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig, nearest
from vit.init import STD

REGISTRY: dict[str, type[PosEmbed]] = {}


def register(name: str) -> Callable[[type[PosEmbed]], type[PosEmbed]]:
    """Class decorator: make a variant known by `name` to configurations, commands, studies, tests and tables."""

    def add(cls: type[PosEmbed]) -> type[PosEmbed]:
        if name in REGISTRY:
            raise ValueError(f"a positional embedding {name!r} is registered already: {REGISTRY[name].__qualname__}")
        REGISTRY[name] = cls
        return cls

    return add


class PosEmbed(nn.Module):
    """What a variant may do; as it stands, nothing. `sites` are where it may enter, its natural one first."""

    sites: ClassVar[tuple[str, ...]] = ("every-layer",)

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        """Raise `ValueError` where the model's shape does not suit the variant."""

    def add(self, x: Tensor) -> Tensor:
        """The tokens that enter a layer. [B, T, D] -> [B, T, D]"""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys. Each [B, H, T, Dh] -> the same shape"""
        return q, k

    def bias(self, q: Tensor) -> Tensor | None:
        """What is added to the attention logits, or None. q: [B, H, T, Dh] -> broadcastable to [B, H, T, T]"""
        return None


def resolve(cfg: ViTConfig) -> tuple[type[PosEmbed], str]:
    """The class of `cfg.pos_embed` and the site it enters at. Raises `ValueError` naming what does not fit."""
    if cfg.pos_embed not in REGISTRY:
        raise ValueError(f"pos_embed: {cfg.pos_embed!r} is not known; {nearest(cfg.pos_embed, list(REGISTRY))}")
    kind = REGISTRY[cfg.pos_embed]
    site = kind.sites[0] if cfg.pos_site == "natural" else cfg.pos_site
    if site not in kind.sites:
        raise ValueError(f"pos_site: {site!r} makes no sense for {cfg.pos_embed!r}; allowed: {', '.join(kind.sites)}")
    kind.check(cfg)
    return kind, site


def build(cfg: ViTConfig) -> nn.ModuleList:
    """The modules of `cfg.pos_embed`: layer i uses number i, and the last one serves all the layers beyond it."""
    kind, site = resolve(cfg)
    if site == "stem":
        return nn.ModuleList([kind(cfg), PosEmbed(cfg)])
    return nn.ModuleList(kind(cfg) for _ in range(1 if site == "every-layer-shared" else cfg.depth))


class Additive(PosEmbed):
    """A vector for each token, added where the site says."""

    sites = ("stem", "every-layer", "every-layer-shared")


class FixedAdditive(Additive):
    """An `Additive` with nothing to learn: shared or not is the same thing, so the two are not told apart."""

    sites = ("stem", "every-layer")


def _add_to_patches(x: Tensor, table: Tensor) -> Tensor:
    """Add table [N, D] to the last N tokens of x [B, T, D]."""
    return x + F.pad(table, (0, 0, x.shape[-2] - table.shape[-2], 0))


def _add_to_class_and_patches(x: Tensor, table: Tensor, cfg_class: int) -> Tensor:
    """Add table [C + N, D] to x [B, T, D]: its first C rows to the class token, the others to the patches."""
    registers = x.shape[-2] - table.shape[-2]
    if registers:
        head, tail = table[:cfg_class], table[cfg_class:]
        table = torch.cat([head, table.new_zeros(registers, table.shape[-1]), tail])
    return x + table


def grid(size: int) -> Tensor:
    """Row and column of each patch in raster order: [N, 2], float."""
    return torch.cartesian_prod(torch.arange(size), torch.arange(size)).float().reshape(-1, 2)


@register("none")
class NoPosition(PosEmbed):
    """No position at all: the model sees a bag of patches (arXiv 2010.11929, Table 8, first row)."""

    sites = ("stem",)


@register("sinusoidal")
class Sinusoidal(FixedAdditive):
    """Fixed 1-D sines (Vaswani et al. 2017, section 3.5), as Pulfer (2022) writes them, over raster order.

    p[i, j] = sin(i / 10000^(j / D)) for even j, cos(i / 10000^((j - 1) / D)) for odd j.
    The class token has index 0, the first patch 1; without a class token the first patch has index 0.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.class_token = int(cfg.class_token)
        i = torch.arange(self.class_token + cfg.num_patches, dtype=torch.float64)[:, None]
        j = torch.arange(cfg.embed_dim)[None, :]
        angle = i / 10000 ** ((j - j % 2) / cfg.embed_dim)
        table = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        self.register_buffer("table", table.to(torch.get_default_dtype()))  # [C + N, D]

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.class_token)


@register("learned-1d")
class Learned1d(Additive):
    """A learned vector for each place in raster order, the class token's included (arXiv 2010.11929, eq. 1 and D.4)."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.class_token = int(cfg.class_token)
        self.table = nn.Parameter(torch.empty(self.class_token + cfg.num_patches, cfg.embed_dim))  # [C + N, D]
        nn.init.trunc_normal_(self.table, std=STD)

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.class_token)


@register("learned-2d")
class Learned2d(Additive):
    """Two learned tables, for columns (X) and rows (Y), each D / 2 wide, concatenated (arXiv 2010.11929, D.4).

    The class token, which has no place on the grid, gets nothing.
    """

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        if cfg.embed_dim % 2:
            raise ValueError(f"embed_dim: {cfg.embed_dim} is odd, and learned-2d gives each axis half of it")

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.x_table = nn.Parameter(torch.empty(cfg.grid_size, cfg.embed_dim // 2))  # [G, D/2]
        self.y_table = nn.Parameter(torch.empty(cfg.grid_size, cfg.embed_dim // 2))  # [G, D/2]
        for table in (self.x_table, self.y_table):
            nn.init.trunc_normal_(table, std=STD)

    def add(self, x: Tensor) -> Tensor:
        size, half = self.x_table.shape
        columns = self.x_table[None, :, :].expand(size, size, half)
        rows = self.y_table[:, None, :].expand(size, size, half)
        return _add_to_patches(x, torch.cat([columns, rows], -1).reshape(size * size, 2 * half))
