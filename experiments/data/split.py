"""The stratified split of scikit-learn's `train_test_split`, without importing scikit-learn, which takes a second."""

import math

import numpy as np


def stratified_split(labels: np.ndarray, second: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices of two parts, sorted, the same as scikit-learn's; the second is a fraction (float) or a number (int).

    labels: [N], classes from 0. Raises `ValueError` where a class has one image, or a part fewer images than classes.
    """
    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n = len(labels)
    n_second = math.ceil(second * n) if isinstance(second, float) else second
    if counts.min() < 2 or not len(counts) <= n_second <= n - len(counts):
        raise ValueError(
            f"{n} images of {len(counts)} classes cannot be split into {n - n_second} and {n_second}: each part needs "
            "one of each"
        )
    random = np.random.RandomState(seed)
    first_counts = _proportional(counts, n - n_second, random)
    second_counts = _proportional(counts - first_counts, n_second, random)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for label, count in enumerate(counts):
        members = np.flatnonzero(labels == label)[random.permutation(count)]
        one, two = first_counts[label], second_counts[label]
        parts[0].append(members[:one])
        parts[1].append(members[one : one + two])
    return np.sort(np.concatenate(parts[0])), np.sort(np.concatenate(parts[1]))


def _proportional(counts: np.ndarray, total: int, random: np.random.RandomState) -> np.ndarray:
    """`total` in proportion to `counts`, rounded down; the largest remainders get one more, equal ones at random."""
    exact = counts / counts.sum() * total
    rounded = np.floor(exact)
    remainders, missing = exact - rounded, int(total - rounded.sum())
    for value in np.unique(remainders)[::-1]:
        if missing <= 0:
            break
        equal = np.flatnonzero(remainders == value)
        chosen = random.choice(equal, size=min(len(equal), missing), replace=False)
        rounded[chosen] += 1
        missing -= len(chosen)
    return rounded.astype(int)
