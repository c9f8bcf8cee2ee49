"""The plan of a tuning: the variants, the search space, the number of trials, the sampler, the pruner and the seeds.

`--params` is parsed and checked here.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from experiments.catalogue import DATASETS
from experiments.checks import missing_need
from experiments.compared import RunSpec, runs_of
from experiments.config import SETTINGS, RunConfig, flatten, override, run_id
from experiments.errors import UserError, format_level
from experiments.files import canonical
from experiments.sections import PER_SEED
from experiments.study import STUDY, Study
from experiments.tuned import Range
from vit.registry import nearest

Space = Mapping[str, Range]
FIRST_SEED = 1_000_000  # trial n of each variant has the seed FIRST_SEED + n, so the variants share their seeds
MAX_TRIALS = 10_000  # and the distance between the seeds of a trial
MAX_SEEDS = 100
OBJECTIVE = "val/acc"
RUNS = "tuning"  # the folder in the study's folder that holds the folders of the trials
JOURNAL = "optuna.jsonl"  # of Optuna, in that folder
TUNABLE = tuple(
    path
    for path in SETTINGS
    if path.startswith("optim.")
    or ".drop_" in path
    or path.endswith("drop_rate")
    or path in ("train.batch_size", "train.label_smoothing")
)
WARMUP = "optim.warmup_epochs"
SPREAD = 10.0  # default ends: this factor below and above the base's value
FORMAT = "SETTING=LOW..HIGH, SETTING=LOW..HIGH:log or SETTING=A|B|C"


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

    def name(self, variant: RunSpec) -> str:
        """The name of a variant's Optuna study. The digits differ where a trial would train something else."""
        config = run_id(variant.config.model_copy(update={"seed": 0}))
        tried = {path: tried.model_dump(exclude_none=True) for path, tried in self.space.items()}
        values = [config, tried, self.sampler, self.pruner, FIRST_SEED, *([self.seeds] if self.seeds > 1 else [])]
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
            said = "images on which one seed is tuned would be test images of another"
            raise UserError(f"data.split_seed: {PER_SEED} is not allowed with tune: {said}; set a number for the study")


def make_space(text: str | None, base: RunConfig, variants: list[RunSpec]) -> Space:
    """The space that `--params` gives, or the default one. Raises `UserError`."""
    space = _default_space(base, variants) if text is None else _parse_space(text, variants[0].config)
    _check_space(space, variants)
    return space


def range_text(tried: Range) -> str:
    """A range in words: `0.0005 to 0.05 (log)`, `adamw or sgd`."""
    if tried.choices:
        return " or ".join(map(format_level, tried.choices))
    return f"{tried.low:g} to {tried.high:g}{' (log)' * tried.log}"


def _default_space(base: RunConfig, variants: list[RunSpec]) -> Space:
    """Learning rate, weight decay and warm-up, but no factor of the study.

    Rate and decay lie between a tenth of the base's value and ten times that, the warm-up below a tenth of the epochs.
    The constant schedule has no warm-up.
    """
    decay = base.optim.weight_decay
    space = {
        "optim.lr": _around(base.optim.lr),
        "optim.weight_decay": _around(decay) if decay else Range(low=1e-3, high=0.3, log=True),
        WARMUP: Range(low=0.0, high=base.train.epochs / 10),
    }
    if missing_need(WARMUP, [variant.config for variant in variants]):
        del space[WARMUP]
    return {path: tried for path, tried in space.items() if path not in _factors(variants)}


def _around(value: float) -> Range:
    """From a tenth of a value to ten times that, with six significant digits: 0.0005, not 0.0005000000000000001."""
    return Range(low=float(f"{value / SPREAD:.6g}"), high=float(f"{value * SPREAD:.6g}"), log=True)


def _parse_space(text: str, config: RunConfig) -> Space:
    space: dict[str, Range] = {}
    for part in text.split(","):
        name, equals, values = part.strip().partition("=")
        path = name.strip().replace("-", "_")
        if not equals or not path:
            raise UserError(f"--params: {part.strip()!r} is not allowed: expected {FORMAT}")
        if path not in TUNABLE:
            raise UserError(f"--params: {path!r} cannot be tuned; {nearest(path, TUNABLE)}")
        if path in space:
            raise UserError(f"--params: {path}: is given twice")
        space[path] = _parse_range(path, values.strip(), config)
    return space


def _parse_range(path: str, text: str, config: RunConfig) -> Range:
    problem = f"--params: {path}: {text!r} is not allowed"
    if "|" in text:
        choices = [_value(config, path, choice.strip()) for choice in text.split("|")]
        return Range(choices=choices)
    log = text.endswith(":log")
    try:
        low, high = map(float, text.removesuffix(":log").split(".."))
    except ValueError:
        raise UserError(f"{problem}: expected {FORMAT.replace('SETTING', path)}") from None
    if not low < high < float("inf"):
        raise UserError(f"{problem}: the first number must be lower than the second")
    if log and low <= 0:
        raise UserError(f"{problem}: log needs a lowest value above 0")
    return Range(low=low, high=high, log=log)


def _value(config: RunConfig, path: str, text: str) -> Any:
    """A value as the configuration parses it: "1e-3" as 0.001."""
    try:
        return dict(flatten(override(config, {path: text}).model_dump()))[path]
    except UserError as error:
        raise UserError(f"--params: {error}") from error


def _check_space(space: Space, variants: list[RunSpec]) -> None:
    """Raise `UserError` where a variant does not take an end or a choice, or a setting is a factor or has no effect."""
    if not space:
        raise UserError(
            "--params: the learning rate, the weight decay and the warm-up are factors; name other settings"
        )
    if factors := [path for path in space if path in _factors(variants)]:
        raise UserError(f"--params: {factors[0]}: is a factor of the study; it cannot be tuned")
    configs = []  # each variant with all ends and choices: a trial may draw any of them together
    for variant, values in product(variants, product(*(tried.choices or tried.ends for tried in space.values()))):
        try:
            configs.append(override(variant.config, dict(zip(space, values, strict=True))))
        except UserError as error:
            raise UserError(f"--params: variant {variant.variant!r}: {error}") from error
    for path in space:
        if need := missing_need(path, configs):
            raise UserError(f"--params: {path}: has no effect in any variant; it needs {need}")


def _factors(variants: list[RunSpec]) -> set[str]:
    return {path for variant in variants for path in variant.levels}
