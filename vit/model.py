"""The ViT: patch embedding, attention, blocks, pooling, head. It treats all positional embeddings alike."""

import itertools
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit import init, pos_embed
from vit.config import NORM_EPS, ViTConfig
from vit.dropout import Dropout
from vit.kernels import Linear, attend

ACTIVATIONS = {"gelu": "none", "gelu-tanh": "tanh"}  # our names -> F.gelu's `approximate`


class RmsNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps), times a learned factor for each channel (Zhang & Sennrich 2019)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))  # [..., D]; autocast leaves bfloat16 to it


def norm_layer(cfg: ViTConfig, width: int) -> nn.Module:
    """A normalisation over the last axis, of this width."""
    layer = {"layernorm": nn.LayerNorm, "rmsnorm": RmsNorm}[cfg.norm_layer]
    return layer(width, eps=NORM_EPS)


class PatchEmbed(nn.Module):
    """Split an image into patches and project each with one matrix product.

    This equals a convolution whose kernel size and stride are the patch size.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.grid_size, self.patch_size = cfg.grid_size, cfg.patch_size
        self.proj = Linear(cfg.in_chans * cfg.patch_size**2, cfg.embed_dim)

    def forward(self, images: Tensor) -> Tensor:
        b, c, _, _ = images.shape
        g, p = self.grid_size, self.patch_size
        x = images.reshape(b, c, g, p, g, p)  # [B, C, G, P, G, P]
        x = x.permute(0, 2, 4, 1, 3, 5).reshape(b, g * g, c * p * p)  # [B, N, C P P], ordered as a convolution kernel
        return self.proj(x)  # [B, N, D]


class ConvStem(nn.Module):
    """Turn an image into tokens by 3 x 3 convolutions of stride 2, then a projection (Xiao et al. 2021, section 3).

    A patch of 2^K pixels a side needs K convolutions, each followed by a normalisation and ReLU. Their number of
    channels doubles up to `embed_dim`, as in ViT_C-1GF. Neighbouring tokens share pixels, so a token also depends on
    the pixels around its patch. Xiao et al. normalise with BatchNorm and remove one layer of the encoder. Here the
    normalisation is GroupNorm with one group, which does not depend on the other images of a batch, and `depth` does
    not change.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        widths = [cfg.in_chans, *cfg.stem_widths]
        convs = [nn.Conv2d(*pair, 3, stride=2, padding=1, bias=False) for pair in itertools.pairwise(widths)]
        self.convs = nn.Sequential(*(nn.Sequential(c, nn.GroupNorm(1, c.out_channels), nn.ReLU()) for c in convs))
        self.proj = Linear(widths[-1], cfg.embed_dim)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(self.convs(images).flatten(2).transpose(1, 2))  # [B, C, S, S] -> [B, N, D]


class Attention(nn.Module):
    """Multi-head self-attention: one QKV projection for all heads, and an output projection.

    It uses `attend`, mostly PyTorch's fused kernel, and adds a positional bias there. Attention dropout in training and
    a request for the attention maps need the weights themselves; these two cases compute them explicitly. (PyTorch's
    CPU kernel has no gradient for a mask, so PyTorch itself computes the weights explicitly to train a learned bias on
    the CPU.)
    """

    qkv: nn.Module

    def __init__(self, cfg: ViTConfig, stream: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = cfg.num_heads, cfg.head_dim
        # of each head (Dehghani et al. 2023, section 2)
        self.q_norm, self.k_norm = (norm_layer(cfg, cfg.head_dim) if cfg.qk_norm else nn.Identity() for _ in range(2))
        self.attn_drop = Dropout(cfg.attn_drop_rate, stream)
        self.proj_drop = Dropout(cfg.proj_drop_rate, stream + 1)
        self._projections(cfg)

    def _projections(self, cfg: ViTConfig) -> None:
        self.qkv = Linear(cfg.embed_dim, 3 * cfg.embed_dim, bias=cfg.qkv_bias)
        self.proj = Linear(cfg.embed_dim, cfg.embed_dim)

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        b, t, _ = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.num_heads, self.head_dim)  # [B, T, 3, H, Dh]
        return tuple(part.transpose(1, 2) for part in qkv.unbind(2))  # three views [B, H, T, Dh]

    def _merge(self, x: Tensor) -> Tensor:
        b, _, t, _ = x.shape
        return self.proj(x.transpose(1, 2).reshape(b, t, -1))  # [B, T, D]

    def forward(
        self, x: Tensor, pos: pos_embed.PosEmbed, key: Tensor | None = None, maps: list[Tensor] | None = None
    ) -> Tensor:
        q, k, v = self._split(x)  # [B, H, T, Dh]
        q, k = self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype)  # autocast normalises in float32
        bias = pos.bias(q)  # None, or [B or 1, H, T, T]
        q, k = (x.to(v.dtype) for x in pos.rotate(q, k))
        v = pos.values(v)
        if maps is None and not (self.training and self.attn_drop.rate):
            x = attend(q, k, v, None if bias is None else bias.to(q.dtype))  # [B, H, T, Dh]; autocast: dtypes differ
        else:
            logits = q @ k.transpose(-2, -1) * self.head_dim**-0.5  # [B, H, T, T]
            weights = (logits if bias is None else logits + bias).softmax(-1)
            if maps is not None:
                maps.append(weights)
            x = self.attn_drop(weights, key) @ v  # [B, H, T, Dh]
        return self.proj_drop(self._merge(pos.mixed(x)), key)


