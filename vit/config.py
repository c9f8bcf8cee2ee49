"""The configuration of a model: frozen and validated. It imports no torch, so commands start fast."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from vit import registry

NORM_EPS = 1e-6  # of LayerNorm and RMSNorm: timm's and big_vision's
Count = Annotated[int, Field(ge=1, lt=2**31)]
Rate = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Site = Literal["natural", "stem", "every-layer", "every-layer-shared", "every-layer-normed", "after-first-layer"]


class Architecture(BaseModel, frozen=True, extra="forbid"):
    """All settings of a ViT except the image shape and the number of classes, which come from the data.

    Field names are timm's. An invalid combination raises `pydantic.ValidationError`, which names the field.
    """

    patch_size: Count = Field(16, description="side of a patch (pixels)")
    embed_dim: int = Field(768, ge=1, le=2**16, description="width of a token")
    depth: int = Field(12, ge=1, le=10_000, description="number of encoder layers")
    num_heads: Count = Field(12, description="attention heads per layer")
    mlp_ratio: float = Field(4.0, gt=0, le=1000, description="hidden width of the MLP, as a multiple of embed_dim")
    pos_embed: str = Field("learned-1d", description="positional embedding")
    pos_site: Site = Field("natural", description="where the embedding is applied; natural: the first site of its kind")
    rope_base: float | None = Field(
        None,
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        description="base of the frequencies of rotary embeddings; default: "
        + ", ".join(
            f"{kind.defaults['rope_base']:g} for {name}"
            for name, kind in registry.REGISTRY.data.items()
            if "rope_base" in kind.defaults
        ),
    )
    pos_std: float | None = Field(
        None,
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        description="standard deviation of a table of positions at initialisation; "
        f"default: {registry.TABLE['pos_std']:g}, with init xavier 1 / sqrt(embed_dim)",
    )
    pos_scale: float | None = Field(
        None,
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        description="factor of the fixed tables sinusoidal and sincos-2d; default: 1",
    )
    stem: Literal["patchify", "conv"] = Field(
        "patchify",
        description="image to tokens: one linear projection of each patch, or 3 x 3 convolutions of stride 2",
    )
    pool: Literal["cls", "gap", "map"] = Field(
        "cls", description="class token, mean of the patch tokens (gap) or attention pooling (map)"
    )
    head: Literal["logits", "softmax", "mlp"] = Field(
        "logits", description="classifier: linear, with softmax before the loss, or with a tanh layer"
    )
    class_token: bool = Field(True, description="put a class token first in the sequence")
    reg_tokens: int = Field(0, ge=0, lt=2**31, description="number of register tokens (Darcet et al. 2024)")
    attn: Literal["fused", "sliced"] = Field(
        "fused",
        description="fused: one QKV and one output projection; sliced: a projection per head, no output projection",
    )
    qkv_bias: bool = Field(True, description="bias in the query, key and value projections")
    qk_norm: bool = Field(False, description="normalise the queries and keys of each head, before their position")
    norm_layer: Literal["layernorm", "rmsnorm"] = Field(
        "layernorm", description="normalisation of tokens, queries and keys: LayerNorm or RMSNorm"
    )
    norm: Literal["pre", "post"] = Field("pre", description="normalise before each branch or after each residual sum")
    final_norm: bool = Field(True, description="normalise between the encoder and the pooling")
    layer_scale: float | None = Field(
        None,
        gt=0,
        le=1e3,
        allow_inf_nan=False,
        description="learned factor of each channel of a branch, LayerScale: its initial value; default: no factor",
    )
    mlp: Literal["plain", "swiglu"] = Field(
        "plain", description="MLP of a layer: two linear layers, or SwiGLU with as many parameters"
    )
    act: Literal["gelu", "gelu-tanh"] = Field(
        "gelu", description="activation of a plain MLP: GELU or its tanh approximation"
    )
    init: Literal["timm", "bert-0.02", "torch", "xavier"] = Field(
        "timm", description="weights: as in timm, as in BERT, PyTorch's default, or Xavier-uniform as in big_vision"
    )
    pos_drop_rate: Rate = Field(0.0, description="dropout after the embedding")
    attn_drop_rate: Rate = Field(0.0, description="dropout on the attention weights")
    proj_drop_rate: Rate = Field(0.0, description="dropout after attention")
    mlp_act_drop_rate: Rate = Field(0.0, description="dropout inside the MLP, after the activation")
    mlp_drop_rate: Rate = Field(0.0, description="dropout after the MLP")
    drop_rate: Rate = Field(0.0, description="dropout before the classifier")
    drop_path_rate: Rate = Field(0.0, description="stochastic depth of the last layer; rises linearly from 0")

    @model_validator(mode="after")
    def _consistent(self) -> Architecture:
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim: {self.embed_dim} is not divisible by num_heads, {self.num_heads}")
        if self.pool == "cls" and not self.class_token:
            raise ValueError("pool: 'cls' needs class_token; with class_token false choose 'gap' or 'map'")
        if self.hidden_dim < 1:
            raise ValueError(
                f"mlp_ratio: {self.mlp_ratio:g} with embed_dim {self.embed_dim} gives an MLP without hidden units"
            )
        if self.stem == "conv" and (self.patch_size < 2 or self.patch_size & (self.patch_size - 1)):
            raise ValueError(f"patch_size: {self.patch_size} is not allowed with stem conv; allowed: 2, 4, 8, 16, ...")
        if self.stem == "conv" and self.embed_dim % (divisor := self.patch_size // 2):  # a layer doubles the width
            width = f"{self.embed_dim} with stem conv and patch_size {self.patch_size}"
            raise ValueError(f"embed_dim: {width}; needs a multiple of {divisor}")
        return self

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.embed_dim // self.num_heads

    @property
    def stem_widths(self) -> list[int]:
        """Channels after each convolution of a convolutional stem: each twice the one before, the last embed_dim."""
        layers = self.patch_size.bit_length() - 1
        return [self.embed_dim >> (layers - 1 - layer) for layer in range(layers)]

    @property
    def hidden_dim(self) -> int:
        """Hidden width of a plain MLP."""
        return int(self.embed_dim * self.mlp_ratio)

    @property
    def gated_dim(self) -> int:
        """Hidden width of SwiGLU, 2/3 of a plain MLP's: its three matrices have as many weights as the plain two."""
        return max(round(2 * self.hidden_dim / 3), 1)

    @property
    def num_prefix_tokens(self) -> int:
        """Number of tokens before the first patch: class token and registers."""
        return self.class_token + self.reg_tokens


