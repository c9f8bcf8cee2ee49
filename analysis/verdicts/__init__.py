"""Verdicts: arrays in, estimates and verdicts out. No I/O, no plots, no wording. `sweeps` imports this floor as well.

`estimates`: means, shares and t tests of one sample. `comparisons`: the interval of each difference, and its verdict.
`differences`: their standard errors. `factorial`: the effects of several factors. `power`:
what a number of seeds can show. `looks`: tests at several planned numbers of seeds. `study`: from the rows of a study's
runs to its comparisons, by its policy and `chance` levels. `target`: which variants reach a value.
"""

from analysis.verdicts.comparisons import Comparison, Rule, against_baseline, compare
from analysis.verdicts.differences import Variance
from analysis.verdicts.estimates import ALPHA, UNKNOWN, Estimate, mean, means, proportion
from analysis.verdicts.factorial import Factorial, factorial
from analysis.verdicts.looks import NO_PLAN, Looks
