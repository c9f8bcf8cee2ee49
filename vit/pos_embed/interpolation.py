"""Interpolation of learned tables to another grid.

Bicubic, as in timm's `resample_abs_pos_embed` and `pos_embed_rel`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


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
