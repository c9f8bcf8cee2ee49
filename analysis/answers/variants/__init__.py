"""The mean of each variant, and its difference from the baseline."""
