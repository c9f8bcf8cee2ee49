"""Evaluates trained weights on test images: at the end of a run, and after the numbers of epochs in `eval.epochs`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from experiments.config import RunConfig
from experiments.data.images import Splits
from experiments.data.streaming import StreamedPixels
from experiments.errors import UserError
from experiments.evaluation.fewshot import FewShotTask, fewshot_metrics, fewshot_task
from experiments.evaluation.other_images import (
    SizeTask,
    frozen,
    permuted_images,
    position_metrics,
    size_metrics,
    size_tasks,
)
from experiments.metric import REPEATED, Metric
from experiments.training.fit import Evaluation, Row, evaluate
from experiments.training.stacked import Stacked
from experiments.training.trainer import Predictor, Solo

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


def measure(trainer: Predictor, tasks: Tasks) -> list[Measured]:
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
            own = {name: {**row, **metrics}[name] for name in REPEATED}
            metrics.update({name.at(side, i): own[name] for i in config.interpolations for name in REPEATED})
    return results


def after_epoch(metrics: Metrics, row: Row) -> Metrics:
    """Metrics of the test images and of the epoch's validation images, named by the number of epochs: test/acc@10."""
    val: Metrics = {name: row[name] for name in REPEATED if name.startswith("val/")}
    kept = {name: value for name, value in metrics.items() if name.startswith(("test/", "fewshot")) and "@" not in name}
    return {Metric(name).after(int(row["epoch"])): value for name, value in {**val, **kept}.items()}
