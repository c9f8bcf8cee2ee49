"""Compares the speed of training. `plan` is the command line, with a temporary `folder` that holds the images."""

import multiprocessing.connection
import os
import resource
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from baselines import LibraryEngine, tutorial_rate
from pandas import DataFrame

from experiments.cli import Parser, positive
from experiments.config import RunConfig, override
from experiments.data import images, loading
from experiments.devices import CORES
from experiments.errors import writing
from experiments.presets import preset
from experiments.runs import provenance, record, run
from experiments.training import fit, stacked, trainer

SINGLE = ("tutorial", "timm", "vit-pytorch", "vit-pytorch-alike", "ours")
STACKED = ("ours-stacked", "ours-bf16-stacked", "ours-bf16-stacked-eager", "ours-bf16-stacked-compiled")
COMPILED = ("timm-bf16-compiled", "ours-bf16-compiled")
NAMES = (*SINGLE, *(f"{name}-bf16" for name in SINGLE), *COMPILED, *STACKED)
PRESETS = ("tintn-cifar10", "cifar10-small", "vit-lite-6-4")  # the last has parts that only ours has


def configs(name: str, plan: Namespace) -> list[RunConfig]:
    """The runs that a contender trains together. Raises `UserError` for a kind that is not known."""
    precision, mode = "bfloat16" if "bf16" in name else "float32", "default" if "compiled" in name else "none"
    kind = plan.kind if name.startswith("ours") else "learned-1d"
    shape = dict(words.split("=", 1) for words in plan.set)
    forced = {"train.precision": precision, "train.compile": mode, "train.epochs": 10**6, "model.pos_embed": kind}
    changes: dict[str, Any] = {**shape, **forced}
    runs = range(plan.runs if "stacked" in name else 1)
    return [override(preset(plan.preset), {**changes, "seed": seed}) for seed in runs]


def load_images(plan: Namespace) -> images.Splits:
    """The images of a turn; random ones without a folder. Raises `UserError` if the folder does not hold CIFAR-10."""
    config = configs("ours", plan)[0]
    n = plan.batches * config.train.batch_size
    kept = max(round(n * config.data.val_fraction), 10)
    if plan.data_root:
        sizes = {"data.train_limit": n, "data.val_fraction": kept / 50_000}
        return loading.load(override(config, {"data.root": plan.data_root, **sizes}))
    train = images.Images(torch.randint(256, (n, 3, 32, 32), dtype=torch.uint8), torch.arange(n) % 10)
    val, half = train.pick(torch.arange(kept) % n), torch.full((3,), 0.5)
    return images.Splits(train, val, val, tuple("0123456789"), half, half)


def train(name: str, plan: Namespace) -> Iterator[float]:
    """Train a contender.

    Each item is images per second, of all its runs together, of an epoch with data and validation.
    """
    ours, runs, device = name.startswith("ours"), configs(name, plan), torch.device(plan.device)
    splits = torch.load(f"{plan.folder}/images.pt", weights_only=False).to(device)
    solo = trainer.Solo if ours else partial(LibraryEngine, name.partition("-bf16")[0])
    trained: Any = (stacked.Stacked if "stacked" in name else solo)(runs, len(splits.classes), device)
    rows = fit.fit(trained, splits, capture=ours and "eager" not in name)
    while name.startswith("tutorial"):
        yield tutorial_rate(trained, splits.train)
    while True:
        begin = time.perf_counter()
        next(rows)  # at its end the host waits for the metrics
        yield len(runs) * len(splits.train) / (time.perf_counter() - begin)


def serve(pipe: multiprocessing.connection.Connection, name: str, plan: Namespace) -> None:
    """The process of a contender: for each message it replies with its rate and peak memory, or with a note: an
    error.
    """
    os.setpgid(0, 0)  # Ctrl-C reaches only the parent, which ends this process
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{plan.folder}/{name}"  # a compiler that is killed leaves files cut short
    torch.set_num_threads(plan.threads)
    turns, left = train(name, plan), plan.seconds
    try:
        while pipe.recv():
            signal.setitimer(signal.ITIMER_REAL, left)  # the system ends this process when its time is over
            rate = next(turns)
            left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
            resident = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            memory = torch.cuda.max_memory_reserved(plan.device) if "cuda" in plan.device else resident
            pipe.send({"rate": rate, "peak_memory_MiB": memory / 2**20})
    except Exception as error:  # such as of memory, a compiler or a missing package
        pipe.send({"note": f"{type(error).__name__}: {error}".splitlines()[0]})


