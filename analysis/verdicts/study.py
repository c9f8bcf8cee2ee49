"""How the verdicts of a study are reached, and its comparisons. The only reading of a study for them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from analysis.verdicts.chance import Chance, chance_level
from analysis.verdicts.comparisons import (
    NOT_TESTED,
    Comparison,
    Pair,
    Rule,
    Values,
    Verdict,
    against_baseline,
    at_ceiling,
    compare,
    with_failed,
    without_test,
)
from analysis.verdicts.looks import Looks
from experiments.metric import Metric
from experiments.runs.record import STATUSES as ENDED
from experiments.stated import MOST_PAIRS
from experiments.study import Compared

DATA = ("data.name", "data.classes", "data.num_classes")  # the settings that say how many classes there are
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Policy(Rule):
    """How verdicts of a study are reached."""

    metric: Metric
    chance: Chance
    image: float = 0.0  # see `one_image`

    def at_ceiling(self, values: Values) -> set[str]:
        """The variants of which each finished run errs on at most one image."""
        runs = {variant: [run for run in of.values() if math.isfinite(run)] for variant, of in values.items()}
        least = 1 - 1.0000001 * self.image if self.metric.is_share else math.inf
        return {variant for variant in runs if min(runs[variant], default=-1) >= least}


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study."""

    baseline: str
    versus: dict[str, Comparison]  # each variant against the baseline: the same comparisons as in `pairs`
    pairs: dict[tuple[str, str], Comparison]
    """(a, b) -> a - b, where b is the baseline or comes later; all pairs are one family. Empty where the pairs with the
    baseline are the family"""

    @property
    def other_pairs(self) -> dict[tuple[str, str], Comparison]:
        """Every pair without the baseline."""
        return {pair: compared for pair, compared in self.pairs.items() if self.baseline not in pair}

    @property
    def verdicts(self) -> set[str]:
        """The verdicts that there are."""
        return {compared.verdict for compared in (*self.pairs.values(), *self.versus.values())}

    @cached_property
    def untested(self) -> list[str]:
        """The variants of which no comparison has a verdict, so that nothing is known of their place."""
        known = {variant for pair, one in self.family.items() if one.verdict != NOT_TESTED for variant in pair}
        return [variant for variant in self.versus if variant not in known]

    @property
    def ranked(self) -> list[tuple[str, str]]:
        """The pairs of which a difference is shown, the better variant first."""
        better = {"better": lambda a, b: (a, b), "worse": lambda a, b: (b, a)}
        return [better[c.verdict](*pair) for pair, c in self.pairs.items() if c.verdict in better]

    @property
    def ranks(self) -> dict[str, tuple[int, int]]:
        """Variant -> its first and last possible rank, 1 for the best; empty where not all pairs are compared.

        They hold together wherever all intervals do, and a pair without a verdict widens them. Source: Al Mohamad,
        Goeman and van Zwet, Biometrics 78 (2022), 238-247.
        """
        above, below = (Counter(pair[side] for pair in self.ranked) for side in (1, 0))
        return {v: (1 + above[v], len(self.versus) - below[v]) for v in self.versus} if self.pairs else {}

    def with_verdict(self, variant: str | None, *verdicts: Verdict) -> frozenset[str]:
        """The variants with which this one has one of these verdicts."""
        return frozenset(
            (set(pair) - {variant}).pop()
            for pair, compared in self.family.items()
            if variant in pair and compared.verdict in verdicts
        )

    @cached_property
    def family(self) -> dict[tuple[str, str], Comparison]:
        """The pairs that are tested together: all, or those with the baseline."""
        return self.pairs or {(v, self.baseline): one for v, one in self.versus.items() if v != self.baseline}


def columns(metric: Metric) -> tuple[str, ...]:
    """What `from_rows` reads of a run: name, variant, seed, status, the metric, the images of its split, classes."""
    return "run", "variant", "seed", "status", metric, images_column(metric), *DATA


