"""Kinds that add a bias to the attention logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.init import STD
from vit.pos_embed.base import PosEmbed, grid


class Relative(PosEmbed):
    """1-D relative attention (arXiv 2010.11929, D.4; Shaw et al. 2018): an embedding r for each raster offset i - j.

    The bias q_i . r_{i-j} / sqrt(Dh) is added to the content logits before the softmax. Each head has its own Dh
    columns of the D-wide embedding. Pairs with a class or register token get 0.
    """

    offset: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        n = cfg.num_patches
        self.table = nn.Parameter(torch.empty(cfg.num_heads, 2 * n - 1, cfg.head_dim))  # [H, 2N - 1, Dh]
        nn.init.trunc_normal_(self.table, std=STD)
        i = torch.arange(n)
        self.register_buffer("offset", i[:, None] - i[None, :] + n - 1, persistent=False)  # [N, N]

    def bias(self, q: Tensor) -> Tensor:
        n, prefix = len(self.offset), q.shape[-2] - len(self.offset)
        logits = q[..., prefix:, :] @ self.table.transpose(-2, -1) * q.shape[-1] ** -0.5  # [B, H, N, 2N - 1]
        logits = logits.gather(-1, self.offset.expand(*logits.shape[:-2], n, n))  # [B, H, N, N]
        return F.pad(logits, (prefix, 0, prefix, 0))  # [B, H, T, T]


class RelBias2d(PosEmbed):
    """A learned bias for each head and 2-D offset (Liu et al. 2021, Swin; Bao et al. 2022, BEiT).

    As in BEiT, each head has three more biases for pairs with class or register tokens: from a prefix token to a patch,
    from a patch to a prefix token, and between prefix tokens.
    """

    index: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        side, prefix = 2 * cfg.grid_size - 1, cfg.num_prefix_tokens
        position = grid(cfg.grid_size).long()
        dy, dx = (position[:, None] - position[None, :] + cfg.grid_size - 1).unbind(-1)  # each [N, N]
        index = F.pad(dy * side + dx, (prefix, 0, prefix, 0))  # [T, T]
        index[:prefix, prefix:] = side * side
        index[prefix:, :prefix] = side * side + 1
        index[:prefix, :prefix] = side * side + 2
        self.register_buffer("index", index, persistent=False)
        self.table = nn.Parameter(torch.empty(cfg.num_heads, side * side + 3 * (prefix > 0)))  # [H, (2G - 1)^2 + 3]
        nn.init.trunc_normal_(self.table, std=STD)

    def bias(self, q: Tensor) -> Tensor:
        return self.table[None, :, self.index]  # [1, H, T, T]: the fused kernel needs four axes


class Alibi2d(PosEmbed):
    """A fixed penalty on the distance between patches, -slope_h * |p_i - p_j| (Press et al. 2022; in 2-D Fuller et al. 2023).

    Distances are Euclidean, in patches; slopes 2^(-8 h / H), h = 1 .. H. Pairs with a class or register token get 0.
    """

    penalty: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        position, prefix = grid(cfg.grid_size), cfg.num_prefix_tokens
        distance = F.pad(torch.cdist(position, position), (prefix, 0, prefix, 0))  # [T, T]
        slope = 2.0 ** (-8.0 * torch.arange(1, cfg.num_heads + 1) / cfg.num_heads)
        self.register_buffer("penalty", (-slope[:, None, None] * distance)[None], persistent=False)  # [1, H, T, T]

    def bias(self, q: Tensor) -> Tensor:
        return self.penalty
