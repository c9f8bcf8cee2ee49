"""Evaluates trained weights on test images: at the end of a run, and after the numbers of epochs in `eval.epochs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from experiments.config import RunConfig
from experiments.data.images import Splits
from experiments.data.streaming import StreamedPixels
from experiments.errors import UserError
from experiments.evaluation.fewshot import FewShotTask, fewshot_metrics, fewshot_tasks
from experiments.evaluation.frozen import frozen
from experiments.evaluation.position import permuted_images, position_metrics
from experiments.evaluation.sizes import SizeTask, size_metrics, size_tasks
from experiments.metric import REPEATED, Metric
from experiments.training.engine import Solo
from experiments.training.fit import Evaluation, Row, evaluate
from experiments.training.stacked import Stacked

Metrics = dict[str, float | None]


@dataclass(frozen=True)
class Tasks:
    """What runs of one configuration are evaluated on besides their own images."""

    fewshot: list[FewShotTask]
    sizes: list[SizeTask]


def tasks_of(config: RunConfig, splits: Splits, device: torch.device) -> Tasks:
    """The tasks of a run. Raises `UserError` where one of them is not possible with its images."""
    if (config.eval.max_shift or config.eval.permuted) and isinstance(splits.test.x, StreamedPixels):
        field = "max_shift" if config.eval.max_shift else "permuted"
        raise UserError(f"eval.{field}: is not allowed for images that do not fit into memory")
    return Tasks(fewshot_tasks(config, splits, device), size_tasks(config, splits, device))


@dataclass(frozen=True)
class Measured:
    """The evaluation of a run on its test images, None if the test set is left out, and all metrics by name."""

    test: Evaluation | None
    metrics: Metrics


def measure(engine: Solo | Stacked, splits: Splits, tasks: Sequence[FewShotTask]) -> list[Measured]:
    """Evaluate each run of the engine on the test images, once, and on its few-shot tasks.

    Without test images (a run that tunes settings), no image of any test set is evaluated.
    """
    tests: Sequence[Evaluation] | None = None
    metrics: list[Metrics] = [{"test/loss": None, "test/acc": None} for _ in engine.configs]
    if len(splits.test):
        tests = evaluate(engine, splits, splits.test, features=any(task.test is None for task in tasks))
        metrics = [{"test/loss": test.loss, "test/acc": test.accuracy} for test in tests]
    for task in tasks:
        for of_run, more in zip(metrics, fewshot_metrics(engine, splits, task, tests), strict=True):
            of_run.update(more)
    return [Measured(tests[run] if tests else None, of_run) for run, of_run in enumerate(metrics)]


def measure_finished(engine: Solo | Stacked, splits: Splits, tasks: Tasks, rows: Sequence[Row]) -> list[Measured]:
    """`measure`, and what is only measured after training. `rows`: the last epoch of each run.

    The test images at other sizes, shifted and permuted are other images: the plan names these evaluations as well.
    """
    results, config, test = measure(engine, splits, tasks.fewshot), engine.configs[0], bool(len(splits.test))
    settings, side = config.eval, config.data.image_shape[1]
    if not (settings.img_sizes or settings.max_shift or settings.permuted):
        return results
    permuted = permuted_images(config, splits) if test else None
    for model, measured, row in zip(frozen(engine, splits), results, rows, strict=True):
        metrics = measured.metrics
        metrics.update(size_metrics(model, splits, tasks.sizes, test))
        if test:
            metrics.update(position_metrics(model, splits, permuted))
        if side in settings.img_sizes:  # nothing is evaluated again
            metrics.update({name.at(side): {**row, **metrics}[name] for name in REPEATED})
    return results


def after_epoch(metrics: Metrics, row: Row) -> Metrics:
    """Metrics of the test images and of the epoch's validation images, named by the number of epochs: test/acc@10."""
    val: Metrics = {name: row[name] for name in REPEATED if name.startswith("val/")}
    kept = {name: value for name, value in metrics.items() if name.startswith(("test/", "fewshot")) and "@" not in name}
    return {Metric(name).after(int(row["epoch"])): value for name, value in {**val, **kept}.items()}
