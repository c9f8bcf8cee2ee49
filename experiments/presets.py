"""Named configurations, of `presets.yaml` beside this file. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, flatten, override
from experiments.errors import UserError
from experiments.files import read_mapping
from vit.registry import nearest


@dataclass(frozen=True)
class Preset:
    """A named configuration: `changes` to `RunConfig()`, by dotted path. The file describes the other fields."""

    about: str
    changes: dict[str, Any]
    source: str = ""
    claim: float | None = None
    scored: str = ""
    measured: str = ""


def _read() -> dict[str, Preset]:
    presets = dict[str, Preset]()
    for name, fields in read_mapping(Path(__file__).with_suffix(".yaml"), "presets").items():
        below = presets[fields.pop("like")].changes if "like" in fields else {}
        presets[name] = Preset(changes={**below, **dict(flatten(fields.pop("settings")))}, **fields)
    return presets


PRESETS = _read()


def preset(name: str) -> RunConfig:
    """The configuration of a preset. Raises `UserError` for an unknown name."""
    if name not in PRESETS:
        raise UserError(f"preset: {name!r} is not known; {nearest(name, PRESETS)}")
    return override(RunConfig(), PRESETS[name].changes)
