"""Defines the workloads and turns their timings into results. The results are a plain dictionary, complete after every turn."""

from __future__ import annotations

import contextlib
import os
import tempfile
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
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from experiments.bench import baselines
from experiments.bench.baselines import LibraryEngine, TutorialLoop
from experiments.bench.harness import Runner, Workload, paired_ratio, take_turns, timed
from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.images import Images, Splits
from experiments.presets import preset
from experiments.runs import provenance
from experiments.training.engine import Solo, autocast
from experiments.training.fit import fit
from experiments.training.stacked import Stacked
from vit import ViT

MODELS = {"ours": ViT, **baselines.MODELS}
CIFAR10_IMAGES = 50_000  # training images, before some are kept for validation
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
    digits_epochs: int = 5  # in a turn
    cores: int = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def config(self) -> RunConfig:
        """The configuration that all CIFAR-10 workloads train: tintn (2023)."""
        return override(preset("tintn-cifar10"), dict(self.changes))

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def references(self) -> tuple[str, str]:
        """The workloads that the rates of the CIFAR-10 workloads are compared with."""
        return "tutorial", "timm-bf16-compiled" if self.on_gpu else "timm"


class TrainingLoop:
    """Our training loop, as a worker of `vit-sweep` runs it, with our engine or with another library's model."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        seeds = range(index * workload.runs, (index + 1) * workload.runs)
        changes = {"train.compile": workload.compile, "train.epochs": 10**6}
        configs, classes = [override(workload.config, {**changes, "seed": seed}) for seed in seeds], len(splits.classes)
        self.engine: Any
        if workload.model == "ours":
            self.engine = (Solo if len(configs) == 1 else Stacked)(configs, classes, device)
        else:
            self.engine = LibraryEngine(workload.model, configs[0], classes, device)
        self.images, self.epochs, self.device = len(configs) * len(splits.train), workload.epochs, device
        self.rows = fit(self.engine, splits, capture=workload.capture)

    def turn(self) -> tuple[float, float]:
        """Epochs with data loading, augmentation and validation: (images, seconds)."""
        return self.epochs * self.images, timed(self.device, self.epochs, lambda: next(self.rows))


def workloads(plan: Plan) -> dict[str, Workload]:
    """Every workload by name. All of them run on every device, except that MPS needs a GPU.

    In a name, bf16 is autocast, compiled is `torch.compile`, and stacked is a cohort. On a GPU our training is captured as a
    CUDA graph, unless the name says eager. It has one process per core on a CPU, and one process on a GPU.
    """
    full, half = plan.config, override(plan.config, {"train.precision": "bfloat16"})
    one: dict[str, Any] = {"threads": plan.cores}
    library: dict[str, Any] = {**one, "capture": False}
    each: dict[str, Any] = one if plan.on_gpu else {"processes": plan.cores}
    stack: dict[str, Any] = {**each, "runs": plan.runs}
    compiled: dict[str, Any] = {"compile": "default"}
    shared: dict[str, Any] = {"processes": plan.runs, "threads": max(plan.cores // plan.runs, 1), "mps": True}
    rows: tuple[tuple[str, str, RunConfig, dict[str, Any]], ...] = (
        ("tutorial", "tutorial", full, library),
        ("timm", "timm", full, library),
        ("vit-pytorch", "vit-pytorch", full, library),
        ("timm-bf16", "timm", half, library),
        ("timm-bf16-compiled", "timm", half, library | compiled),
        ("vit-pytorch-bf16", "vit-pytorch", half, library),
        ("vit-pytorch-bf16-compiled", "vit-pytorch", half, library | compiled),
        ("ours", "ours", full, each),
        ("ours-stacked", "ours", full, stack),
        ("ours-one-process", "ours", full, one),
        ("ours-bf16", "ours", half, each),
        ("ours-bf16-stacked-eager", "ours", half, stack | {"capture": False}),
        ("ours-bf16-stacked", "ours", half, stack),
        ("ours-bf16-stacked-compiled", "ours", half, stack | compiled),
        ("ours-bf16-mps", "ours", half, shared),
        ("digits", "ours", preset("digits"), each | {"epochs": plan.digits_epochs}),
        ("digits-stacked", "ours", preset("digits"), stack),
    )
    loops = {"tutorial": TutorialLoop}
    return {
        name: Workload(name, loops.get(model, TrainingLoop), config, model, **options)
        for name, model, config, options in rows
    }


def default_names(plan: Plan) -> list[str]:
    """The workloads that are measured unless others are named: bf16 on a GPU, float32 on a CPU."""
    return [name for name in workloads(plan) if name == "tutorial" or ("bf16" in name) == plan.on_gpu]


def machine_rates(plan: Plan) -> dict[str, float]:
    """FLOP/s of large matrix products (bfloat16 on a GPU) and bytes/s that copies read and write: the machine's limits."""
    side, count, dtype = (8192, 2**28, torch.bfloat16) if plan.on_gpu else (1536, 2**24, torch.float32)
    source = torch.randn(count, device=plan.device)  # far beyond any cache
    tensors = {"a": torch.randn(side, side, device=plan.device).to(dtype), "x": source, "y": torch.empty_like(source)}
    work = {"matmul_flops": ("a @ a", 2 * side**3), "copy_bytes": ("y.copy_(x)", 2 * source.nbytes)}
    with torch.cuda.device(plan.device) if plan.on_gpu else contextlib.nullcontext():
        return {
            name: amount / Timer(call, globals=tensors, num_threads=plan.cores).blocked_autorange().median
            for name, (call, amount) in work.items()
        }


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
    runners = [Runner(known[name], plan.seconds) for name in dict.fromkeys(names)]
    images = {"cifar10": cifar10_images(plan), "digits": loading.load(preset("digits"))}
    train, epochs = images["cifar10"].train, CIFAR10_IMAGES * (1 - plan.config.data.val_fraction)
    x, y = images["cifar10"].normalized(images["cifar10"].scaled(train.x[:COST_BATCH])), train.y[:COST_BATCH]
    chosen = [runner.workload for runner in runners if runner.workload.config.data.name == "cifar10"]
    costs = {w.name: training_cost(MODELS[w.model](w.config.vit_config()), x, y, w.config) for w in chosen}
    setting, machine = _setting(plan, len(train)) | {"load_before": load}, machine_rates(plan)
    torch.cuda.empty_cache()  # the workloads are measured in other processes
    together = [[r for r in runners if r.workload.config.data.name == name] for name in images]
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.pt" for name in images}
        for name, file in files.items():
            torch.save(images[name], file)
        for group in [[runner] for runner in runners] if plan.on_gpu else filter(None, together):
            for runner in take_turns(group, plan.rounds, files, plan.device):
                setting["load_after"] = os.getloadavg()[0]
                rows = summarize(
                    runners, plan.references, machine, costs, {"cifar10": epochs, "digits": len(images["digits"].train)}
                )
                yield runner, {"schema": 4, "setting": setting, "machine": machine, "workloads": rows}


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
    runners: Sequence[Runner],
    references: Sequence[str],
    machine: Mapping[str, float],
    costs: Mapping[str, Mapping[str, float]],
    epoch_images: Mapping[str, float],
) -> dict[str, dict[str, Any]]:
    """A row for each workload that has started.

    references: workloads to compare with; machine: as `machine_rates`; costs: workload -> training cost per image, for
    the workloads that are compared; epoch_images: dataset -> training images of one epoch.
    """
    started = {runner.workload.name: runner for runner in runners if runner.rates or runner.note}
    rows = {}
    for name, runner in started.items():
        workload, rate, cost = runner.workload, runner.median, costs.get(name, {})
        compared = [r for r in references if r in started and cost]
        rows[name] = {
            **{key: getattr(workload, key) for key in ("processes", "threads", "runs", "compile", "capture")},
            "precision": workload.config.train.precision,
            "images_per_second": rate,
            "run_epochs_per_hour": rate and rate / epoch_images[workload.config.data.name] * 3600,
            "ratios": {r: paired_ratio(runner.rates, started[r].rates) for r in compared},
            "peak_memory_bytes": runner.peak_memory,
            **cost,
            "share_of_matmul": rate * cost["flops_per_image"] / machine["matmul_flops"] if rate and cost else None,
            "share_of_copy": rate * cost["bytes_per_image"] / machine["copy_bytes"] if rate and cost else None,
            "note": runner.note,
            "turns": runner.rates,
        }
    return rows
