"""One run, or one cohort of runs: configuration, data, training, record, tracking."""

import importlib
from typing import Any

OFFERED = {"load_model": "experiments.runs.trained", "register_dataset": "experiments.catalogue"}


def __getattr__(name: str) -> Any:
    if name in OFFERED:  # imported when used: torch takes seconds
        return getattr(importlib.import_module(OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
