"""Studies for tests of the analysis: complete run folders with valid digests, written without training."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import study_file

from analysis.findings import Findings, analyze
from analysis.runs.folder import read_folder
from experiments.config import RunConfig, override, run_id
from experiments.files import write_bytes, write_text
from experiments.runs import record
from experiments.runs.predictions import to_bytes

ACCURACY = {"none": 0.72, "sinusoidal": 0.968, "learned-1d": 0.952, "learned-2d": 0.960}


def write_study(
    out: Path,
    name: str = "position",
    accuracy: Mapping[str, float] | None = None,
    seeds: int = 5,
    epochs: int = 4,
    spread: float = 0.004,
    levels: Callable[[str], dict[str, Any]] = lambda variant: {"model.pos_embed": variant},
    factors: Mapping[str, list[Any]] | None = None,
    statuses: Mapping[tuple[str, int], str] | None = None,
    weights: Callable[[dict[str, Any]], bytes] = lambda config: b"weights of nothing",
    **plan: Any,
) -> Path:
    """Write a study's folder under `out` and return it. The same arguments give the same bytes.

    `accuracy`: variant -> mean test accuracy; `spread` is the standard deviation over seeds. `statuses`: (variant,
    seed)
    -> "diverged", "pruned", "incomplete" (a folder without summary.json) or "absent"; "finished" for all others.
    `weights`: a run's nested configuration -> its checkpoint.
    """
    accuracy = ACCURACY if accuracy is None else accuracy
    study_dir = out / name
    study_dir.mkdir(parents=True)
    entries = []
    for seed in range(seeds):
        for index, (variant, truth) in enumerate(accuracy.items()):
            config = RunConfig(seed=seed) if factors else override(RunConfig(), {**levels(variant), "seed": seed})
            entry = {
                "run": f"v{index}-s{seed}",
                "run_id": run_id(config),
                "variant": variant,
                "levels": levels(variant),
                "seed": seed,
            }
            entries.append(entry)
            tree = config.model_dump()
            for path, level in entry["levels"].items():
                section, field = path.split(".")
                tree[section][field] = level
            status = (statuses or {}).get((variant, seed), "finished")
            generator = np.random.default_rng([index, seed])
            reached = float(np.clip(truth + spread * generator.standard_normal(), 0, 1))
            if status == "absent":
                continue
            run_dir, rows = study_dir / entry["run"], curve(reached, epochs)
            run_dir.mkdir()
            record.write_json(run_dir / record.CONFIG, tree)
            write_text(run_dir / record.METRICS, record.metrics_csv(rows))
            (run_dir / record.CHECKPOINT).write_bytes(weights(tree))
            if status != "incomplete":
                record.write_summary(run_dir, summary(entry["run_id"], rows[-1], reached, status, index))
    plan = {
        "name": name,
        "description": "Does the positional embedding matter, and which one?",
        "preset": "digits",
        "factors": factors or {"model.pos_embed": list(accuracy)},
        "extra": [],
        "baseline": next(iter(accuracy)),
        "metric": "test/acc",
        "margin": 0.01,
        "seeds": list(range(seeds)),
        "base": RunConfig().model_dump(),
        "command": f"vit-sweep run {name} --preset digits --seeds {seeds} --out runs",
        "runs": entries,
        **plan,
    }
    study_file.write_study(study_dir, plan)
    return study_dir


def change_summary(run_dir: Path, **changes: Any) -> None:
    """Seal the summary of a run again with changed values; a mapping changes the values of a section."""
    body = {key: value for key, value in record.read_summary(run_dir).items() if key not in ("files", "digest")}
    merged = {
        key: {**body[key], **new} if key in body and isinstance(new, dict) else new for key, new in changes.items()
    }
    record.write_summary(run_dir, {**body, **merged})


def on_dataset(name: str) -> dict[str, Any]:
    """Options of `write_study` for a study of positional embeddings on a dataset."""
    base = override(RunConfig(), {"data.name": name}).model_dump()
    return {"levels": lambda variant: {"model.pos_embed": variant, "data.name": name}, "base": base}


def write_grid(out: Path, factors: Mapping[str, list[Any]], accuracies: Sequence[float], **options: Any) -> Path:
    """A study of every combination of the factors' levels, named as in `depth=1, head=logits`."""
    cells = {
        ", ".join(f"{path.partition('.')[2]}={level}" for path, level in zip(factors, levels)): levels
        for levels in product(*factors.values())
    }
    return write_study(
        out,
        accuracy=dict(zip(cells, accuracies, strict=True)),
        factors=factors,
        levels=lambda variant: dict(zip(factors, cells[variant], strict=True)),
        **options,
    )


