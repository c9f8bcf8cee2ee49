"""Defines the workloads and turns their timings into results: our own training, the machine's rates, the records.

The results are one plain dictionary, which is complete after every turn.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from experiments.bench import baselines
from experiments.bench.baselines import PlainLoop, TutorialLoop, ready_batch
from experiments.bench.harness import Runner, Timing, Workload, paired_ratio, take_turns, timed
from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.images import Images, Splits
from experiments.presets import preset
from experiments.runs import provenance
from experiments.runs.resume_note import read_note
from experiments.runs.run import train
from experiments.runs.spec import RunSpec
from experiments.runs.tracking import Mode, Tracking
from experiments.training.engine import Solo, autocast
from experiments.training.fit import Row, fit
from experiments.training.stacked import Stacked
from vit import ViT

MODELS = {"ours": ViT, **baselines.MODELS}
CIFAR10_IMAGES = 50_000  # training images, before some are kept for validation
DIGITS_EPOCHS = 5  # in a turn
COST_BATCH = 32  # images for counting FLOPs and bytes
DRY = {"model.embed_dim": 16, "model.num_heads": 2, "model.depth": 1, "train.batch_size": 8}


@dataclass(frozen=True)
class Plan:
    """How much to measure. `batches` of the CIFAR-10 model make a turn; `runs` is the size of cohorts and of MPS."""

    device: str
    rounds: int
    batches: int
    runs: int
    seconds: float  # time limit of each workload
    data_root: Path | None = None  # folder of CIFAR-10; None for generated images
    changes: Mapping[str, Any] = field(default_factory=dict)  # to the configuration of the CIFAR-10 model
    digits_epochs: int = DIGITS_EPOCHS
    cores: int = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def config(self) -> RunConfig:
        """The configuration that all CIFAR-10 workloads train: tintn (2023)."""
        return override(preset("tintn-cifar10"), dict(self.changes))

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")


def workloads(plan: Plan) -> dict[str, Workload]:
    """Every workload by name. All of them run on every device, except that MPS needs a GPU.

    In a name, bf16 is autocast, and "compiled" and "reduce-overhead" are the modes of `torch.compile`. The others are
    float32 and not compiled. Our training has one process per core on a CPU, and one process on a GPU.
    """
    found: dict[str, Workload] = {}
    references = ("tutorial", "timm-bf16-compiled" if plan.on_gpu else "timm")
    single = {"processes": 1, "threads": plan.cores, "references": references}
    several = single if plan.on_gpu else {**single, "processes": plan.cores, "threads": 1}
    shared = {**single, "processes": plan.runs, "threads": max(plan.cores // plan.runs, 1), "mps": True}
    cohorts = {**several, "runs": plan.runs}

    def add(name: str, loop: type, config: RunConfig, **options: Any) -> None:
        tasks = {"steps": max(plan.batches // options.get("runs", 1), 2), "epochs": 1}
        found[name] = Workload(name, loop, config, **{"tasks": tasks, **options})

    config = plan.config
    add("machine", Machine, config, tasks=dict.fromkeys(("matmul", "copy"), 50 if plan.on_gpu else 5), **single)
    add("ours", OurLoop, config, **several)
    add("ours-cohorts", OurLoop, config, **cohorts)
    add("ours-one-process", OurLoop, config, **single)
    add("timm", PlainLoop, config, model="timm", **single)
    add("vit-pytorch", PlainLoop, config, model="vit-pytorch", **single)
    add("tutorial", TutorialLoop, config, model="tutorial", **single)

    half = override(config, {"train.precision": "bfloat16"})
    for model in ("timm", "vit-pytorch"):
        add(f"{model}-bf16", PlainLoop, half, model=model, **single)
        add(f"{model}-bf16-compiled", PlainLoop, half, model=model, compile="default", **single)
        add(f"{model}-bf16-reduce-overhead", PlainLoop, half, model=model, compile="reduce-overhead", **single)
    add("ours-bf16", OurLoop, half, **several)
    add("ours-bf16-cohorts", OurLoop, half, **cohorts)
    add("ours-bf16-cohorts-reduce-overhead", OurLoop, half, compile="reduce-overhead", **cohorts)
    add("ours-bf16-mps", OurLoop, half, **shared)

    digits, epochs, reference = preset("digits"), plan.digits_epochs, {"references": ("digits-one-process",)}
    add("digits", OurLoop, digits, tasks={"epochs": epochs}, **several | reference)
    add("digits-cohorts", OurLoop, digits, tasks={"epochs": max(epochs // plan.runs, 1)}, **cohorts | reference)
    add("digits-one-process", OurLoop, digits, tasks={"epochs": epochs}, **single | reference)
    add("records", RecordsLoop, digits, tasks={"recorded": 2 * epochs, "tracked": 2 * epochs})
    return found


def default_names(plan: Plan) -> list[str]:
    """The workloads that are measured unless others are named: bf16 on a GPU, float32 on a CPU."""
    return [name for name in workloads(plan) if name == "tutorial" or ("bf16" in name) == plan.on_gpu]


class OurLoop:
    """Our training as a worker of `vit-sweep` does it: one run alone, or a cohort as one stacked model."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        runs, config = workload.runs, workload.config
        changes = {"train.compile": workload.compile}
        self.configs = [override(config, {**changes, "seed": index * runs + run}) for run in range(runs)]
        self.engine = (Solo if runs == 1 else Stacked)(self.configs, len(splits.classes), device)
        self.splits, self.device = splits, device
        x, y = ready_batch(splits, config.train.batch_size)
        keys = torch.zeros(runs, dtype=torch.int32, device=device)
        rates = torch.full((runs,), config.optim.lr, dtype=torch.float64, device=device)
        self.batch = x.expand(runs, *x.shape), y.expand(runs, *y.shape), keys, rates

    def steps(self, n: int) -> Timing:
        """n updates with one batch that is ready on the device."""
        return n * self.batch[1].numel(), timed(self.device, n, lambda: self.engine.train_step(*self.batch))

    def epochs(self, n: int) -> Timing:
        """n epochs with data loading, augmentation and validation."""
        images = n * len(self.splits.train) * len(self.configs)
        return images, timed(self.device, n, lambda: next(fit(self.engine, self.splits)))


