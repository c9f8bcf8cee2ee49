"""One run, or one cohort of runs: configuration, data, training, record, tracking."""

import runpy
from pathlib import Path
from typing import Any

runpy.run_path(str(Path(__file__).parents[1] / "vit" / "shadowed.py"))["check"]("vit")

__all__ = ["load_model", "register_dataset"]


def __getattr__(name: str) -> Any:
    if name == "load_model":  # it imports torch
        from experiments.runs.trained import load_model

        return load_model
    if name == "register_dataset":
        from experiments.data.catalogue import register_dataset

        return register_dataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
