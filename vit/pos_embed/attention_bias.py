"""Kinds that add a bias to the attention logits.

On a GPU their gradients use no atomic additions, whose order varies, so training is repeatable bit for bit.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.kernels import Linear
from vit.pos_embed.base import PosEmbed, grid, new_table, resize_offsets


class Relative(PosEmbed):
    """1-D relative attention (arXiv 2010.11929, D.4; Shaw et al. 2018): an embedding r for each raster offset i - j.

    The bias q_i . r_{i-j} / sqrt(Dh) is added to the content logits before the softmax. Each head has its own Dh
    columns of the D-wide embedding. Pairs with a class or register token get 0.
    """

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.table = new_table(cfg, cfg.num_heads, 2 * cfg.num_patches - 1, cfg.head_dim)  # [H, 2N - 1, Dh]

    def bias(self, q: Tensor) -> Tensor:
        n, prefix = self.cfg.num_patches, self.cfg.num_prefix_tokens
        logits = q[..., prefix:, :] @ self.table.transpose(-2, -1) * q.shape[-1] ** -0.5  # [B, H, N, 2N - 1]
        # Key j of query i is at column i - j + N - 1. With one more element per row, rows of 2N move row i left by i.
        logits = F.pad(logits.flatten(-2), (0, n)).unflatten(-1, (n, 2 * n))[..., :n].flip(-1)  # [B, H, N, N]
        return F.pad(logits, (prefix, 0, prefix, 0))  # [B, H, T, T]

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        """Interpolate over row and column offsets, as `rel-bias-2d` does.

        Up to two pairs of a row and a column offset are one raster offset. It gets their mean, weighted by the number
        of patch pairs that have each.
        """
        heads, _, width = self.table.shape
        by_offset = self.table.detach().transpose(1, 2)  # [H, Dh, 2N - 1]
        old, _ = _raster_offsets(self.cfg.grid_size)
        new, pairs = _raster_offsets(cfg.grid_size)
        values = resize_offsets(by_offset[..., old].flatten(0, 1), 2 * cfg.grid_size - 1)  # [H Dh, (2G - 1)^2]
        sums = values.new_zeros(heads * width, 2 * cfg.num_patches - 1).index_add(
            1, new.to(values.device), values * pairs.to(values)
        )
        counts = pairs.new_zeros(2 * cfg.num_patches - 1).index_add(0, new, pairs)
        return {"table": (sums / counts.to(sums)).unflatten(0, (heads, width)).transpose(1, 2).contiguous()}


def _raster_offsets(size: int) -> tuple[Tensor, Tensor]:
    """For each row and column offset of two patches of a `size` x `size` grid: the place of their raster offset in a
    table of all, and how many pairs of patches have them. Both [(2 size - 1)^2].
    """
    offset = grid(2 * size - 1).long() - (size - 1)  # [(2G - 1)^2, 2]
    return offset @ torch.tensor([size, 1]) + size**2 - 1, (size - offset.abs()).prod(1)


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
        self.table = new_table(cfg, cfg.num_heads, side * side + 3 * (prefix > 0))  # [H, (2G - 1)^2 + 3]

    def bias(self, q: Tensor) -> Tensor:
        # [1, H, T, T]: the fused kernel needs four axes
        return self._bias_by_products()[None] if self.table.is_cuda else self.table[None, :, self.index]

    def _bias_by_products(self) -> Tensor:
        """`table[:, index]` as products with one-hot matrices: [H, T, T]. Its gradient needs no atomic additions."""
        size, tokens = self.cfg.grid_size, self.cfg.num_prefix_tokens
        side = 2 * size - 1
        i = torch.arange(size, device=self.table.device)
        offset = (i[:, None] - i[None, :] + size - 1).flatten()  # [G G], of a query and a key on one axis
        one_hot = (torch.arange(side, device=i.device)[:, None] == offset).to(self.table.dtype)  # [2G - 1, G G]
        columns = self.table[:, : side * side].unflatten(1, (side, side)) @ one_hot  # [H, 2G - 1, G G]
        both = columns.transpose(1, 2) @ one_hot  # [H, G G (columns), G G (rows)]
        bias = both.unflatten(1, (size, size)).unflatten(3, (size, size))  # [H, x, x', y, y'], key coordinates primed
        bias = bias.permute(0, 3, 1, 4, 2).flatten(3, 4).flatten(1, 2)  # [H, N, N]
        if not tokens:
            return bias
        places = torch.arange(side * side, side * side + 3, device=i.device)[:, None]
        one_hot = (places == self.index.flatten()).to(self.table.dtype)  # [3, T T]
        prefix = (self.table[:, side * side :] @ one_hot).unflatten(1, self.index.shape)  # [H, T, T]
        return F.pad(bias, (tokens, 0, tokens, 0)) + prefix

    def resized(self, cfg: ViTConfig) -> dict[str, Tensor]:
        """Interpolate over row and column offsets. The biases of prefix tokens stay."""
        table, count = self.table.detach(), (2 * self.cfg.grid_size - 1) ** 2
        return {"table": torch.cat([resize_offsets(table[:, :count], 2 * cfg.grid_size - 1), table[:, count:]], 1)}


class Alibi2d(PosEmbed):
    """A fixed penalty on the distance between patches, -slope_h * |p_i - p_j| (Press et al. 2022; in 2-D Fuller et al.
    2023).

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


