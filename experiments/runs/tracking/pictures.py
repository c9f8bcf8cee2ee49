"""Pictures of a trained model for W&B, as arrays: attention on validation images, similarity of the position embeddings.

The test images are not used: a run evaluates them once.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.config import RunConfig, load
from experiments.runs import record

if TYPE_CHECKING:
    from torch import Tensor

    from experiments.data.images import Splits

IMAGES = 8  # the first validation images


@dataclass(frozen=True)
class Pictures:
    """n images of S pixels, C channels and K classes; G patches per side."""

    images: np.ndarray
    """[n, S, S, C], uint8"""
    attention: np.ndarray
    """attention of the pooled tokens in the last layer, [n, S, S]"""
    truth: np.ndarray
    """[n]"""
    predicted: np.ndarray
    """[n]"""
    classes: np.ndarray
    """names, [K]"""
    similarity: np.ndarray
    """cosine similarity of each patch's position embedding with every other's, [G, G, G, G]; empty where there is none"""


def take(config: RunConfig, weights: Mapping[str, Tensor], splits: Splits) -> bytes:
    """Take the pictures of a trained model, and store them as bytes for `read`. It changes no random state."""
    import torch

    from vit import ViT, diagnostics

    cfg = config.vit_config(len(splits.classes))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = ViT(cfg).eval()
        model.load_state_dict({name: tensor.cpu() for name, tensor in weights.items()})
        some = splits.val.x[: min(IMAGES, len(splits.val))].cpu()
        on_cpu = replace(splits, mean=splits.mean.cpu(), std=splits.std.cpu())
        inputs = on_cpu.normalized(on_cpu.scaled(some))
        last = model.attention_maps(inputs)[-1]
        attention = diagnostics.pooled_attention(last, model.pooling_weights(inputs), cfg)
        predicted = model(inputs).argmax(-1)
        similarity = diagnostics.position_similarity(model.pos[0], cfg)
    body = io.BytesIO()
    np.savez_compressed(
        body,
        images=some.permute(0, 2, 3, 1).numpy(),
        attention=attention.float().numpy(),
        truth=splits.val.y[: len(some)].cpu().numpy(),
        predicted=predicted.numpy(),
        classes=np.array(splits.classes),
        similarity=np.empty(0, np.float32) if similarity is None else similarity.float().numpy(),
    )
    return body.getvalue()


def take_from_record(run_dir: Path, config: Mapping[str, Any]) -> bytes:
    """Take the pictures of a finished run from its checkpoint. Raises `UserError` where its images cannot be loaded.

    Nothing is downloaded.
    """
    from safetensors.torch import load_file

    from experiments.data import loading

    settings = load({**config, "data": {**config["data"], "download": False}})
    return take(settings, load_file(run_dir / record.CHECKPOINT), loading.load(settings))


def read(path: Path) -> Pictures:
    """Read pictures. Raises `OSError` or `ValueError`."""
    with np.load(path, allow_pickle=False) as arrays:
        return Pictures(**{name: arrays[name] for name in Pictures.__dataclass_fields__})
