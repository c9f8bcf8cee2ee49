"""Evaluates trained weights on test images, at the end of a run and after the numbers of epochs in `eval.epochs`, and
on other images: at other sizes, shifted, and with permuted patches.

test/acc@16px               accuracy at 16 pixels, without further training, see `vit.resize`; likewise for val and loss
test/acc@16px/interpolated  the same with the positions of a rotary embedding interpolated
shift/P                     share of test images whose predicted class stays the same when the image is shifted by P
                            pixels; the mean of shifts up, down, left and right; pixels from outside the image are black
permuted/acc                accuracy on test images whose patches are permuted, each image in an order of its own

The last two tell how much a model relies on position. For other sizes the images are read again: they are resized from
the dataset's own, not from those of the trained size.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.config import RunConfig
from experiments.data.images import Images, Splits, StreamedPixels
from experiments.data.loading import load, shuffle_patches
from experiments.errors import UserError
from experiments.evaluation.fewshot import FewShotTask, fewshot_metrics, fewshot_task
from experiments.metric import PERMUTED, REPEATED, SHIFT, Metric
from experiments.training.fit import Evaluation, Row, evaluate
from experiments.training.stacked import Stacked
from experiments.training.trainer import Solo, Trainer
from vit.registry import REGISTRY
from vit.resize import resized

PERMUTATION_SEED = 0  # the same permutations for all runs
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # rows down, columns to the right


def frozen(trainer: Solo | Stacked, splits: Splits) -> Iterator[Solo]:
    """The trained model of each run of a trainer, alone. The trainer is not changed."""
    for run, config in enumerate(trainer.configs):
        alone = Solo([config], len(splits.classes), trainer.device)
        alone.model.load_state_dict(trainer.weights(run))
        yield alone


@dataclass(frozen=True)
class SizeTask:
    """The validation and test images at another size (pixels), in the order of the run's own."""

    side: int
    val: Images
    test: Images


def size_tasks(config: RunConfig, device: torch.device) -> list[SizeTask]:
    """A task for each size but the trained one. Raises `UserError` where the images do not fit into memory."""
    return [_task(config, side, device) for side in config.eval.img_sizes if side != config.data.image_shape[1]]


def _task(config: RunConfig, side: int, device: torch.device) -> SizeTask:
    data = config.data.model_copy(update={"img_size": side, "train_limit": None, "normalize": "unit"})
    splits = load(config.model_copy(update={"data": data}))
    return SizeTask(side, splits.val.to(device), splits.test.to(device))


def size_metrics(model: Solo, splits: Splits, tasks: Iterable[SizeTask], test: bool) -> dict[str, float]:
    """The metrics of a model at every size. Images are normalized as in training. `test`: evaluate test images too.

    A kind that is not rotary has no positions to interpolate: its metrics of both ways are the same.
    """
    metrics: dict[str, float] = {}
    evaluations: dict[str, Evaluation] = {}
    for task, interpolated in itertools.product(tasks, model.config.interpolations):
        if REGISTRY[model.config.model.pos_embed].is_rotary or not interpolated:
            at_side = copy.copy(model)
            at_side.model = resized(model.model.eval(), task.side, interpolated)
            for part in ("val", "test") if test else ("val",):
                (evaluations[part],) = evaluate(at_side, splits, getattr(task, part))
        for part, evaluation in evaluations.items():
            metrics[Metric(f"{part}/loss").at(task.side, interpolated)] = evaluation.loss
            metrics[Metric(f"{part}/acc").at(task.side, interpolated)] = evaluation.accuracy
    return metrics


def position_metrics(model: Solo, splits: Splits, permuted: Images | None) -> dict[str, float]:
    """The metrics of a model that `eval.max_shift` and `eval.permuted` ask for. `permuted`: see `permuted_images`."""
    metrics: dict[str, float] = {}
    if most := model.configs[0].eval.max_shift:
        original, pixels = evaluate(model, splits, splits.test)[0].classes, splits.test.x[:]
        for distance in range(1, most + 1):
            shares = []
            for row, column in DIRECTIONS:
                moved = Images(shifted(pixels, row * distance, column * distance), splits.test.y)
                shares.append(float((evaluate(model, splits, moved)[0].classes == original).double().mean()))
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
    return F.pad(pixels, (right, -right, down, -down))  # a negative number crops


