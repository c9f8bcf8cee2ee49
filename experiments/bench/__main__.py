"""`python -m experiments.bench`: reads the command line, writes what came of it. Heavy imports wait until needed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.cli import Parser, run_command
from experiments.errors import UserError

PROG = "experiments.bench"
CIFAR_FOLDER = "cifar-10-batches-py"  # torchvision's name for it
DRY = {"model.embed_dim": 16, "model.num_heads": 2, "model.depth": 1, "train.batch_size": 8}


def _parser() -> Parser:
    parser = Parser(PROG, description="Race our training against timm's, vit-pytorch's and the tutorials'.")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender; figures are medians [7]")
    parser.add_argument("--batches", type=int, help="batches a turn, at least 2 [10; on a GPU 191, all of CIFAR-10]")
    parser.add_argument("--data-root", type=Path, help="folder of CIFAR-10, torchvision's [data, or generated images]")
    parser.add_argument("--out", type=Path, help="write this JSON file, and beside it the table (.md) and plot (.svg)")
    parser.add_argument("--compile", action="store_true", help="race our step compiled, too; a GPU always does")
    parser.add_argument("--profile", action="store_true", help="only show where the time of our step and epoch goes")
    parser.add_argument("--dry-run", action="store_true", help="everything once and tiny; the figures mean nothing")
    return parser


def _body(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    for name, value, least in (("rounds", arguments.rounds, 1), ("batches", arguments.batches, 2)):
        if value is not None and value < least:
            raise UserError(f"{name}: {value} is not allowed; at least {least}")
    for package in ("timm", "vit_pytorch"):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package}: is not installed; the extra `bench` brings it: pip install -e '.[bench]'")
    root = _root(arguments.data_root)
    if arguments.out:
        _check_out(arguments.out)
    from experiments.bench import report
    from experiments.bench.hotspots import profile
    from experiments.bench.measure import Plan, measure
    from experiments.runs.run import pick_device

    device = str(pick_device(arguments.device))
    batches = arguments.batches or (191 if device.startswith("cuda") else 10)
    plan = Plan(device, arguments.rounds, batches, compiled=arguments.compile)
    if arguments.dry_run:
        plan = replace(plan, rounds=1, batches=2, epochs=1, points=1, changes=DRY, cores=1)
    if arguments.profile:
        print(profile(plan, root))
        return 0
    results = measure(plan, root, lambda line: print(line, file=sys.stderr, flush=True))
    if arguments.out:
        report.write(results, arguments.out)
    print(report.table(results))
    return 0


def _check_out(out: Path) -> None:
    """Raise `UserError` now for what could not be written in half an hour."""
    if out.suffix != ".json":
        raise UserError(f"out: {str(out)!r} is not allowed: a name that ends in .json")
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if out.is_dir() or not os.access(there, os.W_OK) or (there != out and not there.is_dir()):
        raise UserError(f"out: {str(out)!r} cannot be written")


def _root(given: Path | None) -> Path | None:
    """Where CIFAR-10 lies; None where it was not asked for and is not there."""
    root = given or Path("data")
    if (root / CIFAR_FOLDER).is_dir():
        return root
    if given:
        raise UserError(f"data-root: {str(given)!r} has no folder {CIFAR_FOLDER}; without it, images are generated")
    return None


if __name__ == "__main__":
    run_command(_body, PROG)
