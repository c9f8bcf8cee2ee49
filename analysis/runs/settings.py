"""Settings of a run by dotted path, and the text of a factor's level."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from experiments import config
from experiments.config import LOCATIONS
from experiments.errors import format_level

DATASET = "data.name"
PLACES = (*LOCATIONS, "seed")
"""Settings that may differ between any two runs of a study: where files are, and the seed."""


def leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every leaf of a nested mapping, for a row of a table: a list becomes text."""
    return ((path, level_text(value) if isinstance(value, list) else value) for path, value in config.flatten(tree))


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `leaves`. Where "model" has a value of its own, "model.depth" keeps its dotted path."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, name = path.split(".")
        if any(".".join(sections[:depth]) in flat for depth in range(1, len(sections) + 1)):
            tree[path] = value
            continue
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    return tree


def in_order(levels: Iterable[str]) -> list[str]:
    """Different levels, as text: in the order of their numbers where all are numbers, else as they come."""
    levels = list(dict.fromkeys(levels))
    try:
        numbers = {level: float(level) for level in levels}
    except (ValueError, TypeError):
        return levels
    return sorted(levels, key=numbers.__getitem__) if all(map(math.isfinite, numbers.values())) else levels


def level_text(level: Any) -> str:
    """A factor's level as tables show it: `learned-1d`, or `learned-1d, every-layer` for linked settings."""
    if isinstance(level, list | tuple):
        texts = list(map(level_text, level))
        return texts[0] if len(set(texts)) == 1 else ", ".join(texts)
    return "nan" if level != level else format_level(level.item() if isinstance(level, np.generic) else level)
