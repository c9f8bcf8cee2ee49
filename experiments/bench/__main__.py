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
CIFAR10_FOLDER = "cifar-10-batches-py"  # torchvision's name
COLUMNS: tuple[str, ...] = ("workload", "runs per process", "processes x threads", "images/s", "run-epochs/hour")
COLUMNS += ("x tutorial", "x timm", "peak memory", "of matrix FLOP/s", "of copy B/s")


def _names() -> str:
    return ", ".join(workloads(Plan("cpu", rounds=1, batches=2, runs=2, seconds=1)))


def _parser() -> Parser:
    parser = Parser(PROG, description="Benchmark our training against timm, vit-pytorch and a tutorial's loop.")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these workloads: " + _names())
    parser.add_argument("--rounds", type=int, default=7, help="turns of each workload; results are medians [7]")
    parser.add_argument("--batches", type=int, help="batches per turn [10; on a GPU 191, all of CIFAR-10]")
    parser.add_argument("--runs", type=int, help="runs per cohort, and processes under MPS [4; on a GPU 16]")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of each workload, seconds [300]")
    parser.add_argument("--data-root", type=Path, help="folder of CIFAR-10 [data; without it, images are generated]")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="new JSON file [bench.json]")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, one turn: only checks that everything runs")
    return parser


def _body(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    for name, least in (("rounds", 1), ("batches", 2), ("runs", 2), ("seconds", 1)):
        value = getattr(arguments, name)
        if value is not None and not value >= least:
            raise UserError(f"{name}: {value} is not allowed; at least {least}")
    _check_out(arguments.out)
    root = _data_root(arguments.data_root)
    device = str(pick_device(arguments.device))
    on_gpu = device.startswith("cuda")
    batches, runs = arguments.batches or (191 if on_gpu else 10), arguments.runs or (16 if on_gpu else 4)
    plan = Plan(device, arguments.rounds, batches, runs, min(arguments.seconds, 1e6), root)
    if arguments.dry_run:
        plan = replace(plan, rounds=1, batches=2, digits_epochs=1, cores=1, changes=DRY)
    names = arguments.only or default_names(plan)
    _check_names(names, plan)
    results: dict[str, Any] = {}
    for runner, results in measure(plan, names):
        _write(arguments.out, results)
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


def _write(out: Path, results: Mapping[str, Any]) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        record.write_json(out, results)
    except OSError as error:
        raise UserError(f"out: {str(out)!r} cannot be written: {error.strerror}") from error


def _data_root(given: Path | None) -> Path | None:
    """The folder of CIFAR-10; None if none was given and the default does not exist."""
    root = given or Path("data")
    if (root / CIFAR10_FOLDER).is_dir():
        return root
    if given:
        raise UserError(f"data-root: {str(given)!r} has no folder {CIFAR10_FOLDER}; without it, images are generated")
    return None


def table(results: Mapping[str, Any]) -> str:
    """The results as a Markdown table, followed by how they were measured and by the notes."""
    rows = results["workloads"]
    lines = [COLUMNS, ["---", *["---:"] * (len(COLUMNS) - 1)], *(_cells(name, row) for name, row in rows.items())]
    text = ["\n".join(f"| {' | '.join(cells)} |" for cells in lines), _setting(results["setting"], results["machine"])]
    text += [f"{name}: {row['note']}" for name, row in {**rows, "machine": results["machine"]}.items() if row["note"]]
    return "\n\n".join(text) + "\n"


def _cells(name: str, row: Mapping[str, Any]) -> list[str]:
    ratios = {reference.partition("-")[0]: ratio for reference, ratio in row["ratios"].items()}
    memory = row["peak_memory_bytes"]
    return [
        name,
        str(row["runs"]),
        f"{row['processes']} x {row['threads']}",
        _number(row["images_per_second"]),
        _number(row["run_epochs_per_hour"], 1),
        _number(ratios.get("tutorial"), 2),
        _number(ratios.get("timm"), 2),
        "-" if memory is None else f"{memory / 2**20:,.0f} MiB",
        _percent(row["share_of_matmul"]),
        _percent(row["share_of_copy"]),
    ]


def _setting(s: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    order = "interleaved turns" if s["interleaved"] else "turns, one workload after another"
    flops, copied = (value and value / 1e9 for value in (machine["matmul_flops"], machine["copy_bytes"]))
    return (
        f"Model and batch ({s['batch_size']} images) of `tintn-cifar10`, {s['data']}, {s['batches']} batches per turn; "
        f"`digits` is the preset of that name. Medians of {s['rounds']} {order}; ratios are taken turn by turn. "
        f"{s['cores']} cores, {s['name']}, torch {s['versions']['torch']}, load average {s['load_before']:.1f} before the "
        f"start. The machine reaches {_number(flops)} GFLOP/s in matrix products and {_number(copied)} GB/s in copies; bytes "
        "are counted as if every operation read and wrote main memory."
    )


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    run_command(_body, PROG, argv)


if __name__ == "__main__":
    main()
