"""The plan of a tuning: the variants, the space, the number of trials, the sampler and the pruner, and the seeds."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.catalogue import DATASETS
from experiments.compared import RunSpec, runs_of
from experiments.config import changed_settings, override, run_id
from experiments.errors import UserError
from experiments.files import canonical
from experiments.sections import PER_SEED
from experiments.study import STUDY, Study
from sweeps.tuning.space import Space

FIRST_SEED = 1_000_000  # trial n of each variant has the seed FIRST_SEED + n, so the variants share their seeds
MAX_TRIALS = 10_000  # and the distance between the seeds of a trial
MAX_SEEDS = 100
OBJECTIVE = "val/acc"
RUNS = "tuning"  # the folder in the study's folder that holds the folders of the trials
JOURNAL = "optuna.jsonl"  # of Optuna, in that folder


@dataclass(frozen=True)
class TuningPlan:
    """What is tried for each variant of a study.

    `trials` is the budget of each, `seeds` the number of runs of a trial.
    """

    study: Study
    space: Space
    trials: int
    sampler: str
    pruner: str
    seeds: int = 1

    @property
    def base(self) -> dict[str, Any]:
        """The settings of the study's base that differ from the defaults, by dotted path."""
        return changed_settings(self.study.base)

    @property
    def tried(self) -> dict[str, Any]:
        """The space in its plain form."""
        return {path: tried.model_dump(exclude_none=True) for path, tried in self.space.items()}

    def name(self, variant: RunSpec) -> str:
        """The name of a variant's Optuna study. The digits differ where a trial would train something else."""
        config = run_id(variant.config.model_copy(update={"seed": 0}))
        values = [config, self.tried, self.sampler, self.pruner, FIRST_SEED, *([self.seeds] if self.seeds > 1 else [])]
        digits = hashlib.sha256(canonical(values)).hexdigest()[:6]
        return f"{self.study.name} tuning {digits}: {variant.variant[:200]}"

    def trial(self, variant: RunSpec, number: int, settings: Mapping[str, Any]) -> list[RunSpec]:
        """The runs of a trial, one for each seed. The seeds follow from its number."""
        trained = variant.configured(override(variant.config, rounded(settings)))
        seeds = [FIRST_SEED + MAX_TRIALS * place + number for place in range(self.seeds)]
        return runs_of([trained], seeds)


def rounded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with four significant digits, as they are trained and written down."""
    return {path: float(f"{value:.4g}") if isinstance(value, float) else value for path, value in settings.items()}


def check_data(plan: Study, study_dir: Path) -> None:
    """Raise `UserError` where tuning would use seeds of the comparison or images of its test sets."""
    path = study_dir / STUDY
    planned = Study.read(study_dir).seeds if path.exists() else []
    if seeds := [seed for seed in (*plan.seeds, *planned) if seed >= FIRST_SEED]:
        raise UserError(f"seeds: {seeds[0]} is not allowed: seeds from {FIRST_SEED:,} on are for tuning")
    for variant in plan.variants.values():
        data = variant.config.data
        if data.split_seed == PER_SEED and not DATASETS[data.name].has_test_set:
            raise UserError(
                f"data.split_seed: {PER_SEED} is not allowed with tune: images on which one seed is tuned would be "
                "test images of another; set a number for the study"
            )
