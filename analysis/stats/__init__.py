"""Statistics: arrays in, estimates out. No I/O, no plots, no wording.

`estimates` describes one sample. `comparisons` holds the paired differences and their verdicts. `power` says what a number of
seeds can show. `factorial` analyses several factors. `holm` adjusts p-values.
`images` describes means over seeds and test images.
`batches` compares runs of different machines or commits.
"""

from analysis.stats.batches import BatchEffect, batch_effect
from analysis.stats.comparisons import Comparison, Verdict, compare, compare_all, improvement, paired, t_test, tost
from analysis.stats.estimates import Band, Estimate, Spread, band, bootstrap, iqm, iqm_interval, mean, sd, spread
from analysis.stats.factorial import AnovaRow, Contrast, Effect, Factorial, factorial
from analysis.stats.holm import holm
from analysis.stats.images import Components, ImageEstimate, over_images
from analysis.stats.power import detectable, seeds_needed, seeds_to_decide

__all__ = [
    "AnovaRow",
    "Band",
    "BatchEffect",
    "Comparison",
    "Components",
    "Contrast",
    "Effect",
    "Estimate",
    "Factorial",
    "ImageEstimate",
    "Spread",
    "Verdict",
    "band",
    "batch_effect",
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
    "over_images",
    "paired",
    "sd",
    "seeds_needed",
    "seeds_to_decide",
    "spread",
    "t_test",
    "tost",
]
