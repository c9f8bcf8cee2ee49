"""The stratified split against scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from experiments.data.loading import stratified_split

SECOND = st.one_of(st.floats(0.01, 0.99), st.integers(1, 60))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), SECOND, st.integers(0, 2**31 - 1))
def test_equals_scikit_learns_or_both_refuse(labels, second, seed):
    try:
        expected = train_test_split(range(len(labels)), test_size=second, stratify=labels, random_state=seed)
    except ValueError:
        with pytest.raises(ValueError):
            stratified_split(np.array(labels), second, seed)
        return
    for ours, theirs in zip(stratified_split(np.array(labels), second, seed), expected, strict=True):
        assert ours.tolist() == sorted(theirs)


@pytest.mark.parametrize("second", [0.1, 0.02, 10_000])
def test_equals_scikit_learns_for_many_images(second):
    labels = np.random.RandomState(1).randint(0, 10, 60_000)
    expected = train_test_split(range(60_000), test_size=second, stratify=labels, random_state=0)
    for ours, theirs in zip(stratified_split(labels, second, 0), expected, strict=True):
        assert np.array_equal(ours, np.sort(theirs))