def replies(name: str, plan: Namespace) -> Generator[dict[str, Any]]:
    """The replies of a contender in a process of its own, up to its first note.

    Closing the iterator ends the process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    pipe, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, name, plan))
    process.start()
    theirs.close()
    reply: dict[str, Any] = {}
    try:
        while "note" not in reply:
            pipe.send("turn")
            yield (reply := pipe.recv())
    except (EOFError, OSError):
        process.join()
        over = process.exitcode == -signal.SIGALRM
        yield {"note": f"time limit of {plan.seconds} s" if over else f"its process ended: status {process.exitcode}"}
    finally:
        process.kill()
        process.join()


def take_turns(contenders: dict[str, Generator[dict[str, Any]]], rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Let all contenders warm up, then take turns. The order rotates by one in each round. Yields names and replies."""
    names = list(contenders)
    for number in range(-1, rounds):  # -1 is the warm-up
        first = max(number, 0) % len(names)
        for name in names[first:] + names[:first]:
            reply = next(contenders[name], {})
            if "note" in reply or (reply and number >= 0):
                yield name, reply


def compare(rows: dict[str, dict[str, Any]]) -> None:
    """Add medians to the rows, and ratios to the tutorial and the fastest timm: the median of those within a turn."""
    medians = {name: median(row["turns"]) for name, row in rows.items() if row["turns"]}
    timm = max((name for name in medians if name.startswith("timm")), key=medians.__getitem__, default="timm")
    for name, value in medians.items():
        rows[name]["images_per_second"] = value
        for about, reference in (("x tutorial", "tutorial"), ("x best timm", timm)):
            if reference in medians:
                rows[name][about] = median(a / b for a, b in zip(rows[name]["turns"], rows[reference]["turns"]))


def body(argv: Sequence[str]) -> None:
    """Measure the contenders in turns; on a GPU one after another. The results are written after each turn."""
    parser = Parser("bench", description="Compare the speed of our training with that of other libraries.")
    parser.add_argument("--preset", choices=PRESETS, default=PRESETS[0], help=f"model and data [{PRESETS[0]}]")
    parser.add_argument("--kind", default="learned-1d", help="positional embedding of ours [learned-1d, as the others]")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--set", nargs="*", default=[], metavar="PATH=VALUE", help="other settings, of ours only")
    number = partial(parser.add_argument, type=positive, metavar="N")
    number("--rounds", default=7, help="turns of each contender; results are medians [7]")
    number("--batches", default=10, help="batches of a turn; 191 are all of CIFAR-10 [10]")
    number("--runs", default=4, help="runs of a stacked contender [4]")
    number("--threads", default=CORES, help=f"CPU threads of each contender [{CORES}]")
    number("--seconds", default=300, help="time limit of each contender, with its untimed first turn [300]")
    parser.add_argument("--data-root", metavar="DIR", help="folder of CIFAR-10 [random images]")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), metavar="FILE", help="new file [bench.json]")
    plan = parser.parse_args(argv)
    plan.device = str(run.pick_device(plan.device))
    libraries = {found.name: found.version for found in distributions() if found.name in SINGLE}
    setting = {name: value for name, value in vars(plan).items() if name not in ("only", "data_root", "out")}
    setting["data"] = "CIFAR-10" if plan.data_root else "random images"
    session = provenance.session(torch.device(plan.device)) | {"versions": provenance.versions() | libraries}
    rows: dict[str, Any] = {}
    for name in plan.only:
        runs, shown = configs(name, plan), {"images_per_second": None, "note": "", "threads": plan.threads}
        rows[name] = {**shown, "runs": len(runs), "precision": runs[0].train.precision, "turns": []}
    with writing(plan.out):
        plan.out.touch(exist_ok=False)
        plan.out.unlink()
    with TemporaryDirectory(ignore_cleanup_errors=True) as plan.folder:
        torch.save(load_images(plan), f"{plan.folder}/images.pt")
        for group in [[name] for name in rows] if "cuda" in plan.device else [list(rows)]:
            with ExitStack() as stack:
                contenders = {name: stack.enter_context(closing(replies(name, plan))) for name in group}
                for name, reply in take_turns(contenders, plan.rounds):
                    if "rate" in reply:
                        rows[name]["turns"].append(reply.pop("rate"))
                    rows[name] |= reply
                    compare(rows)
                    record.write_json(plan.out, {"schema": 5, "setting": setting | session, "contenders": rows})
                    print(f"{name}: {rows[name]['note'] or rows[name]['turns'][-1]}", file=sys.stderr, flush=True)
    print(DataFrame.from_dict(rows, orient="index").drop(columns="turns").to_string(float_format="{:,.2f}".format))
