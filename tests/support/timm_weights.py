"""Our weights in timm's model, the oracle for logits."""

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from vit import ViT


def randomised(model: nn.Module) -> nn.Module:
    """Weights that leave nothing at zero or one, so that no part can hide."""
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.2)
    return model.double().eval()


def to_timm(ours: ViT, theirs: VisionTransformer) -> VisionTransformer:
    """Copy our weights into timm's model."""
    cfg, weights = ours.cfg, {name: p.detach() for name, p in ours.named_parameters()}
    state = {}
    for name in theirs.state_dict():
        if name == "patch_embed.proj.weight":
            state[name] = weights[name].reshape(cfg.embed_dim, cfg.in_chans, cfg.patch_size, cfg.patch_size)
        elif name == "pos_embed":
            table = weights["pos.0.table"]
            registers = torch.zeros(cfg.reg_tokens, cfg.embed_dim, dtype=table.dtype)
            state[name] = torch.cat([table[: cfg.class_token], registers, table[cfg.class_token :]])[None]
        elif name.startswith("head."):
            state[name] = weights[name.replace("head.", "head.0.")]
        elif name.startswith("attn_pool."):
            inner = name.removeprefix("attn_pool.")
            state[name] = weights["pooling.probe" if inner == "latent" else f"pooling.{inner}"]
        else:
            state[name] = weights[name]
    theirs.load_state_dict(state)
    return theirs.double().eval()
