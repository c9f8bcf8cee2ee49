"""What a model is: a frozen, validated description. No torch here, so that commands can read it at once."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vit import registry

Rate = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Site = Literal["natural", "stem", "every-layer", "every-layer-shared"]


class Architecture(BaseModel):
    """Everything about a ViT but the shape of its images and the number of its classes, which the data decide.

    Field names are timm's. An impossible combination raises `pydantic.ValidationError`, naming the field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    patch_size: int = Field(16, ge=1, description="side of a patch, pixels")
    embed_dim: int = Field(768, ge=1, description="width of a token")
    depth: int = Field(12, ge=1, description="encoder layers")
    num_heads: int = Field(12, ge=1, description="attention heads a layer")
    mlp_ratio: float = Field(4.0, gt=0, le=1000, description="hidden width of the MLP over embed_dim")
    pos_embed: str = Field("learned-1d", description="positional embedding: a name in vit.registry")
    pos_site: Site = Field("natural", description="where position enters; natural is the kind's own first choice")
    pool: Literal["cls", "gap", "map"] = Field(
        "cls", description="image feature: class token, mean of the patches, or attention pooling"
    )
    head: Literal["logits", "softmax", "mlp"] = Field(
        "logits",
        description="classifier: linear; linear and softmax (probabilities reach the loss); or a tanh hidden layer",
    )
    class_token: bool = Field(True, description="whether a class token leads the sequence")
    reg_tokens: int = Field(0, ge=0, description="register tokens between the class token and the patches")
    attn: Literal["fused", "sliced"] = Field(
        "fused",
        description="one QKV projection and an output projection, or heads that each map their own slice, without one",
    )
    qkv_bias: bool = Field(True, description="whether the query, key and value projections have a bias")
    norm: Literal["pre", "post"] = Field("pre", description="LayerNorm before each branch, or after each sum")
    final_norm: bool = Field(True, description="LayerNorm between the encoder and the pooling")
    act: Literal["gelu", "gelu-tanh"] = Field(
        "gelu", description="activation of the MLP: exact, or its tanh approximation"
    )
    init: Literal["timm", "bert-0.02", "torch"] = Field("timm", description="initialisation; see vit.init")
    pos_drop_rate: Rate = Field(0.0, description="dropout after the embedding")
    attn_drop_rate: Rate = Field(0.0, description="dropout of the attention weights")
    proj_drop_rate: Rate = Field(0.0, description="dropout after attention")
    mlp_act_drop_rate: Rate = Field(0.0, description="dropout inside the MLP, after the activation")
    mlp_drop_rate: Rate = Field(0.0, description="dropout after the MLP")
    drop_rate: Rate = Field(0.0, description="dropout before the classifier")
    drop_path_rate: Rate = Field(
        0.0, description="stochastic depth of the last layer, rising linearly from 0 at the first"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Architecture:
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim: {self.embed_dim} is not divisible by num_heads, {self.num_heads}")
        if self.pool == "cls" and not self.class_token:
            raise ValueError("pool: 'cls' needs class_token; with class_token false choose 'gap' or 'map'")
        if self.hidden_dim < 1:
            raise ValueError(
                f"mlp_ratio: {self.mlp_ratio:g} of embed_dim, {self.embed_dim}, leaves the MLP no hidden unit"
            )
        return self

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.embed_dim // self.num_heads

    @property
    def hidden_dim(self) -> int:
        """Hidden width of the MLP."""
        return int(self.embed_dim * self.mlp_ratio)

    @property
    def num_prefix_tokens(self) -> int:
        """Tokens before the first patch: the class token and the registers."""
        return self.class_token + self.reg_tokens


class ViTConfig(Architecture):
    """A whole model: an `Architecture` and the images and classes it is for. Images are square."""

    img_size: int = Field(224, ge=1, description="side of an image, pixels")
    in_chans: int = Field(3, ge=1, description="channels of an image")
    num_classes: int = Field(1000, ge=2, description="classes")

    @model_validator(mode="after")
    def _grid(self) -> ViTConfig:
        if self.img_size % self.patch_size:
            raise ValueError(f"patch_size: {self.patch_size} does not divide the image side, {self.img_size} px")
        registry.resolve(self)  # refuses a kind or site that is unknown or does not suit the shape
        return self

    @property
    def grid_size(self) -> int:
        """Patches along a side."""
        return self.img_size // self.patch_size

    @property
    def num_patches(self) -> int:
        """Patches of an image."""
        return self.grid_size**2

    @property
    def num_tokens(self) -> int:
        """Length of the sequence: prefix tokens and patches."""
        return self.num_prefix_tokens + self.num_patches

    @cached_property
    def site(self) -> str:
        """`pos_site`, with `natural` resolved."""
        return registry.resolve(self)[1]
