"""The results as people read them: a Markdown table, a plot, and a JSON file. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import UserError
from experiments.runs import record

HEAD = (
    "",
    "processes x threads",
    "step, images/s",
    "epoch with data, images/s",
    "run-epochs/hour",
    "x tutorial",
    "x timm",
    "peak memory",
    "of matrix FLOP/s",
)
LABELS = {"tokens": "tokens of an image", "width": "width of a token", "cohort": "runs trained together by a process"}


def table(results: Mapping[str, Any]) -> str:
    """Everything measured, for the README."""
    rows = [_row(name, row, results["ratios"]) for name, row in results["contenders"].items()]
    return "\n".join([*_markdown(HEAD, rows), "", *_sentences(results)]) + "\n"


def _row(name: str, row: Mapping[str, Any], ratios: Mapping[str, Any]) -> list[str]:
    return [
        name,
        f"{row['processes']} x {row['threads']}",
        _number(row["steps_images_per_second"]),
        _number(row["epochs_images_per_second"]),
        _number(row["run_epochs_per_hour"], 1),
        _number(ratios["tutorial"][name]["epochs"], 2),
        _number(ratios["timm"][name]["epochs"], 2),
        _megabytes(row["peak_memory_bytes"]),
        _percent(row["share_of_matrix_flops"]),
    ]


def _sentences(results: Mapping[str, Any]) -> list[str]:
    lost = {name: row["lost"] for name, row in {**results["contenders"], **results["digits"]}.items() if row["lost"]}
    lines = [_setting(results["setting"]), _limits(results), _digits(results["digits"]), _records(results["records"])]
    return "\n\n".join([*lines, *(f"{name} is missing: {why}" for name, why in lost.items())]).splitlines()


def _setting(s: Mapping[str, Any]) -> str:
    return (
        f"Model and batch ({s['batch_size']} images) of `tintn-cifar10`, {s['data']}, {s['batches']} batches a turn; "
        f"medians of {s['rounds']} interleaved turns, ratios of epochs with data, turn by turn. {s['cores']} cores, "
        f"{s['name']}, torch {s['versions']['torch']}, load average before the start {s['load_before']:.1f}."
    )


def _limits(results: Mapping[str, Any]) -> str:
    machine, rows = results["machine"], results["contenders"].values()
    if None in machine.values():
        return "The machine's own rates are missing: the process that measured them was lost."
    best = max(rows, key=lambda row: row["run_epochs_per_hour"] or 0)
    return (
        f"The machine does {_number(machine['matrix_flops'] / 1e9)} GFLOP/s in matrix products, and copies "
        f"{_number(machine['memory_bytes'] / 1e9)} GB/s. To learn from an image takes "
        f"{best['flops_per_image'] / 1e6:.1f} MFLOP, and {best['bytes_per_image'] / 1e6:.1f} MB where every operation "
        f"goes to memory and back: the fastest does {_percent(best['share_of_matrix_flops'])} of the one rate and "
        f"{_percent(best['share_of_memory_bytes'])} of the other."
    )


def _digits(rows: Mapping[str, Any]) -> str:
    rates = {name: (_number(row["run_epochs_per_hour"]), _number(row["ratio"], 2)) for name, row in rows.items()}
    listed = ", ".join(f"{name} {rate} ({ratio} x)" for name, (rate, ratio) in rates.items())
    return f"`position` on digits, run-epochs/hour: {listed}."


def _records(records: Mapping[str, Any]) -> str:
    if records["lost"]:
        return f"What records cost is missing: {records['lost']}"
    own, wandb = (1000 * records[key] for key in ("record_seconds", "tracking_seconds"))
    return (
        f"An epoch's records take {own:.1f} ms and W&B (offline) {wandb:.1f} ms: "
        f"{_percent(records['share_of_digits_epoch'], 1)} of an epoch on digits, "
        f"{_percent(records['share_of_cifar10_epoch'], 3)} of one on CIFAR-10."
    )


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_line(head), _line(["---", *["---:"] * (len(head) - 1)]), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}%}".replace("%", " %")


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 2**20:,.0f} MiB"


def write(results: Mapping[str, Any], out: Path) -> None:
    """FILE and, beside it, FILE's name with .md and .svg. Raises `UserError` where that cannot be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        record.write_json(out, results)
        record.write_text(out.with_suffix(".md"), table(results))
        plot(results["curves"], out.with_suffix(".svg"))
    except OSError as error:
        raise UserError(f"out: {str(out)!r} cannot be written: {error.strerror}") from error


def plot(curves: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Cost against work: a panel each for sequence length, width and cohort size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (axis, points) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
        lines = _cohort_lines(points) if axis == "cohort" else {kind: (points, kind) for kind in ("ours", "timm")}
        for label, (chosen, key) in lines.items():
            axes.plot([p[axis] for p in chosen], [p[key] for p in chosen], "o-", label=label)
        ticks = sorted({p[axis] for p in points})
        axes.set(xlabel=LABELS[axis], xscale="log")
        axes.set_xticks(ticks, labels=map(str, ticks))
        axes.set_xticks([], minor=True)
        if axis == "cohort":
            axes.set(ylabel="run-epochs/hour, whole machine", ylim=(0, None))
        else:
            axes.set(ylabel="ms an image, one update", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, metadata={"Date": None})


def _cohort_lines(points: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[Mapping[str, Any]], str]]:
    modes = dict.fromkeys(p["compiled"] for p in points)
    return {mode or "eager": ([p for p in points if p["compiled"] == mode], "ours") for mode in modes}
