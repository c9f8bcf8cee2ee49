"""The interface of a positional embedding, and the function that builds its modules for a model.

The model calls the same methods for every kind: `add` changes the tokens that enter a layer (`add_in_training` does so
in training), `join` changes what the attention of a layer reads, `rotate` changes queries and keys, `bias` adds to the
attention logits, `values` and `mixed` change what attention mixes. T tokens are the class token, the registers, then
N = G * G patches in raster order. Register tokens get no position of their own.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import NORM_EPS, ViTConfig
from vit.registry import ADDITIVE, AFTER_FIRST, NORMED, resolve


class PosEmbed(nn.Module):
    """A positional embedding that does nothing. Subclasses override one of its methods.

    `cfg` is the configuration of the model. The class of a plug-in may set `sites` (the allowed sites, the natural one
    first) and `defaults`, as in `vit.registry.Kind`.
    """

    sites: ClassVar[tuple[str, ...]] = ("every-layer",)
    defaults: ClassVar[Mapping[str, float]] = {}

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.cfg = cfg

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        """Raise `ValueError` if the model's shape does not fit the kind.

        For plug-ins; built-in kinds use `multiples`.
        """

    def add(self, x: Tensor) -> Tensor:
        """Add the position to the input tokens of a layer. [B, T, D] -> [B, T, D]"""
        return x

    def add_in_training(self, x: Tensor, key: Tensor) -> Tensor:
        """As `add`, in training. A kind that augments positions overrides it.

        key: int32 scalar, a new one for each step; it determines what is sampled (see `vit.dropout`).
        """
        return self.add(x)

    def join(self, x: Tensor, layer: int) -> Tensor:
        """Add the position to the normalised tokens that the attention of a layer reads. [B, T, D] -> [B, T, D]"""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys by position. Each [B, H, T, Dh] -> the same shape"""
        return q, k

    def bias(self, q: Tensor) -> Tensor | None:
        """The bias to add to the attention logits, or None. q: [B, H, T, Dh] -> [B or 1, H, T, T]"""
        return None

    def values(self, v: Tensor) -> Tensor:
        """The values, and more columns, mixed with the same weights. [B, H, T, Dh] -> [B, H, T, Dh + E]"""
        return v

    def mixed(self, x: Tensor) -> Tensor:
        """The output of attention from the mixed columns of `values`. [B, H, T, Dh + E] -> [B, H, T, Dh]"""
        return x

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        """The values of this module for the model `cfg`, which differs in image size: name -> tensor.

        By default all parameters, unchanged. Buffers that are not named are computed for the new size. A kind overrides
        this method if the shape of a parameter depends on the grid, and interpolates that parameter.
        """
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def stretch(self, factor: float) -> None:
        """Multiply the coordinates of all patches by a factor, in place. For kinds that rotate queries and keys."""
        raise ValueError("its class does not override `stretch`")

    def at_layer(self, layer: int) -> None:
        """Prepare the module for its layer (0 is the first). For kinds that differ between layers."""


class NoPosition(PosEmbed):
    """No positional embedding: the model sees a bag of patches (arXiv 2010.11929, Table 8, first row)."""


class Additive(PosEmbed):
    """Base class of kinds that add a vector to each token at the configured site."""

    sites = ADDITIVE


class LayerNormed(PosEmbed):
    """One table for all layers, with a LayerNorm of its own in each (LaPE, arXiv 2212.05262).

    The attention of a layer reads LayerNorm(tokens) + LayerNorm'(table), and its residual has no position. A token
    without a position, such as a register, gets the bias of LayerNorm'.
    """

    table: PosEmbed

    def __init__(self, cfg: ViTConfig, table: PosEmbed) -> None:
        super().__init__(cfg)
        self.table = table
        self.norms = nn.ModuleList(nn.LayerNorm(cfg.embed_dim, eps=NORM_EPS) for _ in range(cfg.depth))

    def join(self, x: Tensor, layer: int) -> Tensor:
        return x + self.norms[layer](self.table.add(torch.zeros_like(x[:1])))

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        return super().resized(cfg) | {f"table.{name}": new for name, new in self.table.resized(cfg).items()}


def build(cfg: ViTConfig) -> nn.ModuleList:
    """The modules of `cfg.pos_embed`. Layer i uses module i, or the last module if there are fewer."""
    kind, site = resolve(cfg)
    cls = kind.cls
    if site == "stem":
        return nn.ModuleList([cls(cfg), PosEmbed(cfg)])
    if site == NORMED:
        return nn.ModuleList([LayerNormed(cfg, cls(cfg))])
    if site == AFTER_FIRST:
        return nn.ModuleList([PosEmbed(cfg), cls(cfg), PosEmbed(cfg)])
    modules = [cls(cfg) for _ in range(1 if site == "every-layer-shared" else cfg.depth)]
    for layer, module in enumerate(modules):
        module.at_layer(layer)
    return nn.ModuleList(modules)


def grid(size: int) -> Tensor:
    """Row and column of each patch in raster order: float tensor [N, 2]."""
    return torch.cartesian_prod(torch.arange(size), torch.arange(size)).float().reshape(-1, 2)


def new_table(cfg: ViTConfig, *shape: int) -> nn.Parameter:
    """A learned table of positions, normal with the standard deviation `pos_std`."""
    std = cfg.own_setting("pos_std")
    table = torch.empty(shape)
    return nn.Parameter(nn.init.trunc_normal_(table, std=std, a=-100 * std, b=100 * std))  # its default cuts at +-2


def resize_rows(table: Tensor, size: int) -> Tensor:
    """A table over one axis [L, D] with `size` rows."""
    image = table.T[None, :, :, None].repeat(1, 1, 1, 2)  # [1, D, L, 2]: torch 2.15 is wrong for images of width 1
    return _bicubic(image, (size, 2))[0, :, :, 0].T.contiguous()


def resize_tokens(table: Tensor, class_tokens: int, size: int) -> Tensor:
    """A table [C + N, D] for `size` x `size` patches: class token rows stay, those of the grid are interpolated."""
    old = round((len(table) - class_tokens) ** 0.5)
    image = table[class_tokens:].T.reshape(1, -1, old, old)
    patches = _bicubic(image, (size, size))[0].flatten(1).T
    return torch.cat([table[:class_tokens], patches])


def resize_offsets(table: Tensor, side: int) -> Tensor:
    """A table over row and column offsets, [H, S * S], for `side` offsets on each axis: [H, side * side]."""
    old = round(table.shape[1] ** 0.5)
    return F.interpolate(table.reshape(1, -1, old, old), (side, side), mode="bicubic")[0].flatten(1)


def _bicubic(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Images [1, C, H, W] of another size, computed in float32 at least: on a CPU there is no narrower kernel."""
    wide = image.to(torch.promote_types(image.dtype, torch.float32))
    return F.interpolate(wide, size, mode="bicubic", antialias=True).to(image.dtype)
