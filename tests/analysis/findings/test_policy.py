"""The policy of a study: what a diverged run counts as, and how many families share alpha."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from shown import warnings
from synthetic import add_metrics, results_of, write_factorial, write_study

from analysis.findings import analyze
from analysis.findings.comparisons import compare_variants
from analysis.findings.policy import chance_level
from analysis.runs.read import read
from experiments.metric import Metric


@pytest.mark.parametrize(
    ("metric", "level"),
    [
        *(("test/acc", 0.1), ("test/loss", math.log(10))),
        *(("fewshot/digits/5", 0.1), ("fewshot/cifar100/5", 0.01), ("shift/1", math.nan)),
    ],
)
def test_a_diverged_run_counts_as_chance_among_the_classes_of_the_metric(tmp_path, metric, level):
    """Digits has 10 classes, CIFAR-100 has 100. Consistency has no chance level: its pairs are not tested."""
    folder = write_study(tmp_path, statuses={("sinusoidal", 1): "diverged"})
    names = ("fewshot/digits/5", "fewshot/cifar100/5", "shift/1")
    add_metrics(folder, lambda _, kind, seed: dict.fromkeys(names, 0.5 + len(kind) * seed**2 / 1000))
    results = analyze(read(str(folder), metric=metric))
    assert results.outcomes.failed["sinusoidal"][1]
    assert results.outcomes.chance["sinusoidal"] == pytest.approx(level, nan_ok=True)
    one = results.comparisons.versus["sinusoidal"]
    assert (one.reason == "failed runs, chance level unknown") == math.isnan(level)


def test_a_pruned_run_counts_as_one_that_failed(tmp_path):
    """It was stopped for its low results: the four that are left show a difference, and the five do not."""
    lost = {status: {("sinusoidal", 1): status} for status in ("pruned", "diverged")}
    pairs = [results_of(tmp_path, name=name, statuses=lost[name]).comparisons.versus["sinusoidal"] for name in lost]
    assert {(one.verdict, one.verdict_of_finished) for one in pairs} == {("not shown", "better")}
    ends = [(one.adjusted.low, one.adjusted.high) for one in pairs]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize(
    ("metric", "level"),
    [("test/acc", 1 / 3), ("fewshot/digits/5", 1 / 3), ("fewshot/other-classes/5", 1 / 7), ("fewshot/mnist/5", 0.1)],
)
def test_chance_with_three_of_ten_classes(metric, level):
    """The run's own dataset has the chosen classes, `other-classes` the seven that are left, MNIST all of its ten."""
    settings = pd.Series({"data.name": "digits", "data.classes": "1,4,7"})
    assert chance_level(settings, Metric(metric)) == pytest.approx(level)


@pytest.mark.parametrize(
    ("level", "metric", "near"),
    [(0.1, "test/acc", True), (0.12, "test/acc", True), (0.2, "test/acc", False), (0.0, "test/loss", True)],
)
def test_variants_near_chance_have_a_note(tmp_path, level, metric, near):
    """Of 10 classes. The loss is 2.3 - 2 accuracies, and log 10 is 2.303."""
    accuracy = {"none": level, "cpe": level, "rope-2d": 0.9}
    findings = results_of(tmp_path, accuracy=accuracy, spread=0.0001, metric=metric, margin=0.01)
    assert any(line.startswith("Near chance: cpe and none.") for line in warnings(findings)) == near
    assert findings.comparisons.pairs["cpe", "none"].verdict == "equivalent"


@pytest.mark.parametrize("lost", [{}, {("depth=2, head=softmax", seed): "absent" for seed in range(4)}])
def test_pairs_share_alpha_with_the_factors_of_the_plan_whatever_has_finished(lost, tmp_path):
    results = analyze(read(str(write_factorial(tmp_path, spread=0.05, statuses=lost))))
    assert (results.factors.model is None) == bool(lost)
    policy, baseline = replace(results.policy, has_grid=False), results.comparisons.baseline
    alone = compare_variants(results.outcomes, baseline, policy).pairs
    tested = {pair: compared for pair, compared in results.comparisons.pairs.items() if compared.n > 1}
    shared = {pair: compared.p_adjusted for pair, compared in tested.items()}
    assert shared == pytest.approx({pair: min(1, 2 * alone[pair].p_adjusted) for pair in tested})
    assert min(shared.values()) < 1


def test_pairs_have_alpha_for_themselves_where_the_plan_lacks_a_combination(tmp_path):
    levels = {"a": (1, "logits"), "b": (2, "logits"), "c": (1, "softmax")}
    results = results_of(
        tmp_path,
        accuracy=dict.fromkeys(levels, 0.8),
        levels=lambda variant: dict(zip(("model.depth", "model.head"), levels[variant])),
        factors={"model.depth": [1, 2], "model.head": ["logits", "softmax"]},
    )
    assert not results.policy.has_grid and results.factors.model is None
    assert "every combination in the plan" in results.factors.skipped_reason