def from_rows(plan: Compared, rows: Iterable[Mapping[str, Any]], margin: float | None) -> tuple[Policy, Values]:
    """How the verdicts of a study are reached, and its values, in the order of the runs. One row for each run.

    A row has the `columns` that are known. `margin`: that of the plan; None where it is stated in another unit.
    """
    metric = plan.compared_by
    rows = [row for row in rows if row["status"] != "unplanned"]
    finished = [row for row in rows if row["status"] == "finished"]
    known = {name: [row.get(name, math.nan) for row in finished] for name in (metric, images_column(metric))}
    values: dict[str, dict[int, float]] = {row["variant"]: {} for row in rows}
    for row in rows:
        if row["status"] in ENDED:  # NaN for a run that did not finish: its seed is dropped, not absent
            value = row.get(metric) if row["status"] == "finished" else None
            values[row["variant"]][int(row["seed"])] = math.nan if value is None else float(value)
    policy = Policy(
        metric=metric,
        margin=margin,
        lower_is_better=metric.lower_is_better,
        chance=_chance(rows, plan, margin),
        image=one_image(known, metric),
        looks=Looks(tuple(plan.looks), _complete(rows)),
        variance=plan.variance,
        family="baseline" if len(values) > MOST_PAIRS else plan.family,
        has_grid=plan.has_grid,
    )
    return policy, values


def _chance(rows: Rows, plan: Compared, margin: float | None) -> Chance:
    """The chance level of each variant, by its first run that has ended, and the runs that failed."""
    metric = plan.compared_by
    first: dict[str, Mapping[str, Any]] = {}
    failed: dict[str, list[int]] = {}
    for row in rows:
        if row["status"] in ENDED:
            first.setdefault(row["variant"], row)
        if row["status"] in ("diverged", "pruned"):
            failed.setdefault(row["variant"], []).append(int(row["seed"]))
    levels = {name: chance_level(row, metric) for name, row in first.items()}
    return Chance(metric, margin, {name: level for name, level in levels.items() if level is not None}, failed)


def _complete(rows: Rows) -> tuple[int, ...]:
    """The seeds before the first one that has a run left to end, in the planned order."""
    left = {row["seed"] for row in rows if row["status"] not in (*ENDED, "unreadable")}
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    first = next((i for i, seed in enumerate(seeds) if seed in left), len(seeds))
    return tuple(map(int, seeds[:first]))


def compare_variants(values: Values, baseline: str, policy: Policy) -> Comparisons:
    """Every pair of variants, or each variant with the baseline, as the policy says."""
    others, everything = [variant for variant in values if variant != baseline], policy.family == "all"
    pairs = (
        [(b, a) if a == baseline else (a, b) for a, b in combinations(values, 2)]
        if everything
        else [(variant, baseline) for variant in others]
    )
    compared = _compare(values, pairs, policy)
    versus = against_baseline(compared, policy.looks.limit(values), baseline)
    return Comparisons(baseline, versus, compared if everything else {})


def _compare(values: Values, pairs: Sequence[Pair], policy: Policy) -> dict[Pair, Comparison]:
    """Each pair (a, b) as a - b; the pairs are one family. Verdicts also hold where failed runs are at chance."""
    tested, chance = policy.looks.limit(values), policy.chance
    compared = compare(tested, pairs, policy)
    if failed := {variant for variant, seeds in chance.failed.items() if tested[variant].keys() & set(seeds)}:
        counted = {
            pair: without_test(one, "failed runs, chance level unknown") if chance.unknown & set(pair) else one
            for pair, one in compare(policy.looks.limit(chance.counted(values)), pairs, policy).items()
            if failed & set(pair)
        }
        compared = with_failed(compared, counted, policy)
    return at_ceiling(compared, policy.at_ceiling(tested))


def one_image(finished: Mapping[str, ArrayLike], metric: Metric) -> float:
    """The share of one image of the metric's split; 0 for another metric, and where the size is not recorded.

    `finished`: column -> its value in each finished run, with `test_images` for a metric of the test set.
    """
    sizes = np.asarray(finished.get(images_column(metric), []), dtype=float)
    known = sizes[sizes == sizes] if metric.is_share else sizes[:0]
    return 1 / float(known.min()) if len(known) and known.min() > 0 else 0.0


def images_column(metric: Metric) -> str:
    """The column with the number of images of the metric's split: `test_images`."""
    return f"{metric.partition('/')[0]}_images"
