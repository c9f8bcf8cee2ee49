"""The types of what a study states, which check themselves: names, seeds, looks, margins, families."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt

from experiments.errors import format_level
from experiments.metric import EXPECTED, LARGEST, MAX_MARGIN, SMALLEST, is_metric
from vit.registry import nearest

Levels = dict[str, Any]  # factor -> level, or setting -> value
MAX_SEED = 2**31 - 1
MAX_RUNS = 100_000  # of a study: each is planned before the first starts
MAX_LOOK = 10_000
MOST_PAIRS = 150  # variants of which every pair is compared; more pairs are too many to compute and to read


def _check_name(name: Any) -> Any:
    if isinstance(name, bool):
        raise ValueError(f"{name} is not allowed: YAML reads yes, no, on and off as true and false; use quotes")
    if isinstance(name, str) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        expected = "at most 80 of a-z, A-Z, 0-9, '.', '_' and '-', the first of a-z, A-Z, 0-9"
        raise ValueError(f"{name!r} is not allowed: expected {expected}")
    return name


def _check_metric(metric: str) -> str:
    if not is_metric(metric):
        raise ValueError(f"{metric!r} is not allowed: {EXPECTED}")
    return metric


def _check_looks(looks: list[int]) -> list[int]:
    if looks != sorted({n for n in looks if 2 <= n <= MAX_LOOK}):
        raise ValueError(f"{looks!r} is not allowed: expected rising numbers of seeds from 2 to {MAX_LOOK:,}")
    return looks


def _list_seeds(seeds: Any) -> Any:
    listed, lowest, highest = (seeds, 0, MAX_SEED) if isinstance(seeds, list) else ([seeds], 1, MAX_RUNS)
    allowed = all(type(seed) is int and lowest <= seed <= highest for seed in listed)
    if not listed or not allowed or len(set(listed)) < len(listed):
        expected = f"a number of seeds from 1 to {MAX_RUNS:,}, or a list of different seeds from 0 to {MAX_SEED}"
        raise ValueError(f"{repr(seeds)[:80]} is not allowed: expected {expected}")
    return seeds if isinstance(seeds, list) else list(range(seeds))


def _check_margin(margin: float) -> float:
    if not SMALLEST <= margin <= LARGEST:
        raise ValueError(f"{margin!r} is not allowed: expected a number from {SMALLEST:g} to {LARGEST:g}")
    return margin


Name = Annotated[str, BeforeValidator(_check_name)]
MetricName = Annotated[str, AfterValidator(_check_metric)]
Variance = Literal["shared", "paired", "unpaired"]
"""Standard errors of differences: "shared", from a variant's own variance and the average of all variants; "paired",
from the differences of each pair alone; "unpaired", as "shared", but the number of a run says nothing of its
conditions, so nothing is paired by it."""
Family = Literal["all", "baseline"]  # the pairs that are tested: all, or those with the baseline
Looks = Annotated[list[StrictInt], AfterValidator(_check_looks)]  # planned tests: at these numbers of seeds
Seeds = Annotated[list[int], BeforeValidator(_list_seeds)]  # a list; a number n is 0 to n-1
Margin = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False), AfterValidator(_check_margin)]


def amount(given: Any) -> tuple[float, bool]:
    """A number above 0, else NaN, and whether it has a unit of shares: `0.5`, `1 point`, `0.5 points`, `0.5 %`."""
    number, in_points = re.subn(r"\s*(points?|%)$", "", str(given).strip())
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    return value if 0 < value < math.inf else math.nan, bool(in_points)


def read_margin(margin: Any, is_share: bool) -> float:
    """A margin in the unit of a metric; of an accuracy also in points. Raises `ValueError`."""
    value, in_points = amount(margin)
    value /= 100 if in_points else 1
    if not value < (MAX_MARGIN if is_share else math.inf) or (in_points and not is_share):
        unit = f" and less than {MAX_MARGIN:g}; accuracies are fractions, so 1 point is 0.01 or '1 point'"
        raise ValueError(f"{margin!r} is not allowed: expected a number above 0{unit if is_share else ''}")
    return value


def _column_margin(margin: Any) -> float | str:
    """A number above 0; a text with a unit, such as `0.5 points`, as it is, since its unit is that of the metric."""
    value, in_points = amount(margin)
    if math.isnan(value):
        raise ValueError(f"{margin!r} is not allowed: expected a number above 0, or such as '0.5 points'")
    return str(margin) if in_points else value


ColumnMargin = Annotated[float | str, BeforeValidator(_column_margin)]  # of a metric that is a column of a table


def variant_name(factors: Iterable[str], levels: Iterable[str]) -> str:
    """A variant named by its levels: `depth=2, head=logits`; by the level alone where there is one factor."""
    names = [" + ".join(path.rpartition(".")[2] for path in factor.split("+")) for factor in factors]
    texts = list(levels)
    return ", ".join(map("=".join, zip(names, texts, strict=True))) if len(texts) > 1 else "".join(texts) or "all runs"


def baseline_of(given: Any, variants: Mapping[str, Levels]) -> str:
    """The variant that a baseline gives by its label, its level or its levels; the first where nothing is given.

    `variants`: label -> its levels. Raises `ValueError` where none or several have these levels.
    """
    if given is None:
        return next(iter(variants))
    own = {name: format_level(level) for name, level in given.items()} if isinstance(given, Mapping) else {}
    levels = [f"{name}={level}" for name, level in own.items()]
    shown = ", ".join(levels or map(format_level, given if isinstance(given, list) else [given]))
    having = [label for label, of in variants.items() if own.items() <= {n: format_level(of[n]) for n in of}.items()]
    labels = having if own else [label for label in variants if label == shown]
    if len(labels) != 1:
        problem = "matches several variants" if labels else "is not a variant"
        raise ValueError(f"baseline: {shown!r} {problem}; {nearest(shown, labels or variants)}")
    return labels[0]
