"""Training of one run or one cohort: models and optimiser, the loop, compilation. It writes no files."""
