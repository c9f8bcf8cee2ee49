"""Where runs are read from: run folders, exported studies, W&B, tables. Every source gives a `Runs`."""
