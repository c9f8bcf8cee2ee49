"""Training of one run or one cohort: models, optimiser, training loop, compilation. It writes no files."""
