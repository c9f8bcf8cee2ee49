"""The tables of `vit-train presets` and `vit-train variants`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from experiments.presets import PRESETS, preset
from vit.registry import REGISTRY


def presets() -> int:
    """Print every preset: parameters, forward FLOPs per image, published test accuracy, description and source."""
    import torch

    from experiments.runs.provenance import model_cost
    from vit import ViT

    table = _table("preset", "parameters", "fixed", "MFLOPs/image", "published", "description", right=range(1, 5))
    for name, entry in PRESETS.items():
        config = preset(name)
        with torch.device("meta"):  # without memory for the weights
            cost = model_cost(ViT(config.vit_config(config.data.num_classes)))
        table.add_row(
            name,
            f"{cost['params']:,}",
            f"{cost['params_fixed']:,}",
            f"{cost['flops_per_image'] / 1e6:,.1f}",
            "" if entry.claim is None else f"{entry.claim:.2%}",
            "\n".join(filter(None, [entry.about, entry.source and f"source: {entry.source}", entry.scored])),
        )
    _print(table)
    print("\nTrain one with: vit-train --preset NAME. Fixed: values of positional embeddings that are not trained.")
    return 0


def variants() -> int:
    """Print every registered positional embedding: its sites, the natural one first, and what it is."""
    table = _table("variant", "sites", "description")
    for name, kind in REGISTRY.items():
        table.add_row(name, ", ".join(kind.sites), next(iter((kind.cls.__doc__ or "").strip().splitlines()), ""))
    _print(table)
    print("\nTrain one with: vit-train --model.pos-embed VARIANT --model.pos-site SITE. The default is the first site.")
    return 0


def _table(*columns: str, right: range = range(0)) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number in right else "left")
    return table


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
