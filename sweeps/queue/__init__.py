"""The queue of a study: which process trains which run, kept in an Optuna storage."""