class IrpeKeys(PosEmbed):
    """Contextual relative position on keys, product method (Wu et al. 2021, iRPE-K): an embedding r for each binned
    offset.

    The bias q_i . r_{bin(row offset), bin(column offset)} / sqrt(Dh) is added to the content logits. All heads share r,
    as in the authors' DeiT. Offsets up to 1.9 patches are their own bin; longer ones share bins of logarithmic width
    (eq. 18, with their alpha, beta, gamma = 1.9, 3.8, 15.2): 7 bins per axis. The authors initialise the table with 0
    and have one more embedding for pairs with a prefix token. Here the table is initialised as that of `relative`, and
    these pairs get 0.
    """

    ALPHA, BETA, GAMMA = 1.9, 3.8, 15.2  # authors' code: ratio 1.9, of which alpha, beta and gamma are 1, 2 and 8 times
    one_hot: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        i = torch.arange(cfg.grid_size)
        largest = int(self.BETA)
        bins = torch.arange(-largest, largest + 1)  # [S]
        one_hot = self._bin(i[:, None] - i[None, :])[:, None, :] == bins[:, None]  # [G (query), S, G (key)]
        self.register_buffer("one_hot", one_hot.to(torch.get_default_dtype()), persistent=False)
        self.table = new_table(cfg, len(bins) ** 2, cfg.head_dim)  # [S S, Dh], row bins first

    def _bin(self, offset: Tensor) -> Tensor:
        """The bin of an offset in patches: the nearest integer up to ALPHA, then a logarithm of at most BETA."""
        size = offset.abs().double().clamp(min=1)
        log = self.ALPHA + (size / self.ALPHA).log() / math.log(self.GAMMA / self.ALPHA) * (self.BETA - self.ALPHA)
        return torch.where(offset.abs() <= self.ALPHA, offset, offset.sign() * log.round().clamp(max=self.BETA).long())

    def bias(self, q: Tensor) -> Tensor:
        size, bins, _ = self.one_hot.shape
        prefix = q.shape[-2] - size * size
        one_hot = self.one_hot.to(q.dtype)
        logits = q[..., prefix:, :] @ self.table.transpose(-2, -1) * q.shape[-1] ** -0.5  # [B, H, N, S S]
        logits = logits.unflatten(-1, (bins, bins)).unflatten(-3, (size, size))  # [B, H, y, x, S, S]
        # The bin of each key, by products with one-hot matrices: first along rows, then along columns.
        logits = torch.einsum("bhyxst,ysk->bhyxkt", logits, one_hot)
        logits = torch.einsum("bhyxkt,xtl->bhyxkl", logits, one_hot)  # keys in row k, column l
        return F.pad(logits.flatten(-2).flatten(2, 3), (prefix, 0, prefix, 0))  # [B, H, T, T]


