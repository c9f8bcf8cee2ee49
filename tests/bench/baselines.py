"""The baselines: the models of timm, vit-pytorch and a tutorial in our configuration, and the tutorial's training
loop.
"""

import math
import time
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler
from torchvision import transforms

from experiments.config import RunConfig
from experiments.data.images import Images
from experiments.training.trainer import autocast, evaluate_batch, gradients, in_mode, loss_and_hits
from vit import ViTConfig
from vit.config import NORM_EPS
from vit.model import ACTIVATIONS


class TutorialViT(nn.Module):
    """The model of tintn (2023): each head by itself, GELU in separate operations. [B, C, S, S] -> [B, classes]"""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__()
        dim, hidden = cfg.embed_dim, cfg.hidden_dim
        self.patches = nn.Conv2d(cfg.in_chans, dim, cfg.patch_size, stride=cfg.patch_size)
        self.cls_token, self.position = (nn.Parameter(torch.randn(1, n, dim)) for n in (1, 1 + cfg.num_patches))
        self.blocks, self.classifier = nn.ModuleList(), nn.Linear(dim, cfg.num_classes)
        for _ in range(cfg.depth):
            heads = [[nn.Linear(dim, cfg.head_dim, cfg.qkv_bias) for _ in "qkv"] for _ in range(cfg.num_heads)]
            layers = {"proj": nn.Linear(dim, dim), "fc1": nn.Linear(dim, hidden), "fc2": nn.Linear(hidden, dim)}
            norms = {name: nn.LayerNorm(dim, eps=NORM_EPS) for name in ("norm1", "norm2")}
            self.blocks.append(nn.ModuleDict({**norms, "heads": nn.ModuleList(map(nn.ModuleList, heads)), **layers}))

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)  # [B, N, D]
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.position  # [B, T, D]
        block: Any
        for block in self.blocks:
            normed, outputs = block["norm1"](x), []
            for head in block["heads"]:
                q, k, v = (project(normed) for project in head)  # [B, T, Dh]
                outputs.append((q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v)
            x = x + block["proj"](torch.cat(outputs, -1))
            h = block["fc1"](block["norm2"](x))  # [B, T, D mlp_ratio]
            gelu = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
            x = x + block["fc2"](gelu)
        return self.classifier(x[:, 0])


def baseline(name: str, cfg: ViTConfig) -> nn.Module:
    """The model of a baseline. Raises `ImportError` without its package.

    vit-pytorch's has exact GELU and no QKV bias; "vit-pytorch-alike" has ours.
    """
    if name == "tutorial":
        return TutorialViT(cfg)
    if name == "timm":
        from timm.models.vision_transformer import VisionTransformer

        same = {"img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio"}
        settings = cfg.model_dump(include=same | {"qkv_bias", "final_norm"})
        return VisionTransformer(**settings, act_layer=partial(nn.GELU, approximate=ACTIVATIONS[cfg.act]))
    from vit_pytorch import ViT

    sizes = {"image_size": cfg.img_size, "patch_size": cfg.patch_size, "channels": cfg.in_chans, "depth": cfg.depth}
    widths = {"dim": cfg.embed_dim, "heads": cfg.num_heads, "dim_head": cfg.head_dim, "mlp_dim": cfg.hidden_dim}
    model = ViT(**sizes, **widths, num_classes=cfg.num_classes)
    for module in list(model.modules()) if name == "vit-pytorch-alike" else ():
        for child, part in list(module.named_children()):
            if isinstance(part, nn.GELU):
                setattr(module, child, nn.GELU(approximate=ACTIVATIONS[cfg.act]))
            elif child == "to_qkv":
                setattr(module, child, nn.Linear(part.in_features, part.out_features, cfg.qkv_bias))
    return model


class LibraryEngine:
    """An `Trainer` with a baseline's model and `torch.optim.AdamW`. Its learning rate is constant."""

    captured: bool | None = None

    def __init__(self, name: str, configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> None:
        (self.config,) = self.configs = tuple(configs)
        self.device, optim, mode = device, self.config.optim, self.config.train.compile
        self.model: Any = baseline(name, self.config.vit_config(num_classes)).to(device)
        self.params = dict(self.model.named_parameters())
        fused = None if mode == "none" else True  # users who compile also choose the fused optimiser
        adamw = torch.optim.AdamW(self.params.values(), optim.lr, weight_decay=optim.weight_decay, fused=fused)
        self.optimizer: Any = SimpleNamespace(
            step=lambda number: adamw.step(), start_epoch=lambda epoch, steps: None, last_rate=optim.lr
        )
        self.model = self.model if mode == "none" else torch.compile(self.model, mode=mode)

    def train_step(self, x: Tensor, y: Tensor, keys: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        in_mode(self.model, training=True)
        with autocast(self.config, self.device):
            loss, hits = loss_and_hits(self.model(x[0]), y[0])
        for p in self.params.values():
            p.grad = None
        loss.backward()
        self.optimizer.step(number)
        return loss.detach()[None], hits[None]

    def gradient_norms(self) -> Tensor:
        return nn.utils.get_total_norm(gradients(self.params))[None]

    def eval_step(self, x: Tensor, y: Tensor, features: bool = False) -> tuple[Tensor, ...]:
        return evaluate_batch(self.model, self.config, x, y, features)


def tutorial_rate(trainer: LibraryEngine, images: Images) -> float:
    """Images per second of an epoch of tintn (2023), without validation, with the transforms of Lodha (2025) in its
    order.
    """
    data, size, side = trainer.config.data, trainer.config.train.batch_size, images.x.shape[-1]
    resize, crop = transforms.Resize((side, side)), transforms.RandomResizedCrop(side, (data.rrc_scale, 1.0))
    flip, normalize = transforms.RandomHorizontalFlip(), transforms.Normalize((0.5,), (0.5,))
    transform = transforms.Compose([transforms.ToTensor(), resize, flip, crop, normalize])
    pixels, labels = images.x[:].cpu().permute(0, 2, 3, 1).numpy(), images.y.cpu()  # [N, S, S, C] and [N]

    def load(batch: list[int]) -> tuple[Tensor, Tensor]:
        return torch.stack([transform(Image.fromarray(pixels[i])) for i in batch]), labels[batch]

    margin = 4  # untimed batches at each end, where workers start or end; they prefetch as many
    count, unused = math.ceil(len(images) / size), torch.zeros(1, device=trainer.device)  # no keys, no schedule
    sampler = RandomSampler(labels, num_samples=(count + 2 * margin) * size)
    numbers: Any = range(len(images))  # two forked workers, as at that time
    loader = DataLoader(numbers, size, None, sampler, num_workers=2, collate_fn=load, multiprocessing_context="fork")
    for step, batch in zip(range(margin + count), loader, strict=False):
        x, y = (part[None].to(trainer.device) for part in batch)
        trainer.train_step(x, y, unused, unused)[0].item()
        if step == margin - 1:
            begin = time.perf_counter()
    return count * size / (time.perf_counter() - begin)
