"""Where runs are read from: run folders, exported tables, W&B, Optuna. Every source gives a `RunsTable`."""
