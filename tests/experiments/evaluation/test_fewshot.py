"""Few-shot evaluation: the classifier against numpy, scikit-learn and a case by hand; its metrics in records."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file
from sklearn.linear_model import Ridge

from experiments.config import RunConfig, override, run_id
from experiments.data import loading
from experiments.data.images import Images
from experiments.errors import UserError
from experiments.evaluation import fewshot
from experiments.evaluation.fewshot import LeastSquares, support_sets
from experiments.runs import record
from vit import ViT

FEWSHOT = {"eval__fewshot": "digits", "eval__shots": "1,5"}


def features(n: int, d: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng([n, d])
    return generator.normal(size=(n, d)) * generator.uniform(0.1, 9, d) + 4, np.arange(n) % classes


def design(x: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The design matrix, written again from the definition."""
    mean, std = support.mean(axis=0), np.sqrt(((support - support.mean(axis=0)) ** 2).mean(axis=0))
    return np.column_stack([(x - mean) / (std + 1e-5), np.full(len(x), 100.0)])


@pytest.mark.parametrize("l2", [2.0**6, 2.0**10])
@pytest.mark.parametrize(("n", "d"), [(60, 5), (12, 40), (6, 6), (3, 7)], ids=str)
def test_weights_solve_the_normal_equations_and_are_those_of_ridge_regression(n, d, l2):
    x, y = features(n, d)
    weights, rows = LeastSquares(x, y, 3).weights(l2), design(x, x)
    target = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    solved = np.linalg.solve(rows.T @ rows + l2 * np.eye(d + 1), rows.T @ target)
    assert weights == pytest.approx(solved, abs=1e-5)
    ridge = Ridge(alpha=l2, fit_intercept=False, solver="svd").fit(rows, target)
    assert weights == pytest.approx(ridge.coef_.T, abs=1e-5)


def test_support_sets_are_the_first_images_of_each_class_under_a_seeded_permutation():
    labels = np.random.default_rng(0).integers(0, 3, 200)
    used, indices = support_sets(labels, "abc", [2, 7], "digits")
    for seed, found in enumerate(indices):
        rng = np.random.default_rng(seed)  # as in big_vision
        expected = [rng.permutation(np.where(labels == k)[0])[:7] for k in range(3)]
        assert np.array_equal(used[found], np.stack(expected))
    assert len({found.tobytes() for found in indices}) == 3


def test_a_class_with_too_few_images_is_refused_before_training(tmp_path):
    with pytest.raises(UserError, match="^eval.shots: 25 is not allowed: class '.' of digits has [78] training images"):
        tiny.run(tmp_path / "a", eval__fewshot="digits")
    assert not (tmp_path / "a").exists()


def expected(folder: Path, config: Any, seed: int, shots: int, query: str, l2: float, probed: Any = None) -> float:
    """The accuracy of one support set from the checkpoint, with the features caught by a hook.

    `probed`: the configuration whose images are classified; by default those of the run.
    """
    splits, images = loading.load(config), loading.load(probed or config)
    model, caught = ViT(config.vit_config()).eval(), []
    model.load_state_dict(load_file(folder / record.CHECKPOINT))
    last = [layer for layer in model.head if isinstance(layer, torch.nn.Linear)][-1]
    last.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].detach().numpy()))
    for part in ("train", query):
        model(splits.normalized(splits.scaled(getattr(images, part).x)))
    rng, labels, n = np.random.default_rng(seed), images.train.y.numpy(), len(images.classes)
    support = np.concatenate([rng.permutation(np.where(labels == k)[0])[:shots] for k in range(n)])
    rows, target = design(caught[0][support], caught[0][support]), 2.0 * np.eye(n)[labels[support]] - 1
    weights = np.linalg.lstsq(
        np.vstack([rows, np.sqrt(l2) * np.eye(rows.shape[1])]), np.vstack([target, np.zeros((rows.shape[1], n))])
    )[0]
    scores = design(caught[1], caught[0][support]) @ weights
    return float((scores.argmax(1) == getattr(images, query).y.numpy()).mean())


