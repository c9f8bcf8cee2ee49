"""Positional embeddings: the registry, and each variant as one small class. No other code asks which variant it holds.

A variant may act in three places, and the model calls all three without asking which variant it holds: `add` to the
tokens that enter a layer, `rotate` the queries and keys, `bias` the attention logits. To add one, write a class:

    @register("my-kind")
    class MyKind(Additive):
        def __init__(self, cfg): ...
        def add(self, x): ...                 # [B, T, D] -> [B, T, D]

T tokens are the class token, the registers, then N = G * G patches in raster order. Registers never get a position.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import PluginError, ViTConfig, nearest, plugins
from vit.init import STD

Tells = Literal["nothing", "place", "offset", "raster offset", "distance", "neighbourhood"]
REGISTRY: dict[str, type[PosEmbed]] = {}


def register(name: str) -> Callable[[type[PosEmbed]], type[PosEmbed]]:
    """Class decorator: make a variant known by `name` to configurations, commands, studies, tests and tables."""

    def add(cls: type[PosEmbed]) -> type[PosEmbed]:
        if name in REGISTRY:
            raise ValueError(f"a positional embedding {name!r} is registered already: {REGISTRY[name].__qualname__}")
        REGISTRY[name] = cls
        return cls

    return add


class PosEmbed(nn.Module):
    """What a variant may do; as it stands, nothing. `sites` are where it may enter, its natural one first.

    `tells` is what it lets a layer know of the places of two patches, `tells_prefix` of a patch and a prefix token:
    nothing, both places, the offset between them, or in raster order, their distance, or the offset of neighbours only.
    """

    sites: ClassVar[tuple[str, ...]] = ("every-layer",)
    tells: ClassVar[Tells] = "nothing"
    tells_prefix: ClassVar[Tells] = "nothing"

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        """Raise `ValueError` where the model's shape does not suit the variant."""

    def add(self, x: Tensor) -> Tensor:
        """The tokens that enter a layer. [B, T, D] -> [B, T, D]"""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys. Each [B, H, T, Dh] -> the same shape"""
        return q, k

    def bias(self, q: Tensor) -> Tensor | None:
        """What is added to the attention logits, or None. q: [B, H, T, Dh] -> [B or 1, H, T, T]"""
        return None


def resolve(cfg: ViTConfig) -> tuple[type[PosEmbed], str]:
    """The class of `cfg.pos_embed` and the site it enters at. Raises `ValueError` naming what does not fit."""
    if cfg.pos_embed not in REGISTRY:
        raise ValueError(f"pos_embed: {cfg.pos_embed!r} is not known; {nearest(cfg.pos_embed, list(REGISTRY))}")
    kind = REGISTRY[cfg.pos_embed]
    site = kind.sites[0] if cfg.pos_site == "natural" else cfg.pos_site
    if site not in kind.sites:
        raise ValueError(f"pos_site: {site!r} makes no sense for {cfg.pos_embed!r}; allowed: {', '.join(kind.sites)}")
    kind.check(cfg)
    return kind, site


def build(cfg: ViTConfig) -> nn.ModuleList:
    """The modules of `cfg.pos_embed`: layer i uses number i, and the last one serves all the layers beyond it."""
    kind, site = resolve(cfg)
    if site == "stem":
        return nn.ModuleList([kind(cfg), PosEmbed(cfg)])
    return nn.ModuleList(kind(cfg) for _ in range(1 if site == "every-layer-shared" else cfg.depth))


class Additive(PosEmbed):
    """A vector for each token, added where the site says."""

    sites = ("stem", "every-layer", "every-layer-shared")
    tells = tells_prefix = "place"


class FixedAdditive(Additive):
    """An `Additive` with nothing to learn: shared or not is the same thing, so the two are not told apart."""

    sites = ("stem", "every-layer")


def _add_to_patches(x: Tensor, table: Tensor) -> Tensor:
    """Add table [N, D] to the last N tokens of x [B, T, D]."""
    return x + F.pad(table, (0, 0, x.shape[-2] - table.shape[-2], 0))


def _add_to_class_and_patches(x: Tensor, table: Tensor, class_tokens: int) -> Tensor:
    """Add table [C + N, D] to x [B, T, D]: its first C rows to the class token, the others to the patches."""
    registers = x.shape[-2] - table.shape[-2]
    if registers:
        head, tail = table[:class_tokens], table[class_tokens:]
        table = torch.cat([head, table.new_zeros(registers, table.shape[-1]), tail])
    return x + table


def grid(size: int) -> Tensor:
    """Row and column of each patch in raster order: [N, 2], float."""
    return torch.cartesian_prod(torch.arange(size), torch.arange(size)).float().reshape(-1, 2)


@register("none")
class NoPosition(PosEmbed):
    """No position at all: the model sees a bag of patches (arXiv 2010.11929, Table 8, first row)."""

    sites = ("stem",)


@register("sinusoidal")
class Sinusoidal(FixedAdditive):
    """Fixed 1-D sines (Vaswani et al. 2017, section 3.5), as Pulfer (2022) writes them, over raster order.

    p[i, j] = sin(i / 10000^(j / D)) for even j, cos(i / 10000^((j - 1) / D)) for odd j.
    The class token has index 0, the first patch 1; without a class token the first patch has index 0.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.class_token = int(cfg.class_token)
        i = torch.arange(self.class_token + cfg.num_patches, dtype=torch.float64)[:, None]
        j = torch.arange(cfg.embed_dim)[None, :]
        angle = i / 10000 ** ((j - j % 2) / cfg.embed_dim)
        table = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        self.register_buffer("table", table.to(torch.get_default_dtype()))  # [C + N, D]

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.class_token)


