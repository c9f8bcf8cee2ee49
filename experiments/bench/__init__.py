"""Benchmarks our training against timm, vit-pytorch and a tutorial's loop: `python -m experiments.bench`."""
