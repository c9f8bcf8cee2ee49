"""How much a trained model relies on position: predictions for shifted images, accuracy with permuted patches.

shift/P       share of test images whose predicted class stays the same when the image is shifted by P pixels; the mean of
              shifts up, down, left and right; pixels from outside the image are black
permuted/acc  accuracy on test images whose patches are permuted, each image in an order of its own
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from experiments.config import RunConfig
from experiments.data.images import Images, Splits
from experiments.data.loading import shuffle_patches
from experiments.evaluation.frozen import Frozen
from experiments.metric import PERMUTED, SHIFT
from experiments.training.fit import evaluate

PERMUTATION_SEED = 0  # the same permutations for all runs
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # rows down, columns to the right


def position_metrics(model: Frozen, splits: Splits, permuted: Images | None) -> dict[str, float]:
    """The metrics of a model that `eval.max_shift` and `eval.permuted` ask for. `permuted`: see `permuted_images`."""
    metrics: dict[str, float] = {}
    if most := model.configs[0].eval.max_shift:
        original, pixels = model.classes(splits, splits.test), splits.test.x[:]
        for distance in range(1, most + 1):
            shares = []
            for row, column in DIRECTIONS:
                moved = Images(shifted(pixels, row * distance, column * distance), splits.test.y)
                shares.append(float((model.classes(splits, moved) == original).double().mean()))
            metrics[f"{SHIFT}/{distance}"] = sum(shares) / len(shares)
    if permuted is not None:
        metrics[PERMUTED] = evaluate(model, splits, permuted)[0].accuracy
    return metrics


def permuted_images(config: RunConfig, splits: Splits) -> Images | None:
    """The test images with permuted patches; None where `eval.permuted` does not ask for them."""
    if not config.eval.permuted:
        return None
    cpu = Images(splits.test.x[:].cpu(), splits.test.y.cpu())
    return shuffle_patches(cpu, config.model.patch_size, PERMUTATION_SEED).to(splits.test.y.device)


def shifted(pixels: Tensor, down: int, right: int) -> Tensor:
    """Images [N, C, S, S], moved by whole pixels; pixels from outside the image are black (0)."""
    side = pixels.shape[-1]
    y, x = max(down, 0), max(right, 0)
    moved = F.pad(pixels, (x, max(-right, 0), y, max(-down, 0)))
    top, left = max(-down, 0), max(-right, 0)
    return moved[..., top : top + side, left : left + side]
