"""The interface of a positional embedding, and how the model builds the modules of one.

The model calls three methods without asking which kind it holds: `add` changes the tokens that enter a layer, `rotate`
changes queries and keys, `bias` adds to the attention logits. T tokens are the class token, the registers, then
N = G * G patches in raster order. Register tokens never get a position.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.registry import ADDITIVE, Encodes, resolve


class PosEmbed(nn.Module):
    """A positional embedding that does nothing. Subclasses override `add`, `rotate` or `bias`.

    A plug-in's class may set `sites` (where it may enter, its natural site first), `encodes` and `encodes_prefix`, as
    in `vit.registry.Kind`.
    """

    sites: ClassVar[tuple[str, ...]] = ("every-layer",)
    encodes: ClassVar[Encodes | None] = None
    encodes_prefix: ClassVar[Encodes | None] = "none"

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        """Raise `ValueError` where the model's shape does not suit a plug-in's kind."""

    def add(self, x: Tensor) -> Tensor:
        """The tokens that enter a layer. [B, T, D] -> [B, T, D]"""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys. Each [B, H, T, Dh] -> the same shape"""
        return q, k

    def bias(self, q: Tensor) -> Tensor | None:
        """What is added to the attention logits, or None. q: [B, H, T, Dh] -> [B or 1, H, T, T]"""
        return None


class NoPosition(PosEmbed):
    """No position at all: the model sees a bag of patches (arXiv 2010.11929, Table 8, first row)."""


class Additive(PosEmbed):
    """A vector for each token, added at the configured site."""

    sites = ADDITIVE


def build(cfg: ViTConfig) -> nn.ModuleList:
    """The modules of `cfg.pos_embed`: layer i uses number i, and the last one serves all the layers beyond it."""
    kind, site = resolve(cfg)
    if site == "stem":
        return nn.ModuleList([kind(cfg), PosEmbed(cfg)])
    return nn.ModuleList(kind(cfg) for _ in range(1 if site == "every-layer-shared" else cfg.depth))


def grid(size: int) -> Tensor:
    """Row and column of each patch in raster order: [N, 2], float."""
    return torch.cartesian_prod(torch.arange(size), torch.arange(size)).float().reshape(-1, 2)
