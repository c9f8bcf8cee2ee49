"""Kinds that add a function of a patch's coordinates, with a part that is learned or sampled."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.dropout import uniform
from vit.pos_embed.additive import add_to_patches, sinusoids
from vit.pos_embed.base import Additive, grid


class LearnedFourier(Additive):
    """Learned Fourier features of row and column, then an MLP (Li et al. 2021, algorithm 1).

    f = [cos(W p), sin(W p)] / sqrt(D), with W [D/2, 2] from N(0, 1) at initialisation (gamma = 1) and p in patches. The
    embedding is W2 GELU(W1 f + b1) + b2 with 32 hidden units. Class and register tokens get nothing.
    """

    HIDDEN = 32  # |H| of Li et al.
    position: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.register_buffer("position", grid(cfg.grid_size), persistent=False)  # [N, 2]
        self.frequency = nn.Parameter(torch.randn(cfg.embed_dim // 2, 2))
        self.fc1 = nn.Linear(cfg.embed_dim, self.HIDDEN)
        self.fc2 = nn.Linear(self.HIDDEN, cfg.embed_dim)

    def add(self, x: Tensor) -> Tensor:
        row, column = self.position[:, :, None].unbind(1)  # each [N, 1]
        phase = row * self.frequency[:, 0] + column * self.frequency[:, 1]  # [N, D/2]
        features = torch.cat([phase.cos(), phase.sin()], 1) * x.shape[-1] ** -0.5
        return add_to_patches(x, self.fc2(F.gelu(self.fc1(features))))


class Cape(Additive):
    """Continuous augmented positional embedding: 2-D sinusoids of augmented positions (Likhomanenko et al. 2021).

    Row and column lie in [-1, 1]. Channel i < D / 2 is cos(pi (w_x x + w_y y)), channel D / 2 + i the sine, with (w_x,
    w_y) = rho_i (cos i, sin i) and rho_i spaced geometrically from 1 to 10. In training each image gets a global shift
    from U(-0.5, 0.5) per axis, each patch a shift of up to half the distance to its neighbour, and all are then
    multiplied by a factor whose logarithm is from U(-log 1.4, log 1.4). Evaluation augments nothing. The same step uses
    the same positions in each layer. Class and register tokens get nothing. The paper also multiplies the tokens by
    sqrt(D).
    """

    GLOBAL_SHIFT, LOCAL_SHIFT, SCALE = 0.5, 0.5, 1.4  # the paper's, for images; LOCAL_SHIFT in patches
    STREAM = -1  # of random numbers; dropout layers use the streams from 0
    position: Tensor
    waves: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.spacing = 2 / max(cfg.grid_size - 1, 1)
        half = cfg.embed_dim // 2
        rho = 10 ** torch.linspace(0, 1, half, dtype=torch.float64)
        turn = torch.arange(half, dtype=torch.float64)
        waves = math.pi * torch.stack([rho * turn.sin(), rho * turn.cos()])  # [2, D/2], for row and column
        self.register_buffer("waves", waves.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("position", grid(cfg.grid_size) * self.spacing - 1, persistent=False)  # [N, 2]

    def add(self, x: Tensor) -> Tensor:
        return add_to_patches(x, self._embedding(self.position))

    def add_in_training(self, x: Tensor, key: Tensor) -> Tensor:
        batch, n = x.shape[0], self.position.shape[0]
        numbers = 2 * uniform(key, self.STREAM, (batch, 3 + 2 * n)).to(self.position.dtype) - 1  # within [-1, 1)
        shift, scale, local = numbers[:, None, :2], numbers[:, 2, None, None], numbers[:, 3:].unflatten(1, (n, 2))
        position = self.position + self.GLOBAL_SHIFT * shift + self.LOCAL_SHIFT * self.spacing * local  # [B, N, 2]
        return add_to_patches(x, self._embedding(position * (math.log(self.SCALE) * scale).exp()))

    def _embedding(self, position: Tensor) -> Tensor:
        """[..., N, 2] -> [..., N, D]"""
        row, column = position[..., None].unbind(-2)  # each [..., N, 1]
        phase = row * self.waves[0] + column * self.waves[1]
        return torch.cat([phase.cos(), phase.sin()], -1)


class Adaptive2d(Additive):
    """Sinusoids of row and column with learned scales that depend on the image (Lee et al. 2019, SATRN: A2DPE).

    The embedding of a patch is a(x) * s[row] + b(x) * s[column], with the sinusoids s of `sinusoidal`. The scales a and
    b [D] are sigmoid(W2 ReLU(W1 m)) of the mean m of the patch tokens, each with its own weights and biases. Class and
    register tokens get nothing.
    """

    table: Tensor

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.register_buffer("table", sinusoids(cfg.grid_size, cfg.embed_dim))  # [G, D]
        self.row_scale, self.column_scale = (_scale(cfg.embed_dim) for _ in range(2))

    def add(self, x: Tensor) -> Tensor:
        size = self.table.shape[0]
        mean = x[:, -size * size :].mean(1)  # [B, D]
        rows = self.row_scale(mean)[:, None, None] * self.table[:, None]  # [B, G, 1, D]
        columns = self.column_scale(mean)[:, None, None] * self.table[None]  # [B, 1, G, D]
        return add_to_patches(x, (rows + columns).flatten(1, 2))


def _scale(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.Sigmoid())
