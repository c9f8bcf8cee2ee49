"""Statistics: arrays in, estimates out. No I/O, no plots, no wording.

`estimates` describes one sample or share, and finds the step of an accuracy. `student` holds the tests of paired differences, `comparisons` the
verdicts on pairs of variants, `factorial` the effects of several factors. `holm` adjusts p-values, `power` says what a
number of seeds can show, `images` describes means over seeds and test images,
`aggregate` averages over datasets, `size_change` tests whether differences shrink, `looks` tests at several planned numbers
of seeds, and `batches` compares runs of different machines or commits.
"""

from analysis.stats.aggregate import Aggregate, aggregates, compare_averages, improvement
from analysis.stats.batches import BatchEffect, batch_effect
from analysis.stats.comparisons import (
    Comparison,
    Decided,
    PairedComparison,
    Rule,
    against_baseline,
    compare,
    paired,
    with_diverged,
)
from analysis.stats.estimates import (
    ALPHA,
    LEVEL,
    UNKNOWN,
    Estimate,
    accuracy_step,
    floor_of_difference,
    mean,
    means,
    proportion,
)
from analysis.stats.factorial import Factorial, factorial
from analysis.stats.holm import holm, holm_exclusive
from analysis.stats.images import ImageEstimate, over_images
from analysis.stats.looks import NO_PLAN, Looks, repeated_rate
from analysis.stats.power import SeedsNeeded, detectable, seeds_needed_band, seeds_to_decide
from analysis.stats.size_change import SizeChange, SpreadChange, sd_of_means, size_change, spread_change
from analysis.stats.student import t_test, tost
