"""Evaluation at other image sizes without further training: test/acc@16px. See `vit.resize`.

The images are read again at each size: they are resized from the dataset's own, not from those of the trained size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from experiments.config import RunConfig
from experiments.data import loading
from experiments.data.images import Images, Splits
from experiments.errors import UserError
from experiments.evaluation.frozen import Frozen, check_sizes
from experiments.metric import Metric
from experiments.training.fit import evaluate


@dataclass(frozen=True)
class SizeTask:
    """The validation and test images at another size (pixels), in the order of the run's own."""

    side: int
    val: Images
    test: Images


def size_tasks(config: RunConfig, splits: Splits, device: torch.device) -> list[SizeTask]:
    """A task for each size but the trained one.

    Raises `UserError` where the images do not fit into memory or the positional embedding cannot be used at a size.
    """
    check_sizes(config, len(splits.classes))
    return [_task(config, side, device) for side in config.eval.img_sizes if side != config.data.image_shape[1]]


def _task(config: RunConfig, side: int, device: torch.device) -> SizeTask:
    data = config.data.model_copy(update={"img_size": side, "train_limit": None, "normalize": "unit"})
    try:
        resized = loading.load(config.model_copy(update={"data": data}))
    except UserError as error:  # the size is one of the user's list, and not the trained one
        raise UserError(str(error).replace("data.img_size: ", "eval.img_sizes: ", 1)) from error
    return SizeTask(side, resized.val.to(device), resized.test.to(device))


def size_metrics(model: Frozen, splits: Splits, tasks: Iterable[SizeTask], test: bool) -> dict[str, float]:
    """The metrics of a model at every size. Images are normalized as in training. `test`: evaluate test images too."""
    metrics: dict[str, float] = {}
    for task in tasks:
        resized = model.at_size(task.side)
        for part in ("val", "test") if test else ("val",):
            (evaluation,) = evaluate(resized, splits, getattr(task, part))
            metrics[Metric(f"{part}/loss").at(task.side)] = evaluation.loss
            metrics[Metric(f"{part}/acc").at(task.side)] = evaluation.accuracy
    return metrics
