"""`python -m experiments.bench`: the command line, the JSON file and the table of the benchmark."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pandas import DataFrame

from experiments.bench.measure import DRY, Plan, default_names, measure, workloads
from experiments.cli import Parser, run_command
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import pick_device
from vit.registry import nearest

PROG = "experiments.bench"
COLUMNS = (
    "processes",
    "threads",
    "runs",
    "images_per_second",
    "run_epochs_per_hour",
    "share_of_matmul",
    "share_of_copy",
)
CIFAR10_FOLDER = "cifar-10-batches-py"  # torchvision's name
LEAST = {"rounds": 1, "batches": 2, "runs": 2, "seconds": 1}  # the smallest allowed values
DEFAULTS = Plan("cpu", rounds=7, batches=10, runs=4, seconds=300.0)
GPU_DEFAULTS = replace(DEFAULTS, batches=191, runs=16)  # 191 batches are all of CIFAR-10


def _parser() -> Parser:
    parser = Parser(PROG, description="Benchmark our training against timm, vit-pytorch and a tutorial's loop.")
    names = ", ".join(workloads(DEFAULTS))
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these workloads: " + names)
    parser.add_argument("--rounds", type=int, help=f"turns of each workload; results are medians [{DEFAULTS.rounds}]")
    batches, runs = (
        f"{getattr(DEFAULTS, name)}; on a GPU {getattr(GPU_DEFAULTS, name)}" for name in ("batches", "runs")
    )
    parser.add_argument("--batches", type=int, help=f"batches per turn [{batches}, all of CIFAR-10]")
    parser.add_argument("--runs", type=int, help=f"runs per cohort, and processes under MPS [{runs}]")
    parser.add_argument("--seconds", type=float, help=f"time limit of each workload, seconds [{DEFAULTS.seconds:g}]")
    parser.add_argument("--data-root", type=Path, help="folder of CIFAR-10; without it, images are generated")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="new JSON file [bench.json]")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, one turn: only checks that everything runs")
    return parser


def _body(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    given = {name: getattr(arguments, name) for name in LEAST if getattr(arguments, name) is not None}
    for name, value in given.items():
        if not value >= LEAST[name]:
            raise UserError(f"{name}: {value} is not allowed; at least {LEAST[name]}")
    root = arguments.data_root
    if root and not (root / CIFAR10_FOLDER).is_dir():
        raise UserError(f"data-root: {str(root)!r} has no folder {CIFAR10_FOLDER}; without it, images are generated")
    _check_out(arguments.out)
    device = str(pick_device(arguments.device))
    defaults = GPU_DEFAULTS if device.startswith("cuda") else DEFAULTS
    plan = replace(defaults, device=device, data_root=root, **given)
    if arguments.dry_run:
        plan = replace(plan, rounds=1, batches=2, digits_epochs=1, cores=1, changes=DRY)
    names = arguments.only or default_names(plan)
    _check_names(names, plan)
    results: dict[str, Any] = {}
    for runner, results in measure(plan, names):
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        record.write_json(arguments.out, results)
        print(f"{runner.workload.name}: {runner.note or f'turn {len(runner.rates)}'}", file=sys.stderr, flush=True)
    print(table(results), end="")
    return 0


def _check_names(names: Sequence[str], plan: Plan) -> None:
    """Raise `UserError` for a workload that does not exist or needs a package that is not installed."""
    known = workloads(plan)
    for name in names:
        if name not in known:
            raise UserError(f"only: {name!r} is not a workload; {nearest(name, list(known))}")
        package = known[name].model.replace("-", "_")
        if package in ("timm", "vit_pytorch") and importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed; install it with: pip install -e '.[bench]'")


def _check_out(out: Path) -> None:
    """Raise `UserError` for a file that exists or cannot be written, before anything is measured."""
    if out.suffix != ".json":
        raise UserError(f"out: {str(out)!r} is not allowed: a name that ends in .json")
    if out.exists():
        raise UserError(f"out: {str(out)!r} exists; delete it, or choose another name with --out")
    parent = next(path for path in out.absolute().parents if path.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise UserError(f"out: {str(out)!r} cannot be written")


def table(results: Mapping[str, Any]) -> str:
    """The main results as a table of text, then the machine's rates, which the shares refer to, and the notes."""
    rows = {}
    for name, row in results["workloads"].items():
        memory = row["peak_memory_bytes"]
        ratios = {f"x {reference}": ratio for reference, ratio in row["ratios"].items()}
        rows[name] = {**{key: row[key] for key in COLUMNS}, "peak_MiB": memory and memory / 2**20, **ratios}
    text = DataFrame.from_dict(rows, orient="index").to_string(na_rep="-", float_format="{:,.2f}".format)
    machine = ", ".join(f"{name} {value:.3g}" for name, value in results["machine"].items())
    notes = [f"{name}: {row['note']}" for name, row in results["workloads"].items() if row["note"]]
    return "\n".join([text, f"machine: {machine}", *notes, ""])


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    run_command(_body, PROG, argv)


if __name__ == "__main__":
    main()
