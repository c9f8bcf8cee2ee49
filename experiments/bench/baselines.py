"""The baselines: timm, vit-pytorch and a tutorial's model in our configuration, each trained as its users would.

timm's and vit-pytorch's models train in a plain loop over our data path: uint8 images on the device, augmented by
batch. The tutorial's loop loads images one by one through PIL and waits for the loss at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from multiprocessing import get_all_start_methods

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchvision import transforms

from experiments.bench.harness import Workload, timed
from experiments.config import DataConfig
from experiments.data import augment
from experiments.data.images import Images, Splits
from experiments.training.engine import EVAL_BATCH, autocast, batches
from vit import ViTConfig
from vit.model import ACTIVATIONS, LAYER_NORM_EPS

LOADER_WORKERS = 2  # as in the tutorials
MARGIN = 4  # untimed batches at each end of the tutorial's epoch: as many as its loader prefetches


def timm_model(cfg: ViTConfig) -> nn.Module:
    """timm's `VisionTransformer` with the same parameters as ours."""
    from timm.models.vision_transformer import VisionTransformer

    shared = {"img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio"}
    settings = cfg.model_dump(include=shared | {"qkv_bias", "final_norm"})
    return VisionTransformer(**settings, act_layer=partial(nn.GELU, approximate=ACTIVATIONS[cfg.act]))


def vit_pytorch_model(cfg: ViTConfig) -> nn.Module:
    """vit-pytorch's `ViT`, the closest it has: exact GELU, no QKV bias, LayerNorms around patches and at the end."""
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
    """One attention head with its own query, key and value projections."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(cfg.embed_dim, cfg.head_dim, bias=cfg.qkv_bias) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)  # [B, T, Dh]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # [B, T, T]
        return scores.softmax(-1) @ v


class NewGELU(nn.Module):
    """The tanh approximation of GELU, written as separate operations."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class TutorialBlock(nn.Module):
    """Attention heads in a Python loop, concatenated; then the MLP."""

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
    """The model of tintn (2023), written from its description. LayerNorm's epsilon is ours, so both compute the same."""

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


class PILImages(Dataset):
    """Images one at a time through PIL, as `torchvision.datasets.CIFAR10` returns them."""

    def __init__(self, images: Images, transform: Callable[[Image.Image], Tensor]) -> None:
        self.pixels, self.classes = images.x[:].cpu().permute(0, 2, 3, 1).numpy(), images.y.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index])), self.classes[index]


def tutorial_loader(images: Images, data: DataConfig, size: int, batches: int) -> DataLoader:
    """`batches` shuffled batches of `size`, from two workers, with the transforms of Lodha (2025) in its order."""
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
    dataset = PILImages(images, transform)
    return DataLoader(
        dataset,
        size,
        sampler=RandomSampler(dataset, num_samples=batches * size),
        num_workers=LOADER_WORKERS,
        multiprocessing_context="fork" if "fork" in get_all_start_methods() else None,  # the default of that time
    )


class PlainLoop:
    """The model of another library in a plain training loop over our data path."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        torch.manual_seed(index)
        self.workload, self.config, self.splits, self.device = workload, workload.config, splits, device
        self.model = MODELS[workload.model](workload.config.vit_config(len(splits.classes))).to(device)
        optim, compiled = workload.config.optim, workload.compile != "none"
        # Users who compile also choose the fused optimiser.
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), optim.lr, weight_decay=optim.weight_decay, fused=True if compiled else None
        )
        self.forward = torch.compile(self.model, mode=workload.compile) if compiled else self.model

    def update(self, x: Tensor, y: Tensor) -> Tensor:
        """One update of the weights -> its loss, on the device."""
        with autocast(self.config, self.device):
            loss = F.cross_entropy(self.forward(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def turn(self) -> tuple[float, float]:
        """Epochs with data loading, augmentation and validation: (images, seconds)."""
        epochs = self.workload.epochs
        return epochs * len(self.splits.train), timed(self.device, epochs, self._epoch)

    def _epoch(self) -> tuple[float, float]:
        """(training loss, validation accuracy)"""
        self.model.train()
        data, images, total = self.config.data, self.splits.train, torch.zeros((), device=self.device)
        order = torch.randperm(len(images), device=self.device)
        for part in batches(len(images), self.config.train.batch_size):
            batch = images.pick(order[part])
            draws = torch.rand(len(batch), augment.DRAWS, device=self.device)
            windows = augment.windows(draws, batch.x.shape[-1], data.hflip, data.crop_padding, data.rrc_scale)
            x = self.splits.normalized(augment.apply(self.splits.scaled(batch.x[:]), windows))
            total += self.update(x, batch.y) * len(batch)
        return total.item() / len(images), self._accuracy(self.splits.val)

    @torch.no_grad()
    def _accuracy(self, images: Images) -> float:
        self.model.eval()
        hits = torch.zeros((), dtype=torch.int64, device=self.device)
        for part in batches(len(images), EVAL_BATCH):
            with autocast(self.config, self.device):
                scores = self.forward(self.splits.normalized(self.splits.scaled(images.x[part])))
            hits += (scores.argmax(-1) == images.y[part]).sum()
        return hits.item() / len(images)


class TutorialLoop(PlainLoop):
    """The loop of tintn (2023) and Lodha (2025): two loader workers, one image at a time, `loss.item()` every step."""

    def update(self, x: Tensor, y: Tensor) -> Tensor:
        """One update of the weights -> its loss, which the host waits for."""
        loss = super().update(x.to(self.device), y.to(self.device))
        loss.item()
        return loss

    def turn(self) -> tuple[float, float]:
        """The batches of an epoch, taken from the middle of a longer epoch. Validation is left out.

        The start and end of an epoch would count too much here: the loader's workers start by forking, after which
        the first update takes seconds, and at the end nothing is left to load. Both weigh little in a full epoch.
        """
        self.model.train()
        size = self.config.train.batch_size
        count = self.workload.epochs * math.ceil(len(self.splits.train) / size)
        loader = iter(tutorial_loader(self.splits.train, self.config.data, size, count + 2 * MARGIN))
        for _ in range(MARGIN):
            self.update(*next(loader))
        return count * size, timed(self.device, count, lambda: self.update(*next(loader)))
