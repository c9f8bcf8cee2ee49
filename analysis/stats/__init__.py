"""The front door to the statistics: arrays in, estimates out. Names only; no code, no I/O, no plots.

`estimates` holds one sample's numbers, `comparisons` the paired differences and how a verdict is reached, `power` what
so many seeds can tell, `factorial` the linear model of several factors.
"""

from analysis.stats.comparisons import (
    Comparison,
    Verdict,
    compare,
    compare_all,
    holm,
    improvement,
    paired,
    t_test,
    tost,
)
from analysis.stats.estimates import Estimate, bootstrap, iqm, iqm_interval, mean, sd
from analysis.stats.factorial import AnovaRow, Contrast, Effect, Factorial, factorial
from analysis.stats.power import detectable, seeds_needed, seeds_to_decide

__all__ = [
    "AnovaRow",
    "Comparison",
    "Contrast",
    "Effect",
    "Estimate",
    "Factorial",
    "Verdict",
    "bootstrap",
    "compare",
    "compare_all",
    "detectable",
    "factorial",
    "holm",
    "improvement",
    "iqm",
    "iqm_interval",
    "mean",
    "paired",
    "sd",
    "seeds_needed",
    "seeds_to_decide",
    "t_test",
    "tost",
]
