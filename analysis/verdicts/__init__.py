"""Verdicts: arrays in, estimates and verdicts out. No I/O, no plots, no wording. `sweeps` imports it, too."""

from analysis.verdicts.comparisons import Comparison, Rule, against_baseline, compare
from analysis.verdicts.differences import Variance
from analysis.verdicts.estimates import ALPHA, UNKNOWN, Estimate, mean, means, proportion
from analysis.verdicts.factorial import Factorial, factorial
from analysis.verdicts.looks import NO_PLAN, Looks
