"""Statistics: arrays in, estimates out. No I/O, no plots, no wording.

`estimates`: means, shares and t tests of one sample. `comparisons`: verdicts on pairs of variants, Holm's method.
`factorial`: the effects of several factors. `power`: what a number of seeds can show. `images`: means over seeds and
test images. `aggregate`: averages over datasets. `spread`: whether
differences shrink. `looks`: tests at several planned numbers of seeds. `letters`: which variants are not shown to
differ.
"""

from analysis.stats.aggregate import average, compare_averages
from analysis.stats.comparisons import (
    Comparison,
    Decided,
    PairedComparison,
    Rule,
    against_baseline,
    compare,
    holm,
    holm_exclusive,
)
from analysis.stats.differences import Variance
from analysis.stats.estimates import ALPHA, UNKNOWN, Estimate, floor_of_difference, mean, means, proportion
from analysis.stats.factorial import Factorial, factorial
from analysis.stats.images import ImageEstimate, over_images, remaining_share, seed_ratios
from analysis.stats.letters import compact_letters
from analysis.stats.looks import NO_PLAN, Looks, repeated_rate
from analysis.stats.spread import SpreadChange, sd_of_means, spread_change
