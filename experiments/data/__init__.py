"""Datasets: the catalogue, loading and splits, augmentation, generated probes."""