class SlicedAttention(Attention):
    """Attention of Pulfer (2022): each head projects only its own slice, Dh -> Dh; no output projection."""

    qkv: nn.ModuleList

    def _projections(self, cfg: ViTConfig) -> None:
        self.qkv = nn.ModuleList(
            Linear(cfg.head_dim, 3 * cfg.head_dim, bias=cfg.qkv_bias) for _ in range(cfg.num_heads)
        )

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        slices = x.split(self.head_dim, dim=-1)  # H times [B, T, Dh]
        qkv = torch.stack([head(part) for head, part in zip(self.qkv, slices, strict=True)], 1)  # [B, H, T, 3 Dh]
        return qkv.split(self.head_dim, dim=-1)

    def _merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)  # [B, T, D]


class Mlp(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, cfg: ViTConfig, stream: int) -> None:
        super().__init__()
        self.fc1 = Linear(cfg.embed_dim, cfg.hidden_dim)
        self.approximate = ACTIVATIONS[cfg.act]
        self.act_drop = Dropout(cfg.mlp_act_drop_rate, stream)
        self.fc2 = Linear(cfg.hidden_dim, cfg.embed_dim)
        self.drop = Dropout(cfg.mlp_drop_rate, stream + 1)

    def forward(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        x = self.act_drop(F.gelu(self.fc1(x), approximate=self.approximate), key)  # [B, T, D mlp_ratio]
        return self.drop(self.fc2(x), key)  # [B, T, D]


class SwiGlu(nn.Module):
    """A gated MLP: W2 (SiLU(Wg x) * Wx x), each product with a bias (Shazeer 2020, section 2).

    The hidden width is 2/3 of a plain MLP's, rounded, so that both have as many parameters: 3 D (2/3 M) = 2 D M.
    """

    def __init__(self, cfg: ViTConfig, stream: int) -> None:
        super().__init__()
        self.fc1_g, self.fc1_x = (Linear(cfg.embed_dim, cfg.gated_dim) for _ in range(2))
        self.act_drop = Dropout(cfg.mlp_act_drop_rate, stream)
        self.fc2 = Linear(cfg.gated_dim, cfg.embed_dim)
        self.drop = Dropout(cfg.mlp_drop_rate, stream + 1)

    def forward(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        x = self.act_drop(F.silu(self.fc1_g(x)) * self.fc1_x(x), key)  # [B, T, 2/3 D mlp_ratio]
        return self.drop(self.fc2(x), key)  # [B, T, D]


class LayerScale(nn.Module):
    """A learned factor for each channel of a branch, before the residual sum (Touvron et al. 2021, CaiT)."""

    def __init__(self, width: int, initial: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), initial))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma  # [B, T, D]


class Block(nn.Module):
    """An encoder layer: attention, then MLP, each with a residual; normalised before the branch or after the sum."""

    STREAMS = 6  # number of dropout streams in a block

    def __init__(self, cfg: ViTConfig, layer: int) -> None:
        super().__init__()
        stream = 1 + layer * self.STREAMS
        drop_path = cfg.drop_path_rate * layer / max(cfg.depth - 1, 1)
        self.layer, self.pre_norm = layer, cfg.norm == "pre"
        self.norm1 = norm_layer(cfg, cfg.embed_dim)
        self.attn = {"fused": Attention, "sliced": SlicedAttention}[cfg.attn](cfg, stream)
        self.norm2 = norm_layer(cfg, cfg.embed_dim)
        self.mlp = {"plain": Mlp, "swiglu": SwiGlu}[cfg.mlp](cfg, stream + 3)
        scale = cfg.layer_scale
        self.ls1, self.ls2 = (LayerScale(cfg.embed_dim, scale) if scale else nn.Identity() for _ in range(2))
        self.drop_path1, self.drop_path2 = (Dropout(drop_path, stream + i, per_sample=True) for i in (2, 5))

    def forward(
        self, x: Tensor, pos: pos_embed.PosEmbed, key: Tensor | None = None, maps: list[Tensor] | None = None
    ) -> Tensor:
        if self.pre_norm:
            x = x + self.drop_path1(self.ls1(self.attn(pos.join(self.norm1(x), self.layer), pos, key, maps)), key)
            return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x), key)), key)
        x = self.norm1(x + self.drop_path1(self.ls1(self.attn(x, pos, key, maps)), key))
        return self.norm2(x + self.drop_path2(self.ls2(self.mlp(x, key)), key))


