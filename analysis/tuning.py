"""Statistics of a tuning: the expected best accuracy against the budget, and choices at the edge of the search space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis import stats
from analysis.sources.study import Study
from analysis.sources.tuning import Tuning, read_tuning

EDGE = 0.05  # share of a range, on its scale, that counts as its edge


@dataclass(frozen=True)
class ExpectedBest:
    """`epochs` [N]: the cost of 1 to N trials, at the mean cost of the variant's trials; `value` [N]: the expected best."""

    epochs: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class TuningResults:
    """A tuning with its statistics. Values are in the data's units (accuracies as fractions)."""

    tuning: Tuning
    expected: dict[str, ExpectedBest]
    """variant -> the expected best of its trials. A trial without a value (diverged or failed) counts as 0"""
    at_edge: dict[str, list[str]]
    """setting -> variants whose choice lies at or near an end of the range that was tried"""
    other_base: dict[str, tuple[Any, Any]]
    """setting -> (in the tuning, in the study), for settings of the base that differ"""


def tuning_results(study: Study) -> TuningResults | None:
    """The statistics of a study's tuning; None for a study that was not tuned."""
    tuning = read_tuning(study)
    if tuning is None:
        return None
    variants = [variant for variant in study.variants if variant in tuning.choices]
    return TuningResults(
        tuning=tuning,
        expected={variant: _expected(tuning, variant) for variant in variants},
        at_edge=_at_edge(tuning, variants),
        other_base=_other_base(tuning, study),
    )


def _expected(tuning: Tuning, variant: str) -> ExpectedBest:
    trials = tuning.of(variant)
    number = np.arange(1, len(trials) + 1)
    return ExpectedBest(number * trials["epochs"].mean(), stats.expected_best(trials[tuning.objective].fillna(0.0)))


def _at_edge(tuning: Tuning, variants: list[str]) -> dict[str, list[str]]:
    found = {
        path: [variant for variant in variants if _is_edge(tried, tuning.choices[variant].settings[path])]
        for path, tried in tuning.space.items()
        if "low" in tried
    }
    return {path: named for path, named in found.items() if named}


def _is_edge(tried: dict[str, Any], value: float) -> bool:
    """Whether a value lies in the outer part of its range. An end at 0 is no edge: there is nothing below."""
    low, high = tried["low"], tried["high"]
    if tried.get("log"):
        low, high, value = math.log(low), math.log(high), math.log(value)
    share = (value - low) / (high - low)
    return share > 1 - EDGE or (share < EDGE and tried["low"] > 0)


def _other_base(tuning: Tuning, study: Study) -> dict[str, tuple[Any, Any]]:
    from experiments.config import DEFAULTS, LOCATIONS

    ignored = {*tuning.space, *study.varied, *LOCATIONS, "seed"}
    pairs = {
        path: (tuning.base.get(path, default), study.base.get(path, default)) for path, default in DEFAULTS.items()
    }
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1] and path not in ignored}
