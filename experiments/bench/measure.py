"""What the bench measures, and how much of it: from settings to one plain dict. Nothing is printed or drawn here."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from experiments.bench.contenders import Entry, ready_batch
from experiments.bench.contest import Team, assembled, race
from experiments.bench.limits import needs
from experiments.bench.rivals import MODELS
from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.images import Images, Splits
from experiments.presets import preset
from experiments.runs import provenance
from experiments.training.engine import initial_model

CIFAR_IMAGES = 50_000  # of which the configuration keeps some for validation
MODES = {"": "", "default": ", compiled", "reduce-overhead": ", CUDA graphs"}  # of torch.compile, and what we call them
GPU_COHORTS, CPU_COHORT = (1, 4, 16, 64), 4
CURVES = {  # axis -> (setting, its values, what the plot shows of a configuration)
    "tokens": ("model.patch_size", (16, 8, 4, 2), lambda config: config.vit_config().num_tokens),
    "width": ("model.embed_dim", (24, 48, 96, 192), lambda config: config.model.embed_dim),
}


@dataclass(frozen=True)
class Plan:
    """How much to measure: `batches` of the main configuration a turn, `rounds` turns of each contender."""

    device: str
    rounds: int = 7
    batches: int = 10
    epochs: int = 5  # of digits a turn
    points: int = 4  # of each curve
    compiled: bool = False
    changes: Mapping[str, Any] = ()
    cores: int = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def config(self) -> RunConfig:
        """What everyone trains: tintn (2023) on CIFAR-10."""
        return override(preset("tintn-cifar10"), dict(self.changes))

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")


def measure(plan: Plan, root: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """All parts, one after another. `root` holds CIFAR-10, or is None for generated images of its shape."""
    load = os.getloadavg()[0]
    images = cifar_images(plan, root)
    results: dict[str, Any] = {"schema": 1}
    with _saved(images) as main, _saved(loading.load(preset("digits"))) as digits:
        say("contenders: ours, timm, vit-pytorch, the tutorial")
        results |= _contest(plan, images, main)
        say("digits: workers against one process, and what records cost")
        results["digits"] = _digits(plan, digits)
        results["records"] = _records(plan, digits, results)
        say("cost against work")
        results["curves"] = {axis: _curve(plan, axis, main) for axis in CURVES} | {"cohort": _cohorts(results)}
    results["setting"] = {
        "data": "CIFAR-10" if root else "generated images of CIFAR-10's shape",
        "batch_size": plan.config.train.batch_size,
        "batches": len(images.train) // plan.config.train.batch_size,
        "rounds": plan.rounds,
        "cores": plan.cores,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        **provenance.hardware(torch.device(plan.device)),
        "versions": provenance.versions(),
        **provenance.code(),
    }
    return results


def cifar_images(plan: Plan, root: Path | None) -> Splits:
    """As many training images as a turn's epoch has, and validation images in proportion."""
    config, n = plan.config, plan.batches * plan.config.train.batch_size
    kept = max(round(n * config.data.val_fraction), 1)
    if root:
        splits = loading.load(override(config, {"data.root": str(root)}))
    else:
        random, (channels, side) = torch.Generator().manual_seed(0), config.data.image_shape
        parts = [
            Images(
                torch.randint(256, (size, channels, side, side), dtype=torch.uint8, generator=random),
                torch.randint(10, (size,), generator=random),
            )
            for size in (n, kept, 1)
        ]
        splits = Splits(*parts, tuple("0123456789"), torch.full((channels,), 0.5), torch.full((channels,), 0.5))
    kept = min(kept, len(splits.val))
    train, val = splits.train.pick(torch.arange(min(n, len(splits.train)))), splits.val.pick(torch.arange(kept))
    return Splits(train, val, val, splits.classes, splits.mean, splits.std)


@contextmanager
def _saved(splits: Splits) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "splits.pt"
        torch.save(splits, path)
        yield path


