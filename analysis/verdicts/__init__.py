"""Verdicts: arrays in, estimates and verdicts out. Only numpy and scipy. `sweeps` imports it, too."""

from analysis.verdicts.comparisons import Comparison, Rule, compare
from analysis.verdicts.differences import Variance
from analysis.verdicts.estimates import ALPHA, UNKNOWN, Estimate, mean, means, proportion
from analysis.verdicts.factorial import Effect, Factorial, factorial
from analysis.verdicts.looks import NO_PLAN, Looks
