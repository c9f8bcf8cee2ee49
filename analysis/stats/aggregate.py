"""Averages over several datasets with equal weight, and tests of average differences.

The datasets are fixed, and only the seeds vary.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.stats.comparisons import Comparison, Rule, judge
from analysis.stats.differences import PAIRED, Differences
from analysis.stats.estimates import Estimate, floor_of_difference, moments, t_interval

Samples = Sequence[np.ndarray]
"""one array (runs,) for each dataset"""


def average(samples: Samples, floors: Sequence[float]) -> Estimate:
    """The mean over the datasets of their means, with Student's t interval for new seeds on the same datasets.

    `floors`: for each dataset the smallest standard deviation of a run (see `estimates`). The interval is NaN where a
    dataset has a single run. Values that are not finite are left out.
    """
    centre, error, df = stratified_mean(samples, floors)
    low, high = t_interval(centre, error, df)
    return Estimate(centre, float(low), float(high), _count(samples))


def stratified_mean(samples: Samples, floors: Sequence[float]) -> tuple[float, float, float]:
    """The mean over the datasets, its standard error over seeds, and Satterthwaite's degrees of freedom.

    The error is NaN where the spread of a dataset is not known (see `moments`).
    Source: Satterthwaite, Biometrics Bulletin 2 (1946), 110-114.
    """
    of_datasets = [moments(sample, floor) for sample, floor in zip(samples, floors, strict=True)]
    centres, deviations, counts = map(np.array, zip(*of_datasets))
    variances = deviations**2 / np.maximum(counts, 1)
    total = variances.sum()
    df = total**2 / (variances**2 / np.maximum(counts - 1, 1)).sum()
    return float(centres.mean()), float(np.sqrt(total) / len(samples)), float(df)


def compare_averages(differences: Mapping[str, Samples], floors: Sequence[float], rule: Rule) -> dict[str, Comparison]:
    """Variant -> its differences from the baseline seed by seed (seeds,) by dataset, on average over the datasets.

    The intervals and verdicts are those of `comparisons` with the standard error over seeds within datasets. The
    variants are the family. `floors`: for each dataset the smallest standard deviation of a run; `rule.floor` is not
    used. Values that are not finite are left out. With `rule.looks`, every array holds the seeds of the current look in
    the planned order. In simulations of two variants on 2 to 5 datasets, a false difference is found in 4.4 to 5.6 % of
    studies with looks at 3 and 5, 5 and 10, or 5, 10 and 20 seeds, and in 4.2 to 4.5 % with looks at 2, 3, 4 and 5.
    """
    if not differences:
        return {}
    paired = list(map(floor_of_difference, floors))
    at_looks = [
        _averages([[one[:seeds] for one in samples] for samples in differences.values()], paired)
        for seeds in rule.looks.reached
    ]
    return dict(zip(differences, judge(at_looks, int(at_looks[-1].known.sum()), rule), strict=True))


def _averages(variants: Sequence[Samples], floors: Sequence[float]) -> Differences:
    centre, error, df = np.array([stratified_mean(samples, floors) for samples in variants]).T
    n = np.array(list(map(_count, variants)))
    return Differences(centre, n, np.ones(1), error[None], df[None], np.full(n.shape, PAIRED), n < 0, n < 0)


def _count(samples: Samples) -> int:
    """How many values are finite."""
    return sum(int(np.isfinite(sample).sum()) for sample in samples)
