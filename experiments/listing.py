"""What `vit-train presets` and `vit-train variants` print."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from experiments.presets import PRESETS, preset
from vit.registry import REGISTRY


def presets() -> int:
    """Every preset with its size, its forward FLOPs an image and the figure its source claims."""
    from experiments.runs.provenance import model_cost

    table = Table(box=None, pad_edge=False)
    for column in ("preset", "parameters", "fixed", "MFLOPs", "claim", "about"):
        table.add_column(column, justify="right" if column in ("parameters", "fixed", "MFLOPs", "claim") else "left")
    for name, entry in PRESETS.items():
        config = preset(name)
        cost = model_cost(config.vit_config(config.data.num_classes))
        claim = "" if entry.claim is None else f"{entry.claim:.2%}"
        about = "\n".join(filter(None, [entry.about, entry.source, entry.scored]))
        table.add_row(
            name,
            f"{cost['params']:,}",
            f"{cost['params_fixed']:,}",
            f"{cost['flops_per_image'] / 1e6:,.1f}",
            claim,
            about,
        )
    _print(table)
    return 0


def variants() -> int:
    """Every registered positional embedding, the sites it may enter at (its natural one first) and its first line."""
    table = Table(box=None, pad_edge=False)
    for column in ("variant", "sites", "what it is"):
        table.add_column(column)
    for name, kind in REGISTRY.items():
        table.add_row(name, ", ".join(kind.sites), next(iter((kind.cls.__doc__ or "").strip().splitlines()), ""))
    _print(table)
    return 0


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
