"""What a trained model looks at, and what it knows of place: tensors in, tensors out. No files and no drawing here.

Attention maps come from `ViT.attention_maps`: one [B, H, T, T] a layer, rows (queries) summing to 1. T tokens are the
prefix (class token and registers), then N = G * G patches in raster order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vit.config import ViTConfig
from vit.pos_embed import PosEmbed, grid


def pooled_attention(weights: Tensor, shares: Tensor, cfg: ViTConfig) -> Tensor:
    """What the tokens that make the image feature attend to, laid over the image: [B, H, T, T] -> [B, S, S] pixels.

    The mean over heads, and over queries by their `shares` [B, T] (see `ViT.pooling_shares`); its patches as a grid,
    resized bilinearly without aligned corners. Under class token pooling that is the class token's row: the overlays of
    tintn (2023) and Lodha (2025), who take the last layer's weights. The values are attention: over the *grid* they sum
    to what is given to patches. For the overlay of a rollout: `rollout(maps)[:, None]`.
    """
    row = torch.einsum("bq,bhqk->bk", shares, weights)[:, cfg.num_prefix_tokens :] / weights.shape[1]  # [B, N]
    cells = row.unflatten(1, (cfg.grid_size, cfg.grid_size))[:, None]  # [B, 1, G, G]
    return F.interpolate(cells, size=(cfg.img_size,) * 2, mode="bilinear", align_corners=False)[:, 0]


def rollout(maps: Sequence[Tensor]) -> Tensor:
    """Attention rollout (Abnar & Zuidema 2020, arXiv 2005.00928, eq. 1): depth times [B, H, T, T] -> [B, T, T].

    A layer passes on half by its residual and half by its attention, A = (mean over heads + I) / 2, rows renormalised;
    the layers are multiplied, the last one leftmost. Row i says from which input tokens the output token i is made.
    """
    total = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype, device=maps[0].device)
    for weights in maps:
        layer = weights.mean(1) + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
        total = layer / layer.sum(-1, keepdim=True) @ total
    return total


def mean_attention_distance(maps: Sequence[Tensor], cfg: ViTConfig) -> Tensor:
    """How far each head looks, in pixels: depth times [B, H, T, T] -> [depth, H].

    The distance between the centres of the query's and the key's patch, weighted by attention, then the mean over
    queries and images (arXiv 2010.11929, Figure 7 right and Appendix D.7). Prefix tokens have no place: they are left
    out, and what is left of each row is made to sum to 1. Uniform attention gives the mean distance of two patches.
    """
    place = grid(cfg.grid_size).to(maps[0]) * cfg.patch_size  # [N, 2], pixels
    distance = torch.linalg.vector_norm(place[:, None] - place[None], dim=-1)  # [N, N]
    prefix = cfg.num_prefix_tokens
    patches = [weights[:, :, prefix:, prefix:] for weights in maps]  # [B, H, N, N]
    return torch.stack([(w / w.sum(-1, keepdim=True) * distance).sum(-1).mean((0, 2)) for w in patches])


@torch.no_grad()
def position_table(pos: PosEmbed, cfg: ViTConfig) -> Tensor | None:
    """The vector that a position adds to each token, prefix first: [T, D]; as a heat map, source 003's picture.

    `pos` is one module of `vit.pos_embed.build(cfg)`, or of a trained model's `pos`. None where it adds nothing (it
    biases or rotates instead, see `position_logits`), or where what it adds depends on the tokens, so that no table is
    true of them all.
    """
    blank = torch.zeros(1, cfg.num_tokens, cfg.embed_dim, **_like(pos))
    other = torch.randn(blank.shape, generator=torch.Generator().manual_seed(0)).to(blank)
    table = pos.add(blank)
    if not table.any() or not torch.allclose(pos.add(other) - other, table, rtol=1e-4, atol=1e-5):
        return None
    return table[0]


def position_similarity(pos: PosEmbed, cfg: ViTConfig) -> Tensor | None:
    """Cosine similarity of each patch's position with every other's (arXiv 2010.11929, Figure 7 centre): [G, G, G, G].

    Entry [r, c] is the grid of similarities of the patch in row r, column c. None where `position_table` is None.
    A patch whose vector is zero is similar to none: 0.
    """
    table = position_table(pos, cfg)
    if table is None:
        return None
    unit = F.normalize(table[cfg.num_prefix_tokens :], dim=-1)  # [N, D]
    return (unit @ unit.T).reshape((cfg.grid_size,) * 4)


@torch.no_grad()
def position_logits(pos: PosEmbed, cfg: ViTConfig, q: Tensor | None = None, k: Tensor | None = None) -> Tensor | None:
    """What a position does to the attention logits of patches: [H, G, G, G, G], the patch that asks first.

    All patches ask with one query q [H, Dh] and answer to one key k [H, Dh], by default ones / sqrt(Dh) both; what these
    give without a position is taken away again. A kind whose bias depends on the query, or that turns queries and keys,
    does something else to others. For kinds that bias or rotate, what `position_similarity` is for
    those that add. None where it does not depend on the patches: neither bias nor rotation.
    """
    shape = (cfg.num_heads, cfg.head_dim)
    same = torch.full(shape, cfg.head_dim**-0.5, **_like(pos))
    queries, keys = (
        (same if x is None else x.to(same))[None, :, None].expand(1, -1, cfg.num_tokens, -1) for x in (q, k)
    )  # [1, H, T, Dh]
    bias = pos.bias(queries)
    turned_q, turned_k = pos.rotate(queries, keys)
    turned, plain = (a @ b.transpose(-2, -1) for a, b in ((turned_q, turned_k), (queries, keys)))
    logits = (turned - plain) * cfg.head_dim**-0.5  # [1, H, T, T]
    logits = (logits if bias is None else logits + bias)[0, :, cfg.num_prefix_tokens :, cfg.num_prefix_tokens :]
    if torch.allclose(logits, logits[:, :1, :1].expand_as(logits)):
        return None
    return logits.reshape(cfg.num_heads, *(cfg.grid_size,) * 4)


def _like(pos: PosEmbed) -> dict[str, torch.dtype | torch.device]:
    """Type and device of a module's tensors; torch's defaults where it has none."""
    tensors = [t for t in (*pos.parameters(), *pos.buffers()) if t.is_floating_point()]
    return {"dtype": tensors[0].dtype, "device": tensors[0].device} if tensors else {}
