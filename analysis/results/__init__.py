"""What all answers of a report share: the variants' names, their means, and how verdicts are reached.

`variants` names the variants, `means` has their values, `policy` says how verdicts are reached and compares every pair.
"""
