"""All evaluations of trained weights on test images: at the end of a run, and after the numbers of epochs in `eval.epochs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.data.images import Splits
from experiments.evaluation.fewshot import FewShotTask, fewshot_metrics
from experiments.metric import Metric
from experiments.training.engine import Solo
from experiments.training.fit import Evaluation, Row, evaluate_images
from experiments.training.stacked import Stacked

Metrics = dict[str, float | None]


@dataclass(frozen=True)
class Measured:
    """A run on its test images, None where the test set is left out, and all metrics by name."""

    test: Evaluation | None
    metrics: Metrics


def measure(engine: Solo | Stacked, splits: Splits, tasks: Sequence[FewShotTask]) -> list[Measured]:
    """Evaluate each run of the engine on the test images, once, and on its few-shot tasks.

    Without test images (a run that tunes settings), no image of any test set is evaluated.
    """
    tests: Sequence[Evaluation] | None = None
    found: list[Metrics] = [{"test/loss": None, "test/acc": None} for _ in engine.configs]
    if len(splits.test):
        tests = evaluate_images(engine, splits, splits.test, features=any(task.test is None for task in tasks))
        found = [{"test/loss": test.loss, "test/acc": test.accuracy} for test in tests]
    for task in tasks:
        for metrics, more in zip(found, fewshot_metrics(engine, splits, task, tests), strict=True):
            metrics.update(more)
    return [Measured(tests[run] if tests else None, metrics) for run, metrics in enumerate(found)]


def after_epoch(metrics: Metrics, row: Row) -> Metrics:
    """Metrics of the test images and of the epoch's validation images, named by the number of epochs: test/acc@10."""
    val = {name: value for name, value in row.items() if name.startswith("val/")}
    return {Metric(name).after(int(row["epoch"])): value for name, value in {**val, **metrics}.items()}
