"""Trained models for the evaluation on images of other sizes, shifted images and permuted images."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from experiments.config import RunConfig
from experiments.data.images import Images, Splits
from experiments.errors import UserError
from experiments.memory import in_smaller_batches
from experiments.training.engine import DTYPES, Solo, autocast, eval_batch, evaluate_batch, initial_model
from experiments.training.stacked import Stacked
from vit import ViT
from vit.registry import REGISTRY
from vit.resize import resized


class Frozen:
    """The `Predictor` of a trained model."""

    def __init__(self, model: ViT, config: RunConfig, device: torch.device) -> None:
        self.model, self.config, self.device = model.eval(), config, device
        self.configs: tuple[RunConfig, ...] = (config,)

    def eval_step(self, x: Tensor, y: Tensor, features: bool = False) -> tuple[Tensor, ...]:
        """See `Predictor`."""
        return evaluate_batch(self.model, self.config, x, y, features)

    def at_size(self, side: int) -> Frozen:
        """The model for images of another side (pixels)."""
        return Frozen(at_size(self.model, side), self.config, self.device)

    @torch.no_grad()
    def classes(self, splits: Splits, images: Images) -> Tensor:
        """The predicted class of each image, [N]."""
        dtype = DTYPES[self.config.train.precision]

        def classes(size: int) -> Tensor:
            batches = (splits.normalized(splits.scaled(x, dtype)) for x, _ in images.batches(size))
            with autocast(self.config, self.device):
                return torch.cat([self.model(x).argmax(-1) for x in batches])

        return in_smaller_batches(classes, eval_batch(self.configs, self.device), images.x.shape[-1])


def at_size(model: ViT, side: int) -> ViT:
    """`vit.resize.resized`. Raises `UserError` where the positional embedding cannot be used at this size."""
    try:
        return resized(model, side)
    except ValueError as error:
        raise UserError(f"model.{error}") from error


def check_sizes(config: RunConfig, num_classes: int) -> None:
    """Raise `UserError` if a plug-in cannot be used at a size in `eval.img_sizes`; built-in kinds can at all sizes."""
    if config.eval.img_sizes and REGISTRY[config.model.pos_embed].is_plugin:
        model = initial_model(config, num_classes)
        for side in config.eval.img_sizes:
            at_size(model, side)


def frozen(engine: Solo | Stacked, splits: Splits) -> Iterator[Frozen]:
    """The trained model of each run of an engine. The engine is not changed."""
    for run, config in enumerate(engine.configs):
        model = initial_model(config, len(splits.classes)).to(engine.device)
        model.load_state_dict(engine.weights(run))
        yield Frozen(model, config, engine.device)