class Relative2dKv(PosEmbed):
    """2-D relative attention on keys and values (Shaw et al. 2018 for each axis, as in s-chh's vision transformer).

    With a_ij = (r_{row offset}, s_{column offset}), offsets clamped at +-2 and half of the Dh channels for each axis,
    the logits are q_i . (k_j + a_ij) / sqrt(Dh) and the outputs sum_j w_ij (v_j + b_ij), b_ij like a_ij with tables of
    its own. All heads share the tables. Pairs with a class or register token have one more entry. There the tables
    start with variance 1 (s-chh/2D-Positional-Encoding-Vision-Transformer, `RelativePositionEmbedding2D`); here as that
    of `relative`.

    Values: attention sums the weights of each row and column of keys, beside v. Nothing else needs the weights, so the
    kernels of `vit.kernels` compute them.
    """

    LARGEST = 2  # patches
    members: Tensor
    bins: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        size, prefix, largest = cfg.grid_size, cfg.num_prefix_tokens, self.LARGEST
        dtype = torch.get_default_dtype()
        place = grid(size).long().T + (prefix > 0)  # [2, N]: the place of each patch on each axis; 0: prefix token
        place = F.pad(place, (prefix, 0))  # [2, T]
        places = torch.arange(size + (prefix > 0))  # P
        bins = (places - place[..., None]).clamp(-largest, largest) + largest  # [2, T (query), P (key)]
        if prefix:
            bins = bins.where((place[..., None] > 0) & (places > 0), 2 * largest + 1)
        entries = torch.arange(2 * largest + 1 + (prefix > 0))  # S
        one_hot = bins[:, :, None] == entries[:, None]  # [2, T, S, P]
        self.register_buffer("bins", one_hot.to(dtype), persistent=False)
        self.register_buffer("members", (place[..., None] == places).to(dtype), persistent=False)  # [2, T, P]
        shape = 2, len(entries), cfg.head_dim // 2  # rows and columns, S, Dh/2
        self.key_table, self.value_table = new_table(cfg, *shape), new_table(cfg, *shape)

    def bias(self, q: Tensor) -> Tensor:
        halves = q.unflatten(-1, (2, -1)) * q.shape[-1] ** -0.5  # [B, H, T, 2, Dh/2]
        logits = torch.einsum("bhtac,asc->bhtas", halves, self.key_table.to(q.dtype))
        logits = torch.einsum("bhtas,atsp->bhtap", logits, self.bins.to(q.dtype))  # for each place of a key
        return torch.einsum("bhtap,akp->bhtk", logits, self.members.to(q.dtype))  # [B, H, T, T]

    def values(self, v: Tensor) -> Tensor:
        members = self.members.to(v.dtype).transpose(0, 1).flatten(1)  # [T, 2 P]
        members = F.pad(members, (0, -members.shape[-1] % 8))  # a width that CUDA kernels take
        return torch.cat([v, members.expand(*v.shape[:-1], -1)], -1)

    def mixed(self, x: Tensor) -> Tensor:
        _, _, _, places = self.bins.shape
        width = 2 * self.value_table.shape[-1]
        weights = x[..., width : width + 2 * places].unflatten(-1, (2, places))  # [B, H, T, 2, P]
        weights = torch.einsum("bhtap,atsp->bhtas", weights, self.bins.to(x.dtype))
        added = torch.einsum("bhtas,asc->bhtac", weights, self.value_table.to(x.dtype))
        return x[..., :width] + added.flatten(-2)  # [B, H, T, Dh]