def entries(plan: Plan) -> list[Entry]:
    """Who takes part in the main contest, each as its users would run it on this machine."""
    config, cores = plan.config, plan.cores
    if plan.on_gpu:
        half = override(config, {"train.precision": "bfloat16"})
        return [
            *(
                Entry(f"ours, cohort of {runs}{more}", "ours", half, 1, cores, runs, mode)
                for runs in GPU_COHORTS
                for mode, more in MODES.items()
            ),
            *(Entry(f"timm{more}", "timm", half, 1, cores, compiled=mode) for mode, more in MODES.items()),
            Entry("vit-pytorch, compiled", "vit-pytorch", half, 1, cores, compiled="default"),
            Entry("tutorial", "tutorial", config, 1, cores),
        ]
    ours = [
        Entry("ours", "ours", config, cores, 1),
        Entry(f"ours, cohorts of {CPU_COHORT}", "ours", config, cores, 1, CPU_COHORT),
        Entry("ours, one process", "ours", config, 1, cores),
    ]
    compiled = [Entry("ours, compiled", "ours", config, cores, 1, compiled="default")] if plan.compiled else []
    return [*ours, *compiled, *(Entry(kind, kind, config, 1, cores) for kind in MODELS)]


def _contest(plan: Plan, images: Splits, saved: Path) -> dict[str, Any]:
    """The main contest, and the machine's own rates measured in its rounds."""
    racing = entries(plan)
    machine = Entry("machine", "machine", plan.config, 1, plan.cores)
    tasks = {
        "matmul": {"machine": 5},
        "copy": {"machine": 5},
        "steps": {entry.name: max(plan.batches // entry.runs, 2) for entry in racing},
        "epochs": {entry.name: 1 for entry in racing},
    }
    with assembled([machine, *racing], saved, plan.device) as teams:
        race(teams, tasks, plan.rounds)
    own, *others = teams
    rates = {"matrix_flops": own.median("matmul"), "memory_bytes": own.median("copy")}
    epoch = CIFAR_IMAGES * (1 - plan.config.data.val_fraction)
    work = _works(plan, images)
    rows = {team.entry.name: _row(team, epoch) | _distance(team, work[team.entry.kind], rates) for team in others}
    baselines = {"tutorial": "tutorial", "timm": "timm, compiled" if plan.on_gpu else "timm"}
    ratios = {
        short: {team.entry.name: _ratio(team, _named(others, name)) for team in others}
        for short, name in baselines.items()
    }
    return {"machine": rates, "contenders": rows, "ratios": ratios}


def _row(team: Team, epoch: float) -> dict[str, Any]:
    entry = team.entry
    rates = {f"{task}_images_per_second": team.median(task) for task in ("steps", "epochs")}
    whole = rates["epochs_images_per_second"]
    return {
        "processes": entry.processes,
        "threads": entry.threads,
        "runs": entry.runs,
        "compiled": entry.compiled,
        "precision": entry.config.train.precision,
        **rates,
        "run_epochs_per_hour": whole and whole / epoch * 3600,
        "peak_memory_bytes": team.memory,
        "lost": team.lost,
        "rounds": team.rates,
    }


def _works(plan: Plan, images: Splits) -> dict[str, dict[str, float]]:
    """FLOPs and bytes of an image in training, for each kind of model."""
    x, y = ready_batch(images, min(plan.config.train.batch_size, 32))
    cfg, ours = plan.config.vit_config(), initial_model(plan.config, 10)
    return {"ours": needs(ours, x, y), **{kind: needs(make(cfg), x, y) for kind, make in MODELS.items()}}


def _distance(team: Team, work: Mapping[str, float], rates: Mapping[str, float | None]) -> dict[str, Any]:
    """How much of the machine a bare step uses: its FLOPs and its bytes each second, as shares of what was measured."""
    rate = team.median("steps")
    shares = {
        "share_of_matrix_flops": rate and rates["matrix_flops"] and rate * work["flops"] / rates["matrix_flops"],
        "share_of_memory_bytes": rate and rates["memory_bytes"] and rate * work["bytes"] / rates["memory_bytes"],
    }
    return {"flops_per_image": work["flops"], "bytes_per_image": work["bytes"], **shares}


def _ratio(team: Team, other: Team) -> dict[str, float | None]:
    """Median over the rounds of the two rates' ratio in a round, for a bare step and for an epoch with data."""
    return {task: _paired(team.rates.get(task, ()), other.rates.get(task, ())) for task in ("steps", "epochs")}


def _paired(a: Sequence[float], b: Sequence[float]) -> float | None:
    ratios = [x / y for x, y in zip(a, b, strict=False)]
    return statistics.median(ratios) if ratios else None


def _named(teams: Sequence[Team], name: str) -> Team:
    return next(team for team in teams if team.entry.name == name)


def _digits(plan: Plan, saved: Path) -> dict[str, Any]:
    """The study `position` on digits: run-epochs an hour of our workers, and of one process with all the threads."""
    config = preset("digits")
    images = len(torch.load(saved, weights_only=False).train)
    racing = [
        Entry("workers", "ours", config, 1 if plan.on_gpu else plan.cores, 1),
        Entry(f"workers, cohorts of {CPU_COHORT}", "ours", config, 1 if plan.on_gpu else plan.cores, 1, CPU_COHORT),
        Entry("one process", "ours", config, 1, plan.cores),
    ]
    with assembled(racing, saved, plan.device) as teams:
        race(teams, {"epochs": {entry.name: max(plan.epochs // entry.runs, 1) for entry in racing}}, plan.rounds)
    one = _named(teams, "one process")
    return {team.entry.name: {**_row(team, images), "ratio": _ratio(team, one)["epochs"]} for team in teams}


def _records(plan: Plan, saved: Path, results: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds that an epoch's record and W&B take, and their share of an epoch: of digits, and of CIFAR-10."""
    entry = Entry("records", "records", preset("digits"), 1, 1)
    tasks = ("bare", "recorded", "tracked")
    with assembled([entry], saved, plan.device) as (team,):
        race([team], {task: {"records": 2 * plan.epochs} for task in tasks}, plan.rounds)
    seconds = {task: team.median(task) and 1 / team.median(task) for task in tasks}
    if None in seconds.values():
        return {"lost": team.lost}
    ours = results["contenders"][entries(plan)[0].name]
    long = ours["run_epochs_per_hour"] and 3600 * ours["processes"] * ours["runs"] / ours["run_epochs_per_hour"]
    cost = seconds["tracked"]
    return {
        "digits_epoch_seconds": seconds["bare"],
        "record_seconds": seconds["recorded"],
        "tracking_seconds": cost - seconds["recorded"],
        "share_of_digits_epoch": cost / (seconds["bare"] + cost),
        "share_of_cifar10_epoch": long and cost / (long + cost),
        "lost": "",
    }


def _curve(plan: Plan, axis: str, saved: Path) -> list[dict[str, float | None]]:
    """Milliseconds an image in a bare step, ours and timm's, as one setting grows."""
    setting, values, shown = CURVES[axis]
    batch, points = plan.config.train.batch_size, []
    for value in values[-plan.points :]:
        changes = {setting: value, "train.batch_size": batch if plan.on_gpu else min(batch, 64)}
        names = ("ours, cohort of 1, compiled", "timm, compiled") if plan.on_gpu else ("ours", "timm")
        chosen = [entry for entry in entries(plan) if entry.name in names]
        racing = [replace(entry, config=override(entry.config, changes)) for entry in chosen]
        with assembled(racing, saved, plan.device) as teams:
            race(teams, {"steps": {entry.name: max(plan.batches // 2, 2) for entry in racing}}, plan.rounds)
        rates = {team.entry.kind: team.median("steps") for team in teams}
        points.append({axis: shown(racing[0].config), **{kind: rate and 1000 / rate for kind, rate in rates.items()}})
    return points


def _cohorts(results: Mapping[str, Any]) -> list[dict[str, float | None]]:
    """Run-epochs an hour of the whole machine, by the number of runs that a process trains together."""
    rows = [row for name, row in results["contenders"].items() if name.startswith("ours") and "one process" not in name]
    return [{"cohort": row["runs"], "compiled": row["compiled"], "ours": row["run_epochs_per_hour"]} for row in rows]
