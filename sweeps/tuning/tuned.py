"""The result of a tuning, tuned.yaml: its fields, and how it is read and written. It imports no Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.errors import UserError
from experiments.runs import record
from sweeps.study import read_mapping

TUNED = "tuned.yaml"  # in the study's folder
MOST_VALUES = 100_000_000  # a trial has about a dozen; the file of `MAX_TRIALS` trials of each variant must be readable
HEAD = "# The result of a tuning. Train with it: vit-sweep run STUDY --tuned FILE\n"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Range(_Part):
    """What is tried of a setting: the values between two ends, or one of some choices."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: list[Any] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value of a range without choices."""
        assert self.low is not None and self.high is not None
        return self.low, self.high


class TunedVariant(_Part):
    """The settings chosen for a variant, and the trial that they come from.

    `epochs` are those trained in all trials of the variant. `importances`: setting -> its share, empty if not known.
    """

    levels: dict[str, Any]
    settings: dict[str, Any] = Field(min_length=1)
    trial: int
    val_acc: float = Field(alias="val/acc")
    epochs: int
    importances: dict[str, float] = {}


class TrialRow(_Part):
    """One trial: its seed and settings, how it ended, and its last validation metrics (null if it diverged)."""

    variant: str
    trial: int
    seed: int
    status: Literal["finished", "pruned", "diverged", "failed"]
    epochs: int
    val_acc: float | None = Field(None, alias="val/acc")
    val_loss: float | None = Field(None, alias="val/loss")
    settings: dict[str, Any]


class Tuned(_Part):
    """The content of tuned.yaml. `budget`: trials of each variant; `base`: settings that differ from the defaults."""

    format: Literal[1] = Field(1, alias="schema")
    study: str
    objective: str
    sampler: str
    pruner: str
    budget: int
    space: dict[str, Range] = Field(min_length=1)
    base: dict[str, Any]
    code: dict[str, Any]
    variants: dict[str, TunedVariant] = Field(min_length=1)
    trials: list[TrialRow] = Field(min_length=1)

    def tree(self) -> dict[str, Any]:
        """The plain form, as in the file and in study.json."""
        return self.model_dump(by_alias=True, exclude_none=True)


def read_tuned(path: Path) -> dict[str, Any]:
    """The plain form of a tuned.yaml, or of the same in a study.json. Raises `UserError` naming file, field and reason."""
    tree = read_mapping(path, "`variants` and `trials`", MOST_VALUES)
    if "runs" in tree and "tuned" not in tree:
        raise UserError(f"{path}: is the plan of a study that was not tuned")
    return parse_tuned(tree.get("tuned", tree), str(path)).tree()


def parse_tuned(tree: Any, source: str) -> Tuned:
    """Check the plain form. Raises `UserError` naming the source, the field and what is wrong."""
    try:
        return Tuned.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "tuned"
        raise UserError(f"{source}: {field}: {first['msg'][0].lower()}{first['msg'][1:]}") from error


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Write the file. The same content gives the same bytes."""
    text = yaml.safe_dump(tuned.tree(), sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None)
    record.write_text(path, HEAD + text)
