"""Compares the speed of our training with timm, vit-pytorch and a tutorial's loop: `python tests/bench`."""

from measure import body

from experiments.cli import run_command

if __name__ == "__main__":
    run_command(body, "bench")