class ClassPool(nn.Module):
    """Pooling by the class token."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]  # [B, T, D] -> [B, D]

    def weights(self, x: Tensor) -> Tensor:
        return F.one_hot(x.new_zeros(len(x), dtype=torch.int64), x.shape[1]).to(x.dtype)  # [B, T]


class MeanPool(nn.Module):
    """Pooling by the mean of the patch tokens."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.prefix = cfg.num_prefix_tokens

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.prefix :].mean(1)  # [B, T, D] -> [B, D]

    def weights(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        return F.pad(x.new_full((b, t - self.prefix), 1 / (t - self.prefix)), (self.prefix, 0))  # [B, T]


class AttentionPool(nn.Module):
    """Pooling by a learned query over all tokens, then a plain MLP with a residual (Zhai et al. 2022, MAPHead)."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.num_heads = cfg.num_heads
        self.probe = nn.Parameter(torch.empty(1, 1, cfg.embed_dim))
        self.q = Linear(cfg.embed_dim, cfg.embed_dim, bias=cfg.qkv_bias)
        self.kv = Linear(cfg.embed_dim, 2 * cfg.embed_dim, bias=cfg.qkv_bias)
        self.proj = Linear(cfg.embed_dim, cfg.embed_dim)
        self.norm = norm_layer(cfg, cfg.embed_dim)
        self.mlp = Mlp(cfg.model_copy(update={"mlp_drop_rate": 0.0, "mlp_act_drop_rate": 0.0}), 0)

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, t, _ = x.shape
        q = self.q(self.probe).reshape(1, 1, self.num_heads, -1).transpose(1, 2).expand(b, -1, -1, -1)  # [B, H, 1, Dh]
        k, v = self.kv(x).reshape(b, t, 2, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)  # [B, H, T, Dh]
        return q, k, v

    def weights(self, x: Tensor) -> Tensor:
        q, k, _ = self._split(x)
        return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1).mean(1)[:, 0]  # [B, T]

    def forward(self, x: Tensor) -> Tensor:
        b, _, d = x.shape
        q, k, v = self._split(x)
        x = attend(q, k, v).transpose(1, 2).reshape(b, d)
        x = self.proj(x)  # [B, D]
        return x + self.mlp(self.norm(x))


class Head(nn.Sequential):
    """The classifier: linear, linear with softmax before the loss (Pulfer 2022), or one tanh hidden layer."""

    def __init__(self, cfg: ViTConfig) -> None:
        hidden = [Linear(cfg.embed_dim, cfg.embed_dim), nn.Tanh()] if cfg.head == "mlp" else []
        softmax = [nn.Softmax(-1)] if cfg.head == "softmax" else []
        super().__init__(*hidden, Linear(cfg.embed_dim, cfg.num_classes), *softmax)
        self.classifier = len(hidden)  # the index of the layer whose outputs are the logits

    def forward(self, x: Tensor, pre_logits: list[Tensor] | None = None) -> Tensor:
        for index, layer in enumerate(self):
            if pre_logits is not None and index == self.classifier:
                pre_logits.append(x)
            x = layer(x)
        return x


class ViT(nn.Module):
    """A Vision Transformer (arXiv 2010.11929) as described by its `ViTConfig`.

    Initial weights are sampled from torch's global generator, those of the positional embedding last. Two models with
    the same seed that differ only in the positional embedding have the same initial backbone.
    """

    POOLS: ClassVar[dict[str, Any]] = {"cls": ClassPool, "gap": MeanPool, "map": AttentionPool}
    STEMS: ClassVar[dict[str, Any]] = {"patchify": PatchEmbed, "conv": ConvStem}

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.patch_embed = self.STEMS[cfg.stem](cfg)
        self.cls_token = nn.Parameter(torch.empty(1, 1, cfg.embed_dim)) if cfg.class_token else None
        self.reg_token = nn.Parameter(torch.empty(1, cfg.reg_tokens, cfg.embed_dim)) if cfg.reg_tokens else None
        self.pos_drop = Dropout(cfg.pos_drop_rate, 0)
        self.blocks = nn.ModuleList(Block(cfg, layer) for layer in range(cfg.depth))
        self.norm = norm_layer(cfg, cfg.embed_dim) if cfg.final_norm else nn.Identity()
        self.pooling: ClassPool | MeanPool | AttentionPool = self.POOLS[cfg.pool](cfg)
        self.head_drop = Dropout(cfg.drop_rate, 1 + cfg.depth * Block.STREAMS)
        self.head = Head(cfg)
        init.SCHEMES[cfg.init](self)
        self.pos = pos_embed.build(cfg)
        self.register_load_state_dict_post_hook(_check_fixed)

    def embed(self, images: Tensor) -> Tensor:
        """Tokens without position. [B, C, S, S] -> [B, T, D]

        Raises `ValueError` for images of another shape, whose pixels could be reshaped to the tokens of this one.
        """
        expected = (self.cfg.in_chans, self.cfg.img_size, self.cfg.img_size)
        if images.ndim != 4 or images.shape[1:] != expected:
            raise ValueError(
                f"images: their shape is {list(images.shape)}; expected [B, {', '.join(map(str, expected))}]: batch, "
                "channels, height, width; `vit.resize.resized(model, S)` is the model for images of S x S pixels"
            )
        x = self.patch_embed(images)  # [B, N, D]
        prefix = [t.expand(x.shape[0], -1, -1) for t in (self.cls_token, self.reg_token) if t is not None]
        return torch.cat([*prefix, x], 1)  # [B, T, D]

    def position(self, layer: int) -> pos_embed.PosEmbed:
        """The positional embedding of a layer, from 0."""
        return cast(pos_embed.PosEmbed, self.pos[min(layer, len(self.pos) - 1)])

    def encode(self, images: Tensor, key: Tensor | None = None, maps: list[Tensor] | None = None) -> Tensor:
        """Tokens after the encoder. [B, C, S, S] -> [B, T, D]

        key: int32 scalar that determines all dropout masks; by default sampled from torch's generator in training.
        maps: a list to which the attention weights of each layer are appended, [B, H, T, T].
        """
        key = self._key(key, images)
        x = self.embed(images)
        for i, block in enumerate(self.blocks):
            pos = self.position(i)
            x = pos.add_in_training(x, cast(Tensor, key)) if self.training else pos.add(x)
            if i == 0:
                x = self.pos_drop(x, key)
            x = block(x, pos, key, maps)  # [B, T, D]
        return self.norm(x)

    def _key(self, key: Tensor | None, images: Tensor) -> Tensor | None:
        if key is not None or not self.training:
            return key
        return torch.randint(2**31 - 1, (), dtype=torch.int32, device=images.device)

    def forward(self, images: Tensor, key: Tensor | None = None, pre_logits: list[Tensor] | None = None) -> Tensor:
        """Class scores: logits, or probabilities if `head` is softmax. [B, C, S, S] -> [B, num_classes]

        pre_logits: a list to which the input of the last linear layer is appended, [B, D].
        """
        key = self._key(key, images)
        x = self.pooling(self.encode(images, key))  # [B, D]
        return self.head(self.head_drop(x, key), pre_logits)

    @torch.no_grad()
    def attention_maps(self, images: Tensor) -> list[Tensor]:
        """Attention weights in evaluation mode: one [B, H, T, T] per layer; rows sum to 1."""
        maps: list[Tensor] = []
        self._encode_in_eval_mode(images, maps)
        return maps

    @torch.no_grad()
    def pooling_weights(self, images: Tensor) -> Tensor:
        """Weight of each token in the image feature, in evaluation mode: [B, T]; rows sum to 1.

        1 for the class token (cls), equal for all patches (gap), or the weights of attention pooling, averaged over its
        heads (map).
        """
        return self.pooling.weights(self._encode_in_eval_mode(images))

    def _encode_in_eval_mode(self, images: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        was_training, _ = self.training, self.eval()
        try:
            return self.encode(images, maps=maps)
        finally:
            self.train(was_training)

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters without weight decay, as in timm: biases, norms, tokens and positional embeddings."""
        return {
            name for name, p in self.named_parameters() if p.ndim <= 1 or name in init.TOKENS or name.startswith("pos.")
        }


def _check_fixed(model: nn.Module, _: Any) -> None:
    """Raise `RuntimeError` where weights were assigned to a model on the meta device and leave a fixed tensor there."""
    fixed = [name for name, tensor in model.named_buffers() if tensor.is_meta]
    if fixed and not any(p.is_meta for p in model.parameters()):
        raise RuntimeError(f"{fixed[0]} is computed, not loaded: make the model without torch.device('meta')")
