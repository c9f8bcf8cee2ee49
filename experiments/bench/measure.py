"""Defines the workloads and turns their timings into results. The results are a plain dictionary, complete after every turn."""

from __future__ import annotations

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
from torch.utils.flop_counter import FlopCounterMode

from experiments.bench import baselines
from experiments.bench.baselines import PlainLoop, TutorialLoop
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
MACHINE = ("matmul", "copy")  # the workloads that measure the highest rates of the machine
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


def workloads(plan: Plan) -> dict[str, Workload]:
    """Every workload by name. All of them run on every device, except that MPS needs a GPU.

    In a name, bf16 is autocast, compiled is `torch.compile`, and stacked is a cohort. On a GPU our training is captured as a
    CUDA graph, unless the name says eager. It has one process per core on a CPU, and one process on a GPU.
    """
    config, digits, references = (
        plan.config,
        preset("digits"),
        ("tutorial", "timm-bf16-compiled" if plan.on_gpu else "timm"),
    )
    half = override(config, {"train.precision": "bfloat16"})
    one: dict[str, Any] = {"threads": plan.cores, "references": references}
    each: dict[str, Any] = one if plan.on_gpu else {"processes": plan.cores, "references": references}
    stack: dict[str, Any] = {**each, "runs": plan.runs}
    default: dict[str, Any] = {"compile": "default"}
    shared = {**one, "processes": plan.runs, "threads": max(plan.cores // plan.runs, 1), "mps": True}
    small = {**each, "references": (), "epochs": plan.digits_epochs}
    return {
        name: Workload(name, loop, settings, model, **options)
        for name, loop, settings, model, options in (
            ("matmul", Machine, half if plan.on_gpu else config, "ours", one),
            ("copy", Machine, config, "ours", one),
            ("tutorial", TutorialLoop, config, "tutorial", one),
            ("timm", PlainLoop, config, "timm", one),
            ("vit-pytorch", PlainLoop, config, "vit-pytorch", one),
            ("timm-bf16", PlainLoop, half, "timm", one),
            ("timm-bf16-compiled", PlainLoop, half, "timm", one | default),
            ("vit-pytorch-bf16", PlainLoop, half, "vit-pytorch", one),
            ("vit-pytorch-bf16-compiled", PlainLoop, half, "vit-pytorch", one | default),
            ("ours", OurLoop, config, "ours", each),
            ("ours-stacked", OurLoop, config, "ours", stack),
            ("ours-one-process", OurLoop, config, "ours", one),
            ("ours-bf16", OurLoop, half, "ours", each),
            ("ours-bf16-stacked-eager", OurLoop, half, "ours", stack | {"capture": False}),
            ("ours-bf16-stacked", OurLoop, half, "ours", stack),
            ("ours-bf16-stacked-compiled", OurLoop, half, "ours", stack | default),
            ("ours-bf16-mps", OurLoop, half, "ours", shared),
            ("digits", OurLoop, digits, "ours", small),
            ("digits-stacked", OurLoop, digits, "ours", small | {"runs": plan.runs, "epochs": 1}),
        )
    }


def default_names(plan: Plan) -> list[str]:
    """The workloads that are measured unless others are named: bf16 on a GPU, float32 on a CPU."""
    return [name for name in workloads(plan) if name == "tutorial" or ("bf16" in name) == plan.on_gpu]


class OurLoop:
    """Our training as a worker of `vit-sweep` does it: one run alone, or a cohort as one stacked model."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        changes = {"train.compile": workload.compile, "train.epochs": 10**6}
        seeds = range(index * workload.runs, (index + 1) * workload.runs)
        configs = [override(workload.config, {**changes, "seed": seed}) for seed in seeds]
        self.engine = (Solo if len(configs) == 1 else Stacked)(configs, len(splits.classes), device)
        self.images, self.epochs, self.device = len(configs) * len(splits.train), workload.epochs, device
        self.rows = fit(self.engine, splits, capture=workload.capture)

    def turn(self) -> tuple[float, float]:
        """Epochs with data loading, augmentation and validation: (images, seconds)."""
        return self.epochs * self.images, timed(self.device, self.epochs, lambda: next(self.rows))


class Machine:
    """Large matrix products, or copies: the highest rates that this machine reaches."""

    def __init__(self, workload: Workload, splits: Splits, device: torch.device, index: int) -> None:
        on_gpu = device.type == "cuda"
        self.device, self.name, self.calls = device, workload.name, 50 if on_gpu else 5
        dtype = torch.bfloat16 if workload.config.train.precision == "bfloat16" else torch.float32
        self.a = torch.randn(8192, 8192, device=device).to(dtype) if on_gpu else torch.randn(1536, 1536)
        self.source = torch.randn(2**28 if on_gpu else 2**24, device=device)  # far beyond any cache
        self.target = torch.empty_like(self.source)

    def turn(self) -> tuple[float, float]:
        """(FLOPs, seconds), a multiply-add being two FLOPs; or (bytes read and written, seconds)."""
        if self.name == "matmul":
            return self.calls * 2 * len(self.a) ** 3, timed(self.device, self.calls, lambda: self.a @ self.a)
        work = self.calls * 2 * self.source.nbytes
        return work, timed(self.device, self.calls, lambda: self.target.copy_(self.source))


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
    runners = [Runner(known[name], plan.seconds) for name in dict.fromkeys((*MACHINE, *names))]
    images = {"cifar10": cifar10_images(plan), "digits": loading.load(preset("digits"))}
    train, setting = images["cifar10"].train, _setting(plan, len(images["cifar10"].train)) | {"load_before": load}
    x, y = images["cifar10"].normalized(images["cifar10"].scaled(train.x[:COST_BATCH])), train.y[:COST_BATCH]
    chosen = [runner.workload for runner in runners if runner.workload.config.data.name == "cifar10"]
    costs = {w.name: training_cost(MODELS[w.model](w.config.vit_config()), x, y, w.config) for w in chosen}
    epochs = {"cifar10": CIFAR10_IMAGES * (1 - plan.config.data.val_fraction), "digits": len(images["digits"].train)}
    groups: dict[str, list[Runner]] = {}
    for runner in runners:
        groups.setdefault(runner.workload.name if plan.on_gpu else runner.workload.config.data.name, []).append(runner)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.pt" for name in images}
        for name, file in files.items():
            torch.save(images[name], file)
        for group in groups.values():
            for runner in take_turns(group, plan.rounds, files, plan.device):
                setting["load_after"] = os.getloadavg()[0]
                yield runner, {"schema": 3, "setting": setting, **summarize(runners, costs, epochs)}


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
    """Results of the runners that have started: the machine's rates, and a row for each workload.

    costs: workload -> training cost per image; epoch_images: dataset -> training images of one epoch.
    """
    started = {runner.workload.name: runner for runner in runners if runner.rates or runner.note}
    machine = {name: started.pop(name, None) for name in MACHINE}
    highest = {name: runner.median if runner else None for name, runner in machine.items()}
    rows = {}
    for name, runner in started.items():
        workload, rate, cost = runner.workload, runner.median, costs.get(name, {})
        ratios = {r: paired_ratio(runner.rates, started[r].rates) for r in workload.references if r in started}
        shares: dict[str, float | None] = {}
        for kind, key in (("matmul", "flops_per_image"), ("copy", "bytes_per_image")):
            most = highest[kind]
            shares[f"share_of_{kind}"] = rate * cost[key] / most if rate and cost and most else None
        rows[name] = {
            **{key: getattr(workload, key) for key in ("processes", "threads", "runs", "compile", "capture")},
            "precision": workload.config.train.precision,
            "images_per_second": rate,
            "run_epochs_per_hour": rate and rate / epoch_images[workload.config.data.name] * 3600,
            "ratios": ratios,
            "peak_memory_bytes": runner.peak_memory,
            **cost,
            **shares,
            "note": runner.note,
            "turns": runner.rates,
        }
    notes = "; ".join(runner.note for runner in machine.values() if runner and runner.note)
    return {
        "machine": {"matmul_flops": highest["matmul"], "copy_bytes": highest["copy"], "note": notes},
        "workloads": rows,
    }
