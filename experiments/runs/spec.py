"""One run to train: the type that a plan lists, a worker receives and `train` takes. It imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from experiments.config import RunConfig, run_id


@dataclass(frozen=True)
class RunSpec:
    """One run: its name, which is also the name of its folder, and its validated configuration.

    `variant` is the label of its variant in the study. `levels` are the settings of that variant, dotted path -> value.
    """

    name: str
    config: RunConfig
    variant: str = ""
    levels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.seed

    @cached_property
    def run_id(self) -> str:
        """The hash that identifies the run; see `experiments.config.run_id`."""
        return run_id(self.config)
