"""What was measured: curves, every metric, every run."""
