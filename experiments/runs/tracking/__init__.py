"""Mirror runs to Weights & Biases, as a function of their records, from a process beside the one that trains."""
