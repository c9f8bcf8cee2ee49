"""The models that ours is raced against, in our configuration's shape, and the tutorials' loader. No clock, no loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from multiprocessing import get_all_start_methods

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchvision import transforms

from experiments.config import DataConfig
from experiments.data.images import Images
from vit import ViTConfig
from vit.model import ACTIVATIONS, LAYER_NORM_EPS

LOADER_WORKERS = 2  # the tutorials'


def timm_model(cfg: ViTConfig) -> nn.Module:
    """timm's `VisionTransformer` of the same shape, parameter for parameter."""
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=cfg.img_size,
        patch_size=cfg.patch_size,
        in_chans=cfg.in_chans,
        num_classes=cfg.num_classes,
        embed_dim=cfg.embed_dim,
        depth=cfg.depth,
        num_heads=cfg.num_heads,
        mlp_ratio=cfg.mlp_ratio,
        qkv_bias=cfg.qkv_bias,
        act_layer=partial(nn.GELU, approximate=ACTIVATIONS[cfg.act]),
        final_norm=cfg.final_norm,
    )


def vit_pytorch_model(cfg: ViTConfig) -> nn.Module:
    """vit-pytorch's `ViT`, as near as it comes: exact GELU, no QKV bias, LayerNorms around patches and at the end."""
    from vit_pytorch import ViT

    return ViT(
        image_size=cfg.img_size,
        patch_size=cfg.patch_size,
        channels=cfg.in_chans,
        num_classes=cfg.num_classes,
        dim=cfg.embed_dim,
        depth=cfg.depth,
        heads=cfg.num_heads,
        dim_head=cfg.head_dim,
        mlp_dim=int(cfg.embed_dim * cfg.mlp_ratio),
    )


class Head(nn.Module):
    """One attention head with three projections of its own."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(cfg.embed_dim, cfg.head_dim, bias=cfg.qkv_bias) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)  # [B, T, Dh]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # [B, T, T]
        return scores.softmax(-1) @ v


class NewGELU(nn.Module):
    """GELU's tanh approximation spelt out, operation by operation."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class TutorialBlock(nn.Module):
    """Heads in a Python loop, concatenated; then the MLP."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        hidden = int(cfg.embed_dim * cfg.mlp_ratio)
        self.norm1, self.norm2 = (nn.LayerNorm(cfg.embed_dim, eps=LAYER_NORM_EPS) for _ in range(2))
        self.heads = nn.ModuleList(Head(cfg) for _ in range(cfg.num_heads))
        self.proj = nn.Linear(cfg.embed_dim, cfg.embed_dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.embed_dim, hidden), NewGELU(), nn.Linear(hidden, cfg.embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm1(x)
        x = x + self.proj(torch.cat([head(normed) for head in self.heads], -1))
        return x + self.mlp(self.norm2(x))


class TutorialViT(nn.Module):
    """The model of tintn (2023), from its description; only LayerNorm's epsilon is ours, so that the two are equal."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.patches = nn.Conv2d(cfg.in_chans, cfg.embed_dim, kernel_size=cfg.patch_size, stride=cfg.patch_size)
        self.cls_token = nn.Parameter(torch.randn(1, 1, cfg.embed_dim))
        self.position = nn.Parameter(torch.randn(1, 1 + cfg.num_patches, cfg.embed_dim))
        self.blocks = nn.ModuleList(TutorialBlock(cfg) for _ in range(cfg.depth))
        self.classifier = nn.Linear(cfg.embed_dim, cfg.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)  # [B, N, D]
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.position  # [B, T, D]
        for block in self.blocks:
            x = block(x)
        return self.classifier(x[:, 0])


MODELS: dict[str, Callable[[ViTConfig], nn.Module]] = {
    "timm": timm_model,
    "vit-pytorch": vit_pytorch_model,
    "tutorial": TutorialViT,
}


class Pictures(Dataset):
    """Images one at a time through PIL, as `torchvision.datasets.CIFAR10` hands them out."""

    def __init__(self, images: Images, transform: Callable[[Image.Image], Tensor]) -> None:
        self.pixels, self.classes = images.x.cpu().permute(0, 2, 3, 1).numpy(), images.y.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index])), self.classes[index]


def tutorial_loader(images: Images, data: DataConfig, size: int, batches: int) -> DataLoader:
    """The transforms of Lodha (2025), in its order, in a shuffling loader of two workers: `batches` of `size`."""
    side, half = (images.x.shape[-1],) * 2, (0.5, 0.5, 0.5)
    transform = transforms.Compose(
        [
            transforms.ToTensor(),
            transforms.Resize(side),
            transforms.RandomHorizontalFlip(p=0.5),
            transforms.RandomResizedCrop(side, scale=(data.rrc_scale, 1.0)),
            transforms.Normalize(half, half),
        ]
    )
    pictures = Pictures(images, transform)
    return DataLoader(
        pictures,
        size,
        sampler=RandomSampler(pictures, num_samples=batches * size),
        num_workers=LOADER_WORKERS,
        multiprocessing_context="fork" if "fork" in get_all_start_methods() else None,  # the default of its day
    )