@pytest.mark.parametrize("head", ["logits", "mlp", "softmax"])
def test_the_record_holds_the_accuracies_of_the_frozen_pre_logits(head, tmp_path):
    changes = {**FEWSHOT, "model__head": head}
    summary, config = tiny.run(tmp_path / "a", **changes), tiny.config(**changes)
    for shots in (1, 5):
        for name, query in (("fewshot", "test"), ("fewshot-val", "val")):
            each = [expected(tmp_path / "a", config, seed, shots, query, 2.0**10) for seed in range(3)]
            assert summary[f"{name}/digits/{shots}"] == pytest.approx(np.mean(each), abs=1e-12)
    chosen = []
    for seed in range(3):
        l2s = [2.0**k for k in (6, 7, 8, 9, 10)]
        by_l2 = [expected(tmp_path / "a", config, seed, 5, "val", l2) for l2 in l2s]
        chosen.append(expected(tmp_path / "a", config, seed, 5, "test", l2s[by_l2.index(max(by_l2))]))
    assert summary["fewshot-l2/digits/5"] == pytest.approx(np.mean(chosen), abs=1e-12)


def test_other_classes_are_those_that_the_run_is_not_trained_on(tmp_path):
    changes = {"data__classes": "3,5,8", "eval__fewshot": "other-classes", "eval__shots": "5"}
    summary, config = tiny.run(tmp_path / "a", **changes), tiny.config(**changes)
    others = tiny.config(data__classes="0,1,2,4,6,7,9", data__train_limit="none")
    for name, query in (("fewshot", "test"), ("fewshot-val", "val")):
        each = [expected(tmp_path / "a", config, seed, 5, query, 2.0**10, others) for seed in range(3)]
        assert summary[f"{name}/other-classes/5"] == pytest.approx(np.mean(each), abs=1e-12)


def test_grey_images_are_repeated_for_a_model_of_colours():
    config = override(RunConfig(), {"data.name": "cifar10", "data.img_size": 8, "eval.fewshot": "digits"})
    run_splits = replace(loading.load(RunConfig()), test=Images(torch.zeros(9, 3, 8, 8), torch.zeros(9)))
    task = fewshot.fewshot_task(config, "digits", run_splits, torch.device("cpu"))
    grey = loading.load(RunConfig()).test.x
    assert torch.equal(task.test.x, torch.cat([grey, grey, grey], 1))


def test_another_dataset_is_read_and_its_own_images_are_used(tmp_path, monkeypatch):
    """Two names for the same images: with other images of the same files the metrics would differ."""
    load, asked = loading.load, []

    def fake(config):
        asked.append(config.data)
        own = load(tiny.config(data__train_limit="none"))
        if config.data.name == "mnist":
            return own
        return load(config)

    monkeypatch.setattr(fewshot.loading, "load", fake)
    summary = tiny.run(tmp_path / "a", **{**FEWSHOT, "eval__fewshot": "mnist,digits"})
    assert [data.name for data in asked] == ["digits", "mnist"]
    assert (asked[1].image_shape, asked[1].train_limit) == ((1, 8), None)
    assert 0.1 < summary["fewshot/mnist/5"] < 1
    assert summary["fewshot/mnist/5"] != summary["fewshot/digits/5"]  # the training images are not limited there


def test_lists_may_be_given_in_any_form_and_order():
    forms = ("3,1", "1, 3", [3, 1], ["1", "3", "1"])
    configs = [override(tiny.config(), {"eval.epochs": form, "optim.schedule": "constant"}) for form in forms]
    assert {config.eval.epochs for config in configs} == {(1, 3)}
    assert len(set(map(run_id, configs))) == 1
    assert run_id(configs[0]) != run_id(override(configs[0], {"eval.epochs": ""}))
    assert run_id(override(configs[0], {"eval.epochs": "none"})) == run_id(override(configs[0], {"eval.epochs": []}))