@register("learned-1d")
class Learned1d(Additive):
    """A learned vector for each place in raster order, the class token's included (arXiv 2010.11929, eq. 1 and D.4)."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.class_token = int(cfg.class_token)
        self.table = nn.Parameter(torch.empty(self.class_token + cfg.num_patches, cfg.embed_dim))  # [C + N, D]
        nn.init.trunc_normal_(self.table, std=STD)

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.class_token)


@register("learned-2d")
class Learned2d(Additive):
    """Two learned tables, for columns (X) and rows (Y), each D / 2 wide, concatenated (arXiv 2010.11929, D.4).

    The class token, which has no place on the grid, gets nothing.
    """

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        if cfg.embed_dim % 2:
            raise ValueError(f"embed_dim: {cfg.embed_dim} is odd, and learned-2d gives each axis half of it")

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.x_table = nn.Parameter(torch.empty(cfg.grid_size, cfg.embed_dim // 2))  # [G, D/2]
        self.y_table = nn.Parameter(torch.empty(cfg.grid_size, cfg.embed_dim // 2))  # [G, D/2]
        for table in (self.x_table, self.y_table):
            nn.init.trunc_normal_(table, std=STD)

    def add(self, x: Tensor) -> Tensor:
        size, half = self.x_table.shape
        columns = self.x_table[None, :, :].expand(size, size, half)
        rows = self.y_table[:, None, :].expand(size, size, half)
        return _add_to_patches(x, torch.cat([columns, rows], -1).reshape(size * size, 2 * half))


@register("relative")
class Relative(PosEmbed):
    """1-D relative attention (arXiv 2010.11929, D.4; Shaw et al. 2018): an embedding for each raster offset i - j.

    The queries attend to the embeddings as to extra keys, q_i . r_{i-j} / sqrt(Dh), and that is added to the content
    logits before the softmax. Each head has its own Dh of the D-wide embedding. Pairs with a class or register token
    get 0.
    """

    sites = ("every-layer", "every-layer-shared")
    tells = "raster offset"

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


@register("sincos-2d")
class SinCos2d(FixedAdditive):
    """Fixed 2-D sines: a quarter of the width each for sin x, cos x, sin y, cos y (Chen et al. 2021, MoCo v3).

    Frequencies 10000^(-t / (D / 4)), t < D / 4 (big_vision's table, otherwise the same, has D / 4 - 1 there, so that the
    last is 1 / 10000). The class token gets nothing.
    """

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        if cfg.embed_dim % 4:
            raise ValueError(f"embed_dim: {cfg.embed_dim} is not divisible by 4, and sincos-2d cuts it in quarters")

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        quarter = cfg.embed_dim // 4
        frequency = 10000 ** -(torch.arange(quarter, dtype=torch.float64) / quarter)
        y, x = (grid(cfg.grid_size).double()[:, axis, None] * frequency for axis in (0, 1))  # [N, D/4]
        table = torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)
        self.register_buffer("table", table.to(torch.get_default_dtype()))  # [N, D]

    def add(self, x: Tensor) -> Tensor:
        return _add_to_patches(x, self.table)


@register("rel-bias-2d")
class RelBias2d(PosEmbed):
    """A learned logit for each head and 2-D offset (Liu et al. 2021, Swin; Bao et al. 2022, BEiT).

    As in BEiT, three more logits a head serve pairs with a class or register token: from it, to it, among them.
    """

    sites = ("every-layer", "every-layer-shared")
    tells = "offset"

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        side, prefix = 2 * cfg.grid_size - 1, cfg.num_prefix_tokens
        place = grid(cfg.grid_size).long()
        dy, dx = (place[:, None] - place[None, :] + cfg.grid_size - 1).unbind(-1)  # each [N, N]
        index = F.pad(dy * side + dx, (prefix, 0, prefix, 0))  # [T, T]
        index[:prefix, prefix:] = side * side
        index[prefix:, :prefix] = side * side + 1
        index[:prefix, :prefix] = side * side + 2
        self.register_buffer("index", index, persistent=False)
        self.table = nn.Parameter(torch.empty(cfg.num_heads, side * side + 3 * (prefix > 0)))  # [H, (2G - 1)^2 + 3]
        nn.init.trunc_normal_(self.table, std=STD)

    def bias(self, q: Tensor) -> Tensor:
        return self.table[None, :, self.index]  # [1, H, T, T]: the fused kernel takes no mask of three axes


@register("rope-2d")
class Rope2d(PosEmbed):
    """Axial rotary embedding: half of a head's pairs turn with the row, half with the column (Su et al. 2021; Heo et al. 2024).

    Pair t of an axis turns by coordinate * 100^(-t / (Dh / 4)). The class and register tokens are not turned.
    """

    tells = "offset"
    tells_prefix = "place"  # unturned, a prefix token stands in the first cell: what turns a patch is its place
    BASE = 100.0  # for grids of tens of cells, as Heo et al.; language models use 10000

    @classmethod
    def check(cls, cfg: ViTConfig) -> None:
        if cfg.head_dim % 4:
            raise ValueError(f"embed_dim: gives heads of width {cfg.head_dim}, and rope-2d needs a multiple of 4")

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        quarter = cfg.head_dim // 4
        frequency = self.BASE ** -(torch.arange(quarter, dtype=torch.float64) / quarter)
        angle = (grid(cfg.grid_size).double()[:, :, None] * frequency).flatten(1)  # [N, Dh/2]: rows', then columns'
        angle = F.pad(angle, (0, 0, cfg.num_prefix_tokens, 0))  # [T, Dh/2]
        self.register_buffer("cos", angle.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angle.sin().to(torch.get_default_dtype()), persistent=False)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self._turn(q), self._turn(k)

    def _turn(self, x: Tensor) -> Tensor:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)  # the two of each pair, [B, H, T, Dh/2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)


@register("alibi-2d")
class Alibi2d(PosEmbed):
    """A fixed penalty on the distance between patches, -slope_h * |p_i - p_j| (Press et al. 2022; in 2-D Fuller et al. 2023).

    Distances are Euclidean, in patches; slopes 2^(-8 h / H), h = 1 .. H. Pairs with a class or register token get 0.
    """

    tells = "distance"

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        place, prefix = grid(cfg.grid_size), cfg.num_prefix_tokens
        distance = F.pad(torch.cdist(place, place), (prefix, 0, prefix, 0))  # [T, T]
        slope = 2.0 ** (-8.0 * torch.arange(1, cfg.num_heads + 1) / cfg.num_heads)
        self.register_buffer("penalty", (-slope[:, None, None] * distance)[None], persistent=False)  # [1, H, T, T]

    def bias(self, q: Tensor) -> Tensor:
        return self.penalty


@register("cpe")
class Conditional(Additive):
    """Conditional position: a 3 x 3 depth-wise convolution over the grid of tokens, added to them (Chu et al. 2021, CPVT).

    It knows the place by the zeros beyond the border. The class and register tokens get nothing. CPVT puts it after the
    first layer; here it enters where every additive kind does, before the first layer or before each, so that kinds
    differ in nothing else: figures measured here are not CPVT's.
    """

    tells, tells_prefix = "neighbourhood", "nothing"

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.grid_size = cfg.grid_size
        self.conv = nn.Conv2d(cfg.embed_dim, cfg.embed_dim, kernel_size=3, padding=1, groups=cfg.embed_dim)

    def add(self, x: Tensor) -> Tensor:
        n = self.grid_size**2
        patches = x[:, -n:].transpose(1, 2).unflatten(2, (self.grid_size, self.grid_size))  # [B, D, G, G]
        return x + F.pad(self.conv(patches).flatten(2).transpose(1, 2), (0, 0, x.shape[1] - n, 0))


@register("frozen-random")
class FrozenRandom(Additive):
    """A `learned-1d` table as it starts, never trained: a control that tells place without having learned it.

    It is heard where contents start as small as it does (deviation .02; `init` bert-0.02), and hardly where they do not.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        start = Learned1d(cfg)
        self.class_token = start.class_token
        self.register_buffer("table", start.table.detach())  # [C + N, D]

    def add(self, x: Tensor) -> Tensor:
        return _add_to_class_and_patches(x, self.table, self.class_token)


def _import_plugin(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else f"{place.filename}:{place.lineno}"
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(f"VIT_PLUGINS: {name!r} cannot be imported: {reason} ({where})") from error


for _plugin in plugins():
    _import_plugin(_plugin)
