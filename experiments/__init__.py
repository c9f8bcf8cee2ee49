"""One run, or one cohort of runs: configuration, data, training, record, tracking."""
