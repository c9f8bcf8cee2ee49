"""The policy of a study: what a diverged run counts as, and how many families share alpha."""

from dataclasses import replace

import pytest
from synthetic import add_metrics, write_factorial, write_study

from analysis.results.study_results import analyze
from analysis.sources.read import read


@pytest.mark.parametrize(
    ("metric", "level"), [("test/acc", 0.1), ("fewshot/digits/5", 0.1), ("fewshot/cifar100/5", 0.01), ("shift/1", 0.0)]
)
def test_a_diverged_run_counts_as_chance_among_the_classes_of_the_metric(tmp_path, metric, level):
    """Digits has 10 classes, CIFAR-100 has 100. Consistency has no chance level: the worst case counts."""
    folder = write_study(tmp_path, statuses={("sinusoidal", 1): "diverged"})
    add_metrics(folder, lambda *_: {"fewshot/digits/5": 0.5, "fewshot/cifar100/5": 0.5, "shift/1": 0.9})
    results = analyze(read(str(folder), metric=metric))
    assert results.policy.count_diverged(results.means.values)["sinusoidal"][1] == level


def test_pairs_share_alpha_with_the_factors(tmp_path):
    results = analyze(read(str(write_factorial(tmp_path, spread=0.05))))
    alone = replace(results.policy, families=1).compare(results.means.values, results.comparisons.pairs)
    shared = {pair: compared.p_holm for pair, compared in results.comparisons.pairs.items()}
    assert shared == pytest.approx({pair: min(1, 2 * compared.p_holm) for pair, compared in alone.items()})
    assert min(shared.values()) < 1
