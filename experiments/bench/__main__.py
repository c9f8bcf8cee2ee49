"""`python -m experiments.bench`: the command line, the JSON file and the table of the benchmark."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from experiments.bench.measure import DRY, Plan, default_names, measure, workloads
from experiments.cli import Parser, run_command
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import pick_device
from vit.registry import nearest

PROG = "experiments.bench"
COLUMNS = ["workload", "runs per process", "processes x threads", "images/s", "run-epochs/hour"]
COLUMNS += ["x tutorial", "x timm", "peak MiB", "of matrix FLOP/s", "of copy B/s"]
CIFAR10_FOLDER = "cifar-10-batches-py"  # torchvision's name
LEAST = {"rounds": 1, "batches": 2, "runs": 2, "seconds": 1}  # the smallest allowed values
DEFAULTS = Plan("cpu", rounds=7, batches=10, runs=4, seconds=300.0)
GPU_DEFAULTS = replace(DEFAULTS, batches=191, runs=16)  # 191 batches are all of CIFAR-10


def _parser() -> Parser:
    parser = Parser(PROG, description="Benchmark our training against timm, vit-pytorch and a tutorial's loop.")
    names = ", ".join(workloads(DEFAULTS))
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these workloads: " + names)
    parser.add_argument("--rounds", type=int, help="turns of each workload; results are medians [7]")
    parser.add_argument("--batches", type=int, help="batches per turn [10; on a GPU 191, all of CIFAR-10]")
    parser.add_argument("--runs", type=int, help="runs per cohort, and processes under MPS [4; on a GPU 16]")
    parser.add_argument("--seconds", type=float, help="time limit of each workload, seconds [300]")
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
    """The results as a Markdown table, followed by the machine's rates, which the last two columns refer to, and notes."""
    lines = [COLUMNS, ["---", *["---:"] * (len(COLUMNS) - 1)]]
    lines += [_cells(name, row) for name, row in results["workloads"].items()]
    s, machine = results["setting"], results["machine"]
    text = [
        "\n".join(f"| {' | '.join(cells)} |" for cells in lines),
        f"{s['data']}, {s['batches']} batches of {s['batch_size']} per turn, medians of {s['rounds']} turns; ratios are taken "
        f"turn by turn. {s['name']}, {s['cores']} cores, torch {s['versions']['torch']}, load average {s['load_before']:.1f} "
        f"before the start. The machine reaches {machine['matmul_flops'] / 1e9:,.0f} GFLOP/s in matrix products and "
        f"{machine['copy_bytes'] / 1e9:,.0f} GB/s in copies; bytes are counted as if every operation used main memory.",
    ]
    text += [f"{name}: {row['note']}" for name, row in results["workloads"].items() if row["note"]]
    return "\n\n".join(text) + "\n"


def _cells(name: str, row: Mapping[str, Any]) -> list[str]:
    ratios = {reference.partition("-")[0]: ratio for reference, ratio in row["ratios"].items()}
    numbers = (
        (row["images_per_second"], ",.0f"),
        (row["run_epochs_per_hour"], ",.1f"),
        (ratios.get("tutorial"), ".2f"),
        (ratios.get("timm"), ".2f"),
        (row["peak_memory_bytes"] and row["peak_memory_bytes"] / 2**20, ",.0f"),
        (row["share_of_matmul"], ".0%"),
        (row["share_of_copy"], ".0%"),
    )
    cells = ["-" if number is None else format(number, style) for number, style in numbers]
    return [name, str(row["runs"]), f"{row['processes']} x {row['threads']}", *cells]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    run_command(_body, PROG, argv)


if __name__ == "__main__":
    main()