class RecordsLoop:
    """What the records of an epoch cost. Work is counted in epochs; seconds are those of the part that a task names."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        self.config, self.splits, self.device = workload.config, splits, device

    def recorded(self, n: int) -> Timing:
        """Writing the metrics and the state of each epoch."""
        return self._beside_training(n, "off")

    def tracked(self, n: int) -> Timing:
        """Writing them, and logging them to W&B offline."""
        return self._beside_training(n, "offline")

    def _beside_training(self, n: int, mode: Mode) -> Timing:
        """Wall time of n epochs minus their training time, which the run counts itself. Start and end are left out."""
        with tempfile.TemporaryDirectory() as folder:
            study, run = Path(folder) / "study", RunSpec("run", self._config(n))
            ends: list[tuple[float, float, float]] = []

            def read_clock(_: int, row: Row) -> None:
                if row["epoch"] in (1, n + 1):
                    before = time.perf_counter()
                    ends.append((before, read_note(study / run.name)["seconds"]["device"], time.perf_counter()))

            train([run], study, device=str(self.device), tracking=Tracking(mode), on_row=read_clock)
        (_, first_trained, start), (end, last_trained, _) = ends
        return n, end - start - (last_trained - first_trained)

    def _config(self, n: int) -> RunConfig:
        return override(self.config, {"train.epochs": n + 1})


class Machine:
    """Large matrix products and copies: the highest rates that this machine reaches."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        on_gpu = device.type == "cuda"
        side, copied = (8192, 2**30) if on_gpu else (1536, 2**26)  # bytes far beyond any cache
        dtype = torch.bfloat16 if on_gpu else torch.float32
        self.device, self.a = device, torch.randn(side, side, device=device).to(dtype)
        self.layer = nn.Linear(side, side, bias=False, device=device, dtype=dtype)
        self.source = torch.randn(copied // 4, device=device)
        self.target = torch.empty_like(self.source)

    @torch.no_grad()
    def matmul(self, n: int) -> Timing:
        """(FLOPs, seconds) of n products of square matrices; a multiply-add is two FLOPs."""
        return n * 2 * len(self.a) ** 3, timed(self.device, n, lambda: self.layer(self.a))

    def copy(self, n: int) -> Timing:
        """(bytes read and written, seconds) of n copies."""
        return n * 2 * self.source.nbytes, timed(self.device, n, lambda: self.target.copy_(self.source))


class ByteCounter(TorchDispatchMode):
    """Counts the bytes of the inputs and outputs of every operation. Views and allocations are free."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view and not func._schema.name.startswith(("aten::empty", "aten::new_empty", "aten::detach")):
            self.total += sum(leaf.nbytes for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor))
        return out


def training_cost(model: nn.Module, x: Tensor, y: Tensor, config: RunConfig) -> dict[str, float]:
    """FLOPs (torch's `FlopCounterMode`) and bytes of one image in training, forward and backward, on the CPU.

    The bytes are the memory traffic of running the operations one by one without a cache. Fused kernels need less, so
    they can exceed the measured copy rate. The optimiser is left out: its cost does not grow with the batch.
    x: [B, C, S, S], y: [B]
    """

    def train_once() -> None:
        with autocast(config, x.device):
            loss = F.cross_entropy(model(x), y)
        loss.backward()

    model.train()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:  # fused kernels recompute products
        train_once()
    with ByteCounter() as traffic:
        train_once()
    return {"flops_per_image": flops.get_total_flops() / len(x), "bytes_per_image": traffic.total / len(x)}


def cifar10_images(plan: Plan) -> Splits:
    """The training images of a turn's epoch, and validation images in proportion; generated without a data folder."""
    config, n = plan.config, plan.batches * plan.config.train.batch_size
    kept = max(round(n * config.data.val_fraction), 1)
    if plan.data_root:
        splits = loading.load(override(config, {"data.root": str(plan.data_root)}))
    else:
        random, half = torch.Generator().manual_seed(0), torch.full((3,), 0.5)
        x = torch.randint(256, (n + kept, 3, 32, 32), dtype=torch.uint8, generator=random)
        images = Images(x, torch.arange(n + kept) % 10)
        splits = Splits(images, images, images, tuple("0123456789"), half, half)
    train = splits.train.pick(torch.arange(min(n, len(splits.train))))
    val = splits.val.pick(torch.arange(min(kept, len(splits.val))))
    return Splits(train, val, val, splits.classes, splits.mean, splits.std)


def measure(plan: Plan, names: Sequence[str]) -> Iterator[tuple[Runner, dict[str, Any]]]:
    """Measure the named workloads. Yields the runner that took a turn, and all results so far.

    On a CPU the workloads of a dataset take turns. On a GPU they follow one another, because their memory might not
    fit at once.
    """
    known, load = workloads(plan), os.getloadavg()[0]
    chosen = [known[name] for name in dict.fromkeys(("machine", *names))]
    images = {"cifar10": cifar10_images(plan), "digits": loading.load(preset("digits"))}
    costs = _training_costs(chosen, images["cifar10"])
    setting = _setting(plan, len(images["cifar10"].train)) | {"load_before": load}
    epoch_images = {
        "cifar10": CIFAR10_IMAGES * (1 - plan.config.data.val_fraction),
        "digits": len(images["digits"].train),
    }
    runners = [Runner(workload, plan.seconds) for workload in chosen]
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.pt" for name in images}
        for name, file in files.items():
            torch.save(images[name], file)
        for group in _groups(plan, runners):
            for runner in take_turns(group, plan.rounds, files, plan.device):
                setting["load_after"] = os.getloadavg()[0]
                yield runner, {"schema": 2, "setting": setting, **summarize(runners, costs, epoch_images)}


def _groups(plan: Plan, runners: Sequence[Runner]) -> list[list[Runner]]:
    groups: dict[str, list[Runner]] = {}
    for runner in runners:
        workload = runner.workload
        groups.setdefault(workload.name if plan.on_gpu else workload.config.data.name, []).append(runner)
    return list(groups.values())


def _training_costs(chosen: Sequence[Workload], images: Splits) -> dict[str, dict[str, float]]:
    """Workload -> its training cost per image, for the workloads that train the CIFAR-10 model."""
    x, y = ready_batch(images, COST_BATCH)

    @functools.cache
    def cost(model: str, config: RunConfig) -> dict[str, float]:
        return training_cost(MODELS[model](config.vit_config()), x, y, config)

    return {w.name: cost(w.model, w.config) for w in chosen if "steps" in w.tasks}


def _setting(plan: Plan, images: int) -> dict[str, Any]:
    return {
        "data": "CIFAR-10" if plan.data_root else "generated images in the shape of CIFAR-10",
        "batch_size": plan.config.train.batch_size,
        "batches": images // plan.config.train.batch_size,
        "rounds": plan.rounds,
        "interleaved": not plan.on_gpu,
        "seconds": plan.seconds,
        "cores": plan.cores,
        **provenance.hardware(torch.device(plan.device)),
        "versions": provenance.versions(),
        **provenance.code(),
    }


def summarize(
    runners: Sequence[Runner], costs: Mapping[str, Mapping[str, float]], epoch_images: Mapping[str, float]
) -> dict[str, Any]:
    """Results of the runners that have started: the machine's rates, a row for each workload, the cost of records.

    costs: workload -> training cost per image; epoch_images: dataset -> training images of one epoch.
    """
    started = {runner.workload.name: runner for runner in runners if runner.rates or runner.note}
    machine, records = started.pop("machine", None), started.pop("records", None)
    tasks = {"matrix_flops": "matmul", "memory_bytes": "copy"}
    rates = {key: machine.median(task) if machine else None for key, task in tasks.items()}
    rows = {}
    for name, runner in started.items():
        row = _row(runner, epoch_images[runner.workload.config.data.name])
        row["ratios"] = {
            reference: {
                task: paired_ratio(runner.rates.get(task, ()), started[reference].rates.get(task, ()))
                for task in runner.workload.tasks
            }
            for reference in runner.workload.references
            if reference in started
        }
        rows[name] = row | _shares(row["steps_images_per_second"], costs.get(name, {}), rates)
    results = {"machine": {**rates, "note": machine.note if machine else ""}, "workloads": rows}
    return results | ({"records": _record_costs(records, rows)} if records else {})


def _row(runner: Runner, epoch_images: float) -> dict[str, Any]:
    workload, whole = runner.workload, runner.median("epochs")
    return {
        **{name: getattr(workload, name) for name in ("processes", "threads", "runs", "compile")},
        "precision": workload.config.train.precision,
        "steps_images_per_second": runner.median("steps"),
        "epochs_images_per_second": whole,
        "run_epochs_per_hour": whole and whole / epoch_images * 3600,
        "peak_memory_bytes": runner.peak_memory,
        "note": runner.note,
        "turns": runner.rates,
    }


def _shares(
    rate: float | None, cost: Mapping[str, float], machine: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Training cost per image, and the FLOPs and bytes per second of a step as shares of the measured rates."""
    shares: dict[str, float | None] = {}
    for kind, key in (("matrix_flops", "flops_per_image"), ("memory_bytes", "bytes_per_image")):
        highest = machine[kind]
        shares[f"share_of_{kind}"] = rate * cost[key] / highest if rate and cost and highest else None
    return {**cost, **shares}


def _record_costs(runner: Runner, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of the records and of W&B per epoch, and the share of both in an epoch on digits and on CIFAR-10."""
    recorded, tracked = runner.median("recorded"), runner.median("tracked")
    if not recorded or not tracked:
        return {"note": runner.note}
    cost = 1 / tracked
    results: dict[str, Any] = {"record_seconds": 1 / recorded, "tracking_seconds": cost - 1 / recorded}
    for name, dataset in (("digits", "digits"), ("ours", "cifar10")):
        row = rows.get(name, {})
        rate = row.get("run_epochs_per_hour")
        epoch = rate and 3600 * row["processes"] * row["runs"] / rate
        results |= {f"{dataset}_epoch_seconds": epoch, f"share_of_{dataset}_epoch": epoch and cost / (epoch + cost)}
    return {**results, "note": runner.note}
