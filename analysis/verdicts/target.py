"""Does a variant reach a target? One-sided tests of means. Arrays in, p-values out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.verdicts.comparisons import Values
from analysis.verdicts.estimates import ALPHA, moments
from analysis.verdicts.study import Policy


@dataclass(frozen=True)
class Reach:
    """What the runs of a variant say of a target."""

    p: float  # adjusted over the variants (Bonferroni) and the looks; NaN where nothing is tested
    reason: str = ""  # why it is not tested

    @property
    def shown(self) -> bool:
        """Whether the mean is shown to lie beyond the target, with all other variants."""
        return self.p <= ALPHA


def reaches(values: Values, target: float, policy: Policy) -> dict[str, Reach]:
    """Variant -> whether its mean is above the target; below it, where lower is better.

    The test is Student's, with the variant's own variance. It must hold for the finished runs, and also where failed
    runs count at chance level; without a known level there is no test.
    """
    looks, chance = policy.looks, policy.chance
    tested, counted = looks.limit(values), looks.limit(chance.counted(values))
    found = {}
    for variant, runs in tested.items():
        lost = runs.keys() & set(chance.failed.get(variant, ()))
        alone, with_lost = (_p_value(of[variant].values(), target, policy) for of in (tested, counted))
        p = float(np.fmax(alone, with_lost))
        reason = "failed runs, chance level unknown" * bool(lost and variant in chance.unknown)
        if not reason and math.isnan(p):
            few = ["no run", "one run", f"no spread over the {policy.unit}s"]
            reason = "waiting for a look" if looks.waiting else few[min(int(np.isfinite([*runs.values()]).sum()), 2)]
        adjusted = min(p * len(values) / looks.of([variant]).share, 1.0)
        found[variant] = Reach(math.nan if reason else adjusted, reason)
    return found


def _p_value(runs: Iterable[float], target: float, policy: Policy) -> float:
    """The p-value of Student's one-sided test; NaN where the spread is not known."""
    centre, deviation, n = moments([*runs], policy.floor)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (centre - target) / (deviation / np.sqrt(n))
    return float(special.stdtr(n - 1, t if policy.lower_is_better else -t))