class Pape(PosEmbed):
    """Parabolic position encoding: a sum of parabolas of the offset (Ohrstrom et al. 2026, arXiv 2602.01418, PaPE).

    The bias of a head is sum_m (-a_m p_m^2 + b_m p_m) / sqrt(Dh) over 50 parabolas m, with p = W d: d is the offset
    (rows, columns) from key to query in patches, W [50, 2] is learned. The shapes depend on the query's token: a =
    softplus(A q), b = B q, with q the queries of all its heads. All weights start as those of a linear layer in
    PyTorch. This is the form of the authors' code (DTU-PAS/parabolic-position-encoding, `pape_naive.py`), but for two
    things: it computes a and b from the input of the projection whose output is q, and places the class token at a
    corner outside the grid; here pairs with a class or register token get 0. A layer has 100 H (D + 1) parameters more.
    """

    PARABOLAS = 50
    offset: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        width, bound = cfg.num_heads * self.PARABOLAS, 2**-0.5
        self.a, self.b = (Linear(cfg.embed_dim, width, bias=False) for _ in range(2))
        self.weight = nn.Parameter(torch.empty(cfg.num_heads, self.PARABOLAS, 2).uniform_(-bound, bound))
        position = grid(cfg.grid_size)
        row, column = (position[:, None] - position).permute(2, 0, 1)  # each [N, N]
        terms = torch.stack([-row * row, -2 * row * column, -column * column, row, column], 1)
        self.register_buffer("offset", terms, persistent=False)  # [N (query), 5, N (key)]

    def bias(self, q: Tensor) -> Tensor:
        heads, patches, (n, _, _) = q.shape[1], q[:, :, -len(self.offset) :], self.offset.shape
        tokens = patches.transpose(1, 2).flatten(2)  # [B, N, D]
        # Contiguous: the compiled backward takes a view that a transpose does not allow.
        heads_first = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (self.a(tokens), self.b(tokens))]
        a, b = (x.contiguous() for x in heads_first)  # each [B, H, N, 50]
        row, column = self.weight.to(q.dtype).unbind(-1)  # each [H, 50]
        squares, lines = torch.stack([row * row, row * column, column * column], -1), torch.stack([row, column], -1)
        shape = torch.cat([F.softplus(a).to(q.dtype) @ squares, b.to(q.dtype) @ lines], -1)  # [B, H, N, 5]
        bias = torch.einsum("bhif,ifj->bhij", shape * q.shape[-1] ** -0.5, self.offset.to(q.dtype))  # [B, H, N, N]
        return F.pad(bias, (q.shape[-2] - n, 0, q.shape[-2] - n, 0))  # [B, H, T, T]


class LookHere(PosEmbed):
    """Heads that look in one direction, with a fixed penalty on the distance (Fuller et al. 2024, LookHere-180).

    The bias is -m_l m_h |p_i - p_j|. Heads 1 to 8 see only patches in their half of the plane (up, down, left, right,
    and the four diagonals; m_h = 1), heads 9 to 12 see all patches (m_h = 2^-1, 2^-3, 2^-5, 2^-7). m_l falls linearly
    from 1.5 in the first layer to 0.5 in the last. These are the values of the authors' code (GreenCUBIC/lookhere) for
    12 heads. A model with fewer heads has the first of them; with more heads the sequence repeats. Pairs with a class
    or register token get 0.

    With 8 or more heads, the biases of a pair of patches determine its offset on grids up to 8 x 8.
    """

    DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, 1), (-1, -1), (1, 1), (1, -1))  # row, column
    SLOPES = (*[1.0] * 8, 2.0**-1, 2.0**-3, 2.0**-5, 2.0**-7)
    LAYER_SLOPES = (1.5, 0.5)
    HIDDEN = -1e4  # the bias of patches that a head does not see: their weights are 0 after the softmax
    penalty: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.register_buffer("penalty", self._penalty(0), persistent=False)

    def at_layer(self, layer: int) -> None:
        self.penalty = self._penalty(layer)

    def _penalty(self, layer: int) -> Tensor:
        """[1, H, T, T]"""
        first, last = self.LAYER_SLOPES
        layer_slope = first + (last - first) * layer / max(self.cfg.depth - 1, 1)
        position, prefix = grid(self.cfg.grid_size), self.cfg.num_prefix_tokens
        offset = position[None] - position[:, None]  # [N, N, 2], from query to key
        heads = []
        for head in range(self.cfg.num_heads):
            head %= len(self.SLOPES)
            penalty = -layer_slope * self.SLOPES[head] * torch.linalg.vector_norm(offset, dim=-1)
            if head < len(self.DIRECTIONS):
                row, column = self.DIRECTIONS[head]
                penalty = penalty.masked_fill(offset[..., 0] * row + offset[..., 1] * column < 0, self.HIDDEN)
            heads.append(penalty)
        return F.pad(torch.stack(heads), (prefix, 0, prefix, 0))[None]

    def bias(self, q: Tensor) -> Tensor:
        return self.penalty
