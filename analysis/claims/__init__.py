"""Published claims: hypotheses, how they are checked, the literature."""
