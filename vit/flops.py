"""The FLOPs of a forward pass in closed form: matrix products and convolutions, with two FLOPs for a multiply-add.

torch's `FlopCounterMode` counts the same operations. Importing it takes a second, so only the tests compare with it.
"""

import itertools

from vit.config import ViTConfig
from vit.model import ViT


def forward_flops(model: ViT) -> int:
    """FLOPs of a forward pass of one image. The kinds of positional embedding state their own (`PosEmbed.flops`)."""
    cfg = model.cfg
    position = sum(model.position(layer).flops() for layer in range(cfg.depth))
    return _stem(cfg) + position + 2 * (cfg.depth * _block(cfg) + _pool(cfg) + _head(cfg))


def _stem(cfg: ViTConfig) -> int:
    if cfg.stem == "patchify":
        return 2 * cfg.num_patches * cfg.in_chans * cfg.patch_size**2 * cfg.embed_dim
    widths, side, products = [cfg.in_chans, *cfg.stem_widths], cfg.img_size, cfg.num_patches * cfg.embed_dim**2
    for before, after in itertools.pairwise(widths):
        side //= 2
        products += side**2 * 9 * before * after
    return 2 * products


def _block(cfg: ViTConfig) -> int:
    """Multiply-adds of an encoder layer: projections, attention (scores and their mixing) and MLP."""
    t, d = cfg.num_tokens, cfg.embed_dim
    return t * (cfg.layer_weights + 2 * t * d)


def _pool(cfg: ViTConfig) -> int:
    """Multiply-adds of attention pooling: a query, the keys and values, attention, output projection and MLP."""
    if cfg.pool != "map":
        return 0
    t, d = cfg.num_tokens, cfg.embed_dim
    return 2 * d * d + 2 * t * d * d + 2 * t * d + 2 * d * cfg.hidden_dim


def _head(cfg: ViTConfig) -> int:
    return (cfg.embed_dim**2 if cfg.head == "mlp" else 0) + cfg.embed_dim * cfg.num_classes
