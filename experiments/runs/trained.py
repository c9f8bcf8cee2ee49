"""The model of a finished run without the rest: it says which classes images belong to."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from experiments.catalogue import DATASETS, UNREAD
from experiments.config import RunConfig, completed, load, override
from experiments.data.images import normalized
from experiments.data.indexed import to_pixels
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.exports import why_no_model
from experiments.training.trainer import DTYPES, EVAL_BATCH, autocast, initial_model, load_weights, probabilities
from vit import ViT
from vit.plugins import VARIABLE
from vit.registry import REGISTRY


@dataclass(frozen=True)
class TrainedRun:
    """A finished run and its folder."""

    folder: str
    config: RunConfig
    summary: dict[str, Any]

    @cached_property
    def weights(self) -> Mapping[str, Tensor]:
        digest = self.summary["files"][record.CHECKPOINT]
        try:
            return load_tensors(record.read_bytes(Path(self.folder) / record.CHECKPOINT, digest))
        except SafetensorError as error:
            raise UserError(f"{self.folder}: the checkpoint is not a safetensors file") from error

    def model(self) -> ViT:
        """The model with its final weights. Raises `UserError` where the source of its plug-in was changed."""
        recorded = (self.summary.get("provenance") or {}).get("plugin") or {}
        name = self.config.model.pos_embed
        plugin = REGISTRY[name].plugin
        if plugin and recorded.get("digest") not in (None, plugin.digest):
            raise UserError(
                f"model.pos_embed: the source of the plug-in {name!r} was changed after "
                f"{self.folder} was trained; restore it from {record.PLUGIN}/ in that folder, or train that run again"
            )
        weights = self.weights
        try:
            last = max(name for name in weights if name.startswith("head."))
            model = initial_model(self.config, num_classes=weights[last].shape[0])
            load_weights(model, weights)
        except (RuntimeError, ValueError, LookupError) as error:
            reason = f": {error}" * isinstance(error, UserError)
            line = "the checkpoint does not fit the model of its configuration"
            raise UserError(f"{self.folder}: {line}{reason}") from error
        return model


def read(folder: str, field: str) -> TrainedRun:
    """A finished run. Raises `UserError`, which begins with `field`, where it is missing or not finished."""
    where, path = f"{field}: {folder!r}", Path(folder)
    if not path.is_dir():
        raise UserError(f"{where} {why_no_model(path) or 'is no folder; expected that of a finished run'}")
    if not record.has_ended(path):
        raise UserError(f"{where} is not finished: it has no {record.SUMMARY}")
    run = record.read_run(path, checkpoint=True)
    if run.summary["status"] != "finished":
        raise UserError(f"{where} has the status {run.summary['status']}; allowed: finished")
    provenance = run.summary.get("provenance") or {}
    if provenance.get("data_plugin") and (name := run.config["data"]["name"]) not in DATASETS:
        DATASETS[name] = UNREAD
    kind, plugin = run.config["model"]["pos_embed"], provenance.get("plugin")
    if plugin and kind not in REGISTRY:
        copy = shlex.quote(",".join(map(str, sorted((path / record.PLUGIN).glob("*.py")))))
        raise UserError(f"{where} needs the plug-in of model.pos_embed {kind!r}; start again with {VARIABLE}={copy}")
    return TrainedRun(folder, override(load(completed(run.config)), {"data.download": False}), run.summary)


@dataclass(frozen=True)
class TrainedModel:
    """The model of a finished run, in evaluation mode, with what it needs to read images.

    `classes`: their names, in the order of the model's outputs. `mean`, `std`: [C], the normalization of each channel,
    (x / 255 - mean) / std. `config`: that of the run.
    """

    model: ViT
    classes: tuple[str, ...]
    mean: Tensor
    std: Tensor
    config: RunConfig

    @torch.no_grad()
    def predict(self, images: Sequence[Image.Image | np.ndarray] | np.ndarray) -> tuple[list[str], np.ndarray]:
        """The name of the most probable class of each image, and the probability of each class, [N, K].

        `images`: a list of images of any size, as for `to_pixels`, or one array [N, H, W, C], uint8. They are resized
        and normalized as in training. Raises `UserError` for anything else.
        """
        if not isinstance(images, Sequence) and np.ndim(images) != 4:
            raise UserError("images: expected a list of images, also for a single one, or an array [N, H, W, C]")
        shape = self.config.data.image_shape
        device, parts = next(self.model.parameters()).device, [torch.zeros(0, len(self.classes))]
        for start in range(0, len(images), EVAL_BATCH):
            try:
                pixels = torch.stack([to_pixels(image, *shape) for image in images[start : start + EVAL_BATCH]])
            except (OSError, SyntaxError, ValueError) as error:  # of Pillow, which decodes it only now
                raise UserError(f"images: {error}") from error
            x = normalized(pixels.to(DTYPES[self.config.train.precision]) / 255, self.mean, self.std).to(device)
            with autocast(self.config, device):
                scores = self.model(x)
            parts.append(probabilities(scores, self.config.model.head).cpu().float())
        every = torch.cat(parts).numpy()
        return [self.classes[label] for label in every.argmax(1)], every


def load_model(run_folder: str | Path) -> TrainedModel:
    """The model of a finished run, on the CPU, in evaluation mode.

    Raises `UserError` where the run is not finished, its record was changed or has no class names, or the plug-in of
    its positional embedding is missing or was changed.
    """
    run = read(os.path.expanduser(run_folder), "run_folder")
    data, model = run.summary.get("data") or {}, run.model().eval()
    classes, mean, std = (data.get(name) or () for name in ("classes", "mean", "std"))
    if {len(mean), len(std)} != {model.cfg.in_chans} or len(classes) != model.cfg.num_classes:
        raise UserError(f"{run.folder}: {record.SUMMARY}: data: its classes, mean and std do not fit the model")
    return TrainedModel(model, tuple(classes), torch.tensor(mean), torch.tensor(std), run.config)
