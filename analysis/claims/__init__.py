"""Published claims: hypotheses, how they are checked, the literature, the theory of the probes."""