def write_factorial(out: Path, accuracies: Sequence[float] = (0.80, 0.70, 0.90, 0.75), **options: Any) -> Path:
    """A study of two depths and two heads, from the accuracies of its four combinations."""
    return write_grid(out, {"model.depth": [1, 2], "model.head": ["logits", "softmax"]}, accuracies, **options)


def write_by_dataset(out: Path, accuracies: Sequence[float] = (0.2, 0.3, 0.8, 0.9), **options: Any) -> Path:
    """A study whose factors are the dataset and the positional embedding."""
    return write_grid(
        out, {"data.name": ["digits", "mnist"], "model.pos_embed": ["none", "cpe"]}, accuracies, **options
    )


def results_of(out: Path, **options: Any) -> Findings:
    """The findings of the study that `write_study` writes with these options."""
    return analyze(read_folder(write_study(out, **options)))


def exact(out: Path, values: Mapping[str, Sequence[float]]) -> Findings:
    """The findings of a study in which variant v's seed s reached exactly values[v][s]."""
    folder = write_study(out, accuracy=dict.fromkeys(values, 0.5), seeds=len(next(iter(values.values()))))
    for index, runs in enumerate(values.values()):
        for seed, value in enumerate(runs):
            change_summary(folder / f"v{index}-s{seed}", **{"test/acc": value})
    return analyze(read_folder(folder))


def add_predictions(study_dir: Path) -> None:
    """Give the finished runs of a study test predictions, and the test accuracy that follows from them.

    An image is about equally hard for all runs.
    """
    images = 360
    difficulty = np.random.default_rng(0).random(images)
    for number, path in enumerate(sorted(study_dir.glob(f"*/{record.SUMMARY}"))):
        body = record.read_summary(path.parent)
        if body["status"] != "finished":
            continue
        noise = 0.1 * np.random.default_rng([1, number]).standard_normal(images)
        hits = difficulty + noise < body["test/acc"]
        predictions = to_bytes(hits, np.where(hits, 0.75, 0.25), np.arange(images) % 10)
        write_bytes(path.parent / record.PREDICTIONS, predictions)
        change_summary(path.parent, **{"test/acc": float(hits.mean())})


def add_metrics(study_dir: Path, value: Callable[[dict[str, Any], str, int], dict[str, Any]]) -> None:
    """Give the finished runs of a study more metrics: value(summary, variant, seed)."""
    for entry in study_file.read_study(study_dir)["runs"]:
        folder = study_dir / entry["run"]
        if record.has_ended(folder):
            change_summary(folder, **value(record.read_summary(folder), entry["variant"], entry["seed"]))


def curve(reached: float, epochs: int) -> list[dict[str, float]]:
    """The rows of metrics.csv."""
    steps = np.arange(1, epochs + 1) / epochs
    return [
        {
            "epoch": epoch,
            "lr": 0.005 * (1 - step),
            "train/loss": 2.3 - 2.1 * reached * step,
            "train/acc": min(1.0, reached * step**0.3 + 0.01),
            "val/loss": 2.3 - 2.0 * reached * step,
            "val/acc": reached * step**0.4,
        }
        for epoch, step in enumerate(steps.tolist(), start=1)
    ]


def summary(identity: str, last: Mapping[str, float], reached: float, status: str, size: int) -> dict[str, Any]:
    """The content of summary.json before it is sealed. A diverged run has no metrics."""
    ended_well = status != "diverged"
    return {
        "run_id": identity,
        "status": status,
        "epochs": int(last["epoch"]),
        **{
            metric: last[metric] if ended_well else None
            for metric in ("train/loss", "train/acc", "val/loss", "val/acc")
        },
        "test/loss": 2.3 - 2.0 * reached if ended_well else None,
        "test/acc": reached if ended_well else None,
        "data": {"train_images": 1293, "val_images": 144, "test_images": 360},
        "cost": {
            "params": 25_000 + 500 * size,
            "params_fixed": 0,
            "flops_per_image": 9.1e5 + 1e4 * size,
            "wall_seconds": 4.2,
            "device_seconds": 4.0 + 0.1 * size,
            "images_per_second": 9000.0,
            "peak_memory_bytes": None,
            "cohort": 1,
        },
        "provenance": {
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "dirty": False,
            "started": "2025-01-01T00:00:00+00:00",
            "finished": "2025-01-01T00:00:04+00:00",
            "command": "vit-sweep run position",
            "versions": {"python": "3.11.7", "torch": "2.15.0"},
            "hardware": {"device": "cpu", "name": "A processor", "threads": 1},
        },
    }
