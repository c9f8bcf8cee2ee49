"""Few-shot linear evaluation of frozen features: the metric of arXiv 2010.11929, Table 8.

As in big_vision's `fewshot_lsr`: the features are the pre-logits; the support set is the first `shots` training images
of each class under a seeded permutation; the classifier is `LeastSquares` with l2 = 2^10; accuracies are means over
three support sets. The metrics of a dataset D and a number of shots S:

fewshot/D/S      accuracy on the test images
fewshot-val/D/S  accuracy on the validation images, for choices
fewshot-l2/D/S   accuracy on the test images with the l2 that is best on the validation images, as in kauldron
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from experiments.config import RunConfig
from experiments.data import loading
from experiments.data.images import Images, Splits
from experiments.errors import UserError
from experiments.metric import FEWSHOT, FEWSHOT_L2, FEWSHOT_VAL
from experiments.sections import OTHER_CLASSES, DataConfig
from experiments.training.fit import Evaluation, evaluate
from experiments.training.trainer import Trainer

SEEDS = range(3)  # of the support sets; the same for all runs
L2 = 2.0**10
L2_CHOICES = tuple(2.0**exponent for exponent in range(6, 11))
BIAS = 100.0  # the value of the constant feature: so large that its weight is hardly regularized
EPSILON = 1e-5  # added to standard deviations


@dataclass(frozen=True)
class FewShotTask:
    """A dataset for few-shot evaluation.

    `support`: the training images of all support sets. `indices`: for each seed, for each class, indices into `support`
    in the order in which they are used. `test` is None for the run's own dataset, whose test images are evaluated
    anyway.
    """

    dataset: str
    shots: tuple[int, ...]
    support: Images
    indices: list[np.ndarray]  # [K, most shots] for each seed
    val: Images
    test: Images | None
    test_labels: Tensor


def fewshot_task(config: RunConfig, name: str, run_splits: Splits, device: torch.device) -> FewShotTask:
    """A task of a run. Raises `UserError` where the dataset cannot be read or a class has too few images."""
    data, is_own = config.data, name == config.data.name
    if is_own:
        splits = run_splits
    elif name == OTHER_CLASSES:
        whole = data.model_copy(update={"train_limit": None, "normalize": "unit"})
        splits = loading.load(config.model_copy(update={"data": whole}), other_classes=True).to(device)
    else:
        side = data.image_shape[1]
        kept = {field: getattr(data, field) for field in ("root", "download", "val_fraction", "test_fraction")}
        kept |= {"split_seed": data.split_seed, "shuffle_patches": data.shuffle_patches}
        other = DataConfig(name=name, img_size=side, normalize="unit", **kept)  # images are normalized as in training
        splits = _repeated(loading.load(config.model_copy(update={"data": other})), data.image_shape[0]).to(device)
    support, indices = support_sets(splits.train.y.cpu().numpy(), splits.classes, config.eval.shots, name)
    return FewShotTask(
        dataset=name,
        shots=config.eval.shots,
        support=splits.train.pick(torch.from_numpy(support)),
        indices=indices,
        val=splits.val,
        test=None if is_own else splits.test,
        test_labels=splits.test.y.cpu(),
    )


def _repeated(splits: Splits, channels: int) -> Splits:
    """The splits with grey images repeated to so many channels."""
    parts = (splits.train, splits.val, splits.test)
    train, val, test = (Images(part.x[:].expand(-1, channels, -1, -1), part.y) for part in parts)
    return replace(splits, train=train, val=val, test=test)


def support_sets(
    labels: np.ndarray, classes: Sequence[str], shots: Sequence[int], name: str
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The training images that any support set uses, and for each seed their places in it, [K, most shots].

    The images of a class are the first of a permutation by numpy's `default_rng(seed)`, class by class, as in
    big_vision. Raises `UserError` where a class has too few images.
    """
    most, sets = max(shots), []
    for number, label in enumerate(classes):
        if (count := int((labels == number).sum())) < most:
            raise UserError(
                f"eval.shots: {most} is not allowed: class {label!r} of {name} has {count} training images; allowed: "
                "up to the number of images of the smallest class"
            )
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        sets.append(np.stack([rng.permutation(np.where(labels == k)[0])[:most] for k in range(len(classes))]))
    used = np.unique(np.concatenate(sets))
    return used, [np.searchsorted(used, images) for images in sets]


