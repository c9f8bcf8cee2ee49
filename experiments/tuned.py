"""The result of a tuning: the content of tuned.yaml, which the plan of a tuned study repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

CHOSEN = ("trial", "settings", "val_acc")  # of the best trial of a variant


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Where the data are is for the study to say, not for a file of rates."""
    if of_data := [path for path in settings if path.partition(".")[0] == "data"]:
        raise ValueError(f"{of_data[0]}: is not allowed: a tuning chooses no settings of the data")
    return settings


Settings = Annotated[dict[str, Any], AfterValidator(_check_settings)]


class _Part(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    pass


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

    `epochs` are those trained in all trials of the variant. `importances`: of earlier versions, not used.
    """

    levels: dict[str, Any]
    settings: Settings = Field(min_length=1)
    trial: int
    val_acc: float = Field(alias="val/acc")
    epochs: int
    importances: dict[str, float] = {}


class TunedTrial(_Part):
    """One trial: its settings, how it ended, the epochs trained, and its last validation metrics (null if it diverged).

    `seed` is its first seed. `accuracies`, in a tuning with several seeds per trial: seed -> validation accuracy, for
    the seeds that were trained. The metrics of the trial are means over them.
    """

    variant: str
    trial: int
    seed: int
    accuracies: dict[int, float | None] | None = None
    status: Literal["finished", "pruned", "diverged", "failed"]
    epochs: int
    val_acc: float | None = Field(None, alias="val/acc")
    val_loss: float | None = Field(None, alias="val/loss")
    settings: Settings

    @property
    def seeds(self) -> set[int]:
        return {self.seed, *(self.accuracies or ())}


def best_trial(trials: Sequence[TunedTrial]) -> TunedTrial | None:
    """The finished trial with the highest validation accuracy, then the lowest loss, then the lowest number."""
    finished = [trial for trial in trials if trial.status == "finished" and trial.val_acc is not None]
    return min(finished, key=lambda trial: (-(trial.val_acc or 0), trial.val_loss or 0, trial.trial), default=None)


class Tuned(_Part):
    """The content of tuned.yaml. `budget`: trials of each variant; `base`: settings that differ from the defaults.

    `seeds_per_trial`: the value of a trial is the mean over them.
    """

    format: Literal[1] = Field(1, alias="schema")
    study: str
    objective: Literal["val/acc"]
    sampler: str
    pruner: str
    budget: int
    seeds_per_trial: int = 1
    space: dict[str, Range] = Field(min_length=1)
    base: dict[str, Any]
    code: dict[str, Any]
    variants: dict[str, TunedVariant] = Field(min_length=1)
    trials: list[TunedTrial] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_settings(self) -> Tuned:
        for label, variant in self.variants.items():
            for path in sorted(set(self.space) ^ set(variant.settings)):
                problem = "is not in `space`" if path in variant.settings else "is missing"
                raise ValueError(f"variants.{label}.settings: {path} {problem}; expected {', '.join(self.space)}")
            best = best_trial([trial for trial in self.trials if trial.variant == label])
            if best is None or any(getattr(best, of) != getattr(variant, of) for of in CHOSEN):
                problem, said = (
                    f"trial {t.trial} with {t.settings} and val/acc {t.val_acc}" if t else "none has finished"
                    for t in (variant, best)
                )
                raise ValueError(f"variants.{label}: {problem} is not the best of its `trials`: {said}")
        return self

    def tree(self) -> dict[str, Any]:
        """The plain form, as in the file and in study.json."""
        return self.model_dump(by_alias=True, exclude_none=True)
