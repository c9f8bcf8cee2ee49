"""Diagnostics of a trained model: attention maps and positional embeddings, as functions from tensors to tensors.

Attention maps come from `ViT.attention_maps`: one [B, H, T, T] per layer, whose rows (queries) sum to 1. The T tokens
are the prefix (class token and registers), then N = G * G patches in raster order.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.pos_embed import PosEmbed, grid
from vit.pos_embed.base import LayerNormed

HIDDEN = -1e3  # a bias below this hides a key: its attention weight is 0


def pooled_attention(weights: Tensor, pooling: Tensor, cfg: ViTConfig) -> Tensor:
    """Attention of the pooled tokens as an image: [B, H, T, T] -> [B, S, S] pixels.

    The mean over heads and the mean over queries weighted by `pooling` [B, T] (see `ViT.pooling_weights`), reshaped to
    the grid of patches and resized bilinearly (align_corners=False). With class token pooling this is the row of the
    class token, as in the overlays of tintn (2023) and Lodha (2025), who use the last layer. On the grid the values sum
    to the attention paid to patches. For the overlay of a rollout pass `rollout(maps)[:, None]`.
    """
    row = torch.einsum("bq,bhqk->bk", pooling, weights)[:, cfg.num_prefix_tokens :] / weights.shape[1]  # [B, N]
    cells = row.unflatten(1, (cfg.grid_size, cfg.grid_size))[:, None]  # [B, 1, G, G]
    return F.interpolate(cells, size=(cfg.img_size,) * 2, mode="bilinear", align_corners=False)[:, 0]


def rollout(maps: Sequence[Tensor]) -> Tensor:
    """Attention rollout (Abnar & Zuidema 2020, arXiv 2005.00928, eq. 1): depth times [B, H, T, T] -> [B, T, T].

    Each layer is A = (mean over heads + I) / 2, for attention and residual, with rows normalised to 1. The result is
    the product of all layers, the last one leftmost. Row i is the contribution of each input token to output token i.
    """
    total = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype, device=maps[0].device)
    for weights in maps:
        layer = weights.mean(1) + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
        total = layer / layer.sum(-1, keepdim=True) @ total
    return total


def mean_attention_distance(maps: Sequence[Tensor], cfg: ViTConfig) -> Tensor:
    """Mean attention distance of each head, in pixels: depth times [B, H, T, T] -> [depth, H].

    The distance between the patch centres of query and key, weighted by attention and averaged over queries and images
    (arXiv 2010.11929, Figure 7 right and Appendix D.7). Prefix tokens have no position: they are excluded and each row
    is normalised to 1 again. Uniform attention gives the mean distance between two patches.
    """
    position = grid(cfg.grid_size).to(maps[0]) * cfg.patch_size  # [N, 2], pixels
    distance = torch.linalg.vector_norm(position[:, None] - position[None], dim=-1)  # [N, N]
    prefix = cfg.num_prefix_tokens
    patches = [weights[:, :, prefix:, prefix:] for weights in maps]  # [B, H, N, N]
    return torch.stack([(w / w.sum(-1, keepdim=True) * distance).sum(-1).mean((0, 2)) for w in patches])


def first_position(modules: Iterable[nn.Module]) -> PosEmbed:
    """The first module of a model's `pos` with a positional embedding; the first of all if none has one.

    Of a table that each layer normalises, the table.
    """
    embeddings = [module for module in modules if isinstance(module, PosEmbed)]
    first = next((module for module in embeddings if type(module) is not PosEmbed), embeddings[0])
    return first.table if isinstance(first, LayerNormed) else first


@torch.no_grad()
def position_similarity(pos: PosEmbed, cfg: ViTConfig) -> Tensor | None:
    """Cosine similarity between the positions of all pairs of patches (arXiv 2010.11929, Figure 7 centre): [G, G, G,
    G].

    `pos` is one module of `vit.pos_embed.build(cfg)` or of a trained model's `pos`. Entry [r, c] is the grid of
    similarities with the patch in row r, column c; with a zero vector it is 0. None if nothing is added to the tokens
    (see `position_logits`), or what depends on them.
    """
    blank = torch.zeros(1, cfg.num_tokens, cfg.embed_dim, **_like(pos))
    other = torch.randn(blank.shape, generator=torch.Generator().manual_seed(0)).to(blank)
    table = pos.add(blank)
    if not table.any() or not torch.allclose(pos.add(other) - other, table, rtol=1e-4, atol=1e-5):
        return None
    unit = F.normalize(table[0, cfg.num_prefix_tokens :], dim=-1)  # [N, D]
    return (unit @ unit.T).reshape((cfg.grid_size,) * 4)


@torch.no_grad()
def position_logits(pos: PosEmbed, cfg: ViTConfig) -> Tensor | None:
    """Effect of a positional embedding on the attention logits between patches: [H, G, G, G, G], query patch first.

    All queries and keys are ones / sqrt(Dh). The result is the logits with position minus the logits without. This is
    the counterpart of `position_similarity` for kinds with a bias or a rotation. NaN where the bias hides the key from
    the query. None if the result is the same for all pairs of patches.
    """
    same = torch.full((1, cfg.num_heads, cfg.num_tokens, cfg.head_dim), cfg.head_dim**-0.5, **_like(pos))
    bias, (q, k) = pos.bias(same), pos.rotate(same, same)
    logits = (q @ k.transpose(-2, -1) - same @ same.transpose(-2, -1)) * cfg.head_dim**-0.5  # [1, H, T, T]
    logits = (logits if bias is None else logits + bias)[0, :, cfg.num_prefix_tokens :, cfg.num_prefix_tokens :]
    if torch.allclose(logits, logits[:, :1, :1].expand_as(logits)):
        return None
    return logits.where(logits > HIDDEN, torch.nan).reshape(cfg.num_heads, *(cfg.grid_size,) * 4)


def _like(pos: PosEmbed) -> dict[str, Any]:
    """Dtype and device of a module's tensors; torch's defaults if it has none."""
    tensors = [t for t in (*pos.parameters(), *pos.buffers()) if t.is_floating_point()]
    return {"dtype": tensors[0].dtype, "device": tensors[0].device} if tensors else {}
