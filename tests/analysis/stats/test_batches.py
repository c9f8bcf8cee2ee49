"""The test for a batch effect, against numbers computed by hand and SciPy's t test."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from analysis.stats import batch_effect


def runs_of(values, batch_of):
    """One row for each variant and seed; `batch_of`: (variant, seed) -> batch."""
    return pd.DataFrame(
        [
            {"variant": variant, "seed": seed, "acc": value, "batch": batch_of(variant, seed)}
            for variant, own in values.items()
            for seed, value in enumerate(own)
        ]
    )


def test_two_batches_of_seeds_give_the_t_test_of_the_seeds_means():
    """Seeds 0 to 2 come from one machine, 3 and 4 from another. For two groups the F test is the t test."""
    values = {"a": [0.70, 0.72, 0.71, 0.75, 0.76], "b": [0.90, 0.90, 0.93, 0.93, 0.95]}
    effect = batch_effect(runs_of(values, lambda variant, seed: "new" if seed > 2 else "old"), "acc", "batch")
    seeds = np.mean([values["a"], values["b"]], axis=0)
    assert (effect.batches, effect.variants) == (2, 2)
    assert effect.difference == pytest.approx(seeds[3:].mean() - seeds[:3].mean())
    assert effect.p == pytest.approx(ttest_ind(seeds[3:], seeds[:3]).pvalue)


def test_a_difference_between_variants_is_no_batch_effect():
    values = {"a": [0.1, 0.2, 0.3, 0.1, 0.2, 0.3], "b": [0.8, 0.9, 1.0, 0.8, 0.9, 1.0]}
    effect = batch_effect(runs_of(values, lambda variant, seed: "new" if seed > 2 else "old"), "acc", "batch")
    assert effect.difference == pytest.approx(0) and effect.p == pytest.approx(1)


def test_variants_of_one_batch_each_cannot_be_tested():
    values = {"a": [0.1, 0.2, 0.3], "b": [0.8, 0.9, 1.0]}
    effect = batch_effect(runs_of(values, lambda variant, seed: variant), "acc", "batch")
    assert (effect.batches, effect.variants) == (2, 0) and math.isnan(effect.p) and math.isnan(effect.difference)


def test_only_variants_of_several_batches_count():
    values = {"a": [0.1, 0.2, 0.3, 0.5], "b": [0.8, 0.9, 1.0, 0.0]}
    both = batch_effect(
        runs_of(values, lambda variant, seed: "new" if variant == "a" and seed > 1 else "old"), "acc", "batch"
    )
    one = batch_effect(runs_of({"a": values["a"]}, lambda variant, seed: "new" if seed > 1 else "old"), "acc", "batch")
    assert both == one and both.variants == 1


@pytest.mark.parametrize("values", [{"a": [0.1, 0.2]}, {"a": [0.1, 0.1, 0.2, 0.2]}, {"a": [0.5, 0.5, 0.5, 0.5]}])
def test_without_scatter_within_a_batch_there_is_no_p(values):
    half = len(values["a"]) // 2
    effect = batch_effect(runs_of(values, lambda variant, seed: seed // half), "acc", "batch")
    assert effect.batches == 2 and math.isnan(effect.p)