Metrics = dict[str, float | None]


@dataclass(frozen=True)
class Tasks:
    """The images of runs of one configuration, and what they are evaluated on besides."""

    splits: Splits
    fewshot: list[FewShotTask]
    sizes: list[SizeTask]


def tasks_of(config: RunConfig, splits: Splits, device: torch.device, test: bool) -> Tasks:
    """The tasks of a run, without test images unless `test`. Raises `UserError` where its images do not allow one."""
    if (config.eval.max_shift or config.eval.permuted) and isinstance(splits.test.x, StreamedPixels):
        field = "max_shift" if config.eval.max_shift else "permuted"
        raise UserError(f"eval.{field}: is not allowed for images that do not fit into memory")
    fewshot = [fewshot_task(config, name, splits, device) for name in config.eval.fewshot]
    sizes = size_tasks(config, device)
    if not test:
        splits = replace(splits, test=splits.test.pick(torch.arange(0, device=splits.test.y.device)))
    return Tasks(splits, fewshot, sizes)


@dataclass(frozen=True)
class Measured:
    """The evaluation of a run on its test images, None if the test set is left out, and all metrics by name."""

    test: Evaluation | None
    metrics: Metrics


def measure(trainer: Trainer, tasks: Tasks) -> list[Measured]:
    """Evaluate each run of the trainer on the test images, once, and on its few-shot tasks.

    Without test images (a run that tunes settings), no image of any test set is evaluated.
    """
    splits, tests = tasks.splits, list[Evaluation]()
    metrics: list[Metrics] = [{"test/loss": None, "test/acc": None} for _ in trainer.configs]
    if len(splits.test):
        tests = evaluate(trainer, splits, splits.test, features=any(task.test is None for task in tasks.fewshot))
        metrics = [{"test/loss": test.loss, "test/acc": test.accuracy} for test in tests]
    for task in tasks.fewshot:
        for of_run, more in zip(metrics, fewshot_metrics(trainer, splits, task, tests or None), strict=True):
            of_run.update(more)
    return [Measured(tests[run] if tests else None, of_run) for run, of_run in enumerate(metrics)]


def measure_finished(trainer: Solo | Stacked, tasks: Tasks, rows: Sequence[Row]) -> list[Measured]:
    """`measure`, and what is only measured after training. `rows`: the last epoch of each run.

    The test images at other sizes, shifted and permuted are other images: the plan names these evaluations as well.
    """
    results, config, splits = measure(trainer, tasks), trainer.configs[0], tasks.splits
    settings, side = config.eval, config.data.image_shape[1]
    if not (settings.img_sizes or settings.max_shift or settings.permuted):
        return results
    test = bool(len(splits.test))
    permuted = permuted_images(config, splits) if test else None
    for model, measured, row in zip(frozen(trainer, splits), results, rows, strict=True):
        metrics = measured.metrics
        metrics.update(size_metrics(model, splits, tasks.sizes, test))
        if test:
            metrics.update(position_metrics(model, splits, permuted))
        if side in settings.img_sizes:  # nothing is evaluated again
            trained = {name: {**row, **metrics}[name] for name in REPEATED}
            metrics.update({name.at(side, i): trained[name] for i in config.interpolations for name in REPEATED})
    return results


def after_epoch(metrics: Metrics, row: Row) -> Metrics:
    """Metrics of the test images and of the epoch's validation images, named by the number of epochs: test/acc@10."""
    val: Metrics = {name: row[name] for name in REPEATED if name.startswith("val/")}
    kept = {name: value for name, value in metrics.items() if name.startswith(("test/", "fewshot")) and "@" not in name}
    return {Metric(name).after(int(row["epoch"])): value for name, value in {**val, **kept}.items()}
