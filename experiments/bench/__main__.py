"""`python -m experiments.bench`: the benchmark."""

from experiments.bench.measure import body
from experiments.cli import run_command

if __name__ == "__main__":
    run_command(body, "experiments.bench")