def fewshot_metrics(
    trainer: Trainer, splits: Splits, task: FewShotTask, test: Sequence[Evaluation] | None
) -> list[dict[str, float]]:
    """The metrics of a task for each run of the trainer.

    `test`: the runs' evaluations of their own test images; None measures only the metric of the validation images.
    """

    def probed(images: Images) -> list[Evaluation]:
        """With labels that the model has scores for: its head knows nothing of the classes of another dataset."""
        return evaluate(trainer, splits, Images(images.x, torch.zeros_like(images.y)), features=True)

    parts = [probed(task.support), probed(task.val)]
    if test is not None:
        parts.append(list(test) if task.test is None else probed(task.test))
    return [_metrics(task, *(np.asarray(part.features) for part in run)) for run in zip(*parts, strict=True)]


def _metrics(
    task: FewShotTask, support: np.ndarray, val: np.ndarray, test: np.ndarray | None = None
) -> dict[str, float]:
    """The metrics of one run. Features [N, D] each; NaN where they are not finite."""
    metrics: dict[str, float] = {}
    finite = all(np.isfinite(part).all() for part in (support, val, test) if part is not None)
    kinds = (FEWSHOT_VAL,) if test is None else (FEWSHOT_VAL, FEWSHOT, FEWSHOT_L2)
    for shots in task.shots:
        by_seed = [_accuracies(task, seed, shots, support, val, test) for seed in SEEDS] if finite else [[np.nan] * 3]
        for kind, value in zip(kinds, np.mean(by_seed, 0), strict=False):
            metrics[f"{kind}/{task.dataset}/{shots}"] = float(value)
    return metrics


def _accuracies(
    task: FewShotTask, seed: int, shots: int, support: np.ndarray, val: np.ndarray, test: np.ndarray | None
) -> list[float]:
    """Accuracies with one support set: validation, test, and test with the l2 that is best on validation."""
    index = task.indices[seed][:, :shots]  # [K, shots]
    labels = np.repeat(np.arange(len(index)), index.shape[1])
    model = LeastSquares(support[index.ravel()], labels, len(index))
    by_l2 = model.accuracies(val, task.val.y.cpu().numpy(), L2_CHOICES)
    fixed = by_l2[L2_CHOICES.index(L2)]
    if test is None:
        return [fixed]
    best = L2_CHOICES[int(np.argmax(by_l2))]  # the smallest of several that are equally good, as in kauldron
    return [fixed, *model.accuracies(test, task.test_labels.numpy(), (L2, best))]


class LeastSquares:
    """The weights that minimize |X W - Y|^2 + l2 |W|^2, for any l2 > 0 from one eigendecomposition.

    X are the features, standardized by their own mean and standard deviation (plus `EPSILON`), and a constant feature
    `BIAS`. Y is 1 for the class of a row and -1 for the others. x: [N, D]; y: [N], classes from 0
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, num_classes: int) -> None:
        x = np.asarray(x, dtype=np.float64)
        self.mean, self.std = x.mean(0), x.std(0) + EPSILON
        x = self.prepared(x)
        target = 2.0 * (np.asarray(y)[:, None] == np.arange(num_classes)) - 1.0  # [N, K]
        n, d = x.shape
        # W = (X'X + l2)^-1 X'Y = X' (XX' + l2)^-1 Y: the smaller of the two matrices is decomposed
        self.eigenvalues, q = np.linalg.eigh(x.T @ x if n >= d else x @ x.T)
        self.left: np.ndarray = q if n >= d else x.T @ q
        self.right: np.ndarray = q.T @ (x.T @ target if n >= d else target)

    def prepared(self, x: np.ndarray) -> np.ndarray:
        """Features standardized by the support set, with the constant feature last. [N, D] -> [N, D + 1]"""
        return np.pad((np.asarray(x, dtype=np.float64) - self.mean) / self.std, ((0, 0), (0, 1)), constant_values=BIAS)

    def weights(self, l2: float) -> np.ndarray:
        """The weights of the standardized features and the constant, [D + 1, K]."""
        return (self.left / (self.eigenvalues + l2)) @ self.right

    def accuracies(self, x: np.ndarray, y: np.ndarray, l2s: Sequence[float]) -> list[float]:
        """The accuracy (a fraction) for each l2: the class with the highest score counts. x: [N, D]; y: [N]"""
        x, y = self.prepared(x), np.asarray(y)
        return [float(((x @ self.weights(l2)).argmax(1) == y).mean()) for l2 in l2s]