class ViTConfig(Architecture):
    """A complete model: an `Architecture`, the image shape and the number of classes. Images are square."""

    img_size: int = Field(224, ge=1, description="side of an image (pixels)")
    in_chans: int = Field(3, ge=1, description="image channels")
    num_classes: int = Field(1000, ge=2, description="number of classes")

    @model_validator(mode="after")
    def _grid(self) -> ViTConfig:
        if self.img_size % self.patch_size:
            raise ValueError(f"patch_size: {self.patch_size} does not divide the image side, {self.img_size} px")
        registry.resolve(self)  # raises for an unknown kind or site, or one that does not fit the shape
        return self

    @property
    def grid_size(self) -> int:
        """Patches along one side of an image."""
        return self.img_size // self.patch_size

    @property
    def num_patches(self) -> int:
        """Patches per image."""
        return self.grid_size**2

    @property
    def num_tokens(self) -> int:
        """Sequence length: prefix tokens and patches."""
        return self.num_prefix_tokens + self.num_patches

    def own_setting(self, field: str) -> float:
        """The value of a field that only some kinds use (`registry.Kind.defaults`); None is the kind's own default.

        A plug-in may have a table without declaring `pos_std`.
        """
        value = getattr(self, field)
        return (
            registry.defaults(registry.resolve(self)[0], self.init, self.embed_dim)[field] if value is None else value
        )
