"""The baselines: the models of timm, vit-pytorch and a tutorial in our configuration.

timm's and vit-pytorch's models train in our loop with our data path, which is on the device, so that only the model and its
update differ. The tutorial's loop loads images one by one through PIL and waits for the loss at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from multiprocessing import get_all_start_methods
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchvision import transforms

from experiments.bench.harness import Workload, timed
from experiments.config import RunConfig
from experiments.data.images import Images, Splits
from experiments.sections import DataConfig
from experiments.training.compile import OFF
from experiments.training.engine import Solo, losses
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

    sizes = {"image_size": cfg.img_size, "patch_size": cfg.patch_size, "channels": cfg.in_chans}
    widths = {"dim": cfg.embed_dim, "heads": cfg.num_heads, "dim_head": cfg.head_dim}
    return ViT(**sizes, **widths, num_classes=cfg.num_classes, depth=cfg.depth, mlp_dim=cfg.hidden_dim)


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
        hidden = cfg.hidden_dim
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


class LibraryEngine(Solo):
    """Our engine of a single run with the model of another library and torch's AdamW. Its learning rate is constant."""

    def __init__(self, model: str, config: RunConfig, num_classes: int, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config, self.configs, self.device = config, (config,), device
        self.model: Any = MODELS[model](config.vit_config(num_classes)).to(device)
        self.params, compiled = dict(self.model.named_parameters()), config.train.compile != OFF
        self.optimizer = torch.optim.AdamW(
            self.params.values(),
            config.optim.lr,
            weight_decay=config.optim.weight_decay,
            fused=True if compiled else None,  # users who compile also choose the fused optimiser
        )
        self._rate = torch.zeros((), device=device)  # nothing reads it
        self._train = self._loss_and_hits
        if compiled:
            self.model = torch.compile(self.model, mode=config.train.compile)

    def _loss_and_hits(self, x: Tensor, y: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.model(x)
        return losses(scores, y), (scores.detach().argmax(-1) == y).sum()


class TutorialLoop:
    """The loop of tintn (2023) and Lodha (2025): two loader workers, one image at a time, `loss.item()` every step."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        self.workload, self.images, self.device = workload, splits.train, device
        self.engine = LibraryEngine(workload.model, workload.config, len(splits.classes), device)

    def update(self, x: Tensor, y: Tensor) -> None:
        """One update of the weights. The host waits for its loss. x: [B, C, S, S]; y: [B]"""
        zero = torch.zeros(1, device=self.device)  # neither the dropout key nor the learning rate is read
        self.engine.train_step(x[None].to(self.device), y[None].to(self.device), zero, zero)[0].item()

    def turn(self) -> tuple[float, float]:
        """The batches of an epoch, taken from the middle of a longer epoch. Validation is left out.

        The start and the end of an epoch would distort the rate of a few batches: the first update after the fork of the
        loader's workers takes seconds, and at the end nothing is left to load. In a full epoch both matter little.
        """
        config = self.workload.config
        size = config.train.batch_size
        count = self.workload.epochs * math.ceil(len(self.images) / size)
        loader = iter(tutorial_loader(self.images, config.data, size, count + 2 * MARGIN))
        for _ in range(MARGIN):
            self.update(*next(loader))
        return count * size, timed(self.device, count, lambda: self.update(*next(loader)))
