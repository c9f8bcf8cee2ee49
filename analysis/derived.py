"""What symmetry allows on a generated probe, beside what was measured; the derivation is `experiments.probes`'."""

from __future__ import annotations

import math
from fractions import Fraction

from analysis import numbers
from analysis.findings import Findings
from analysis.render import Beside, Cell, Column
from experiments.probes import IMAGES, PROBES, Expected, expected

METRIC = "test/acc"  # whole groups, for which chance is exact; validation images are none
LEARNT = 0.95  # of what a kind tells by itself: from here on it counts as learnt
DEVIATIONS = 3.0  # of sampling the test set, beyond which a model knows more than it can


COLUMNS = (
    Column("derived, %", ("derived_chance", "derived_alone", "derived_border"), help="what symmetry lets it know"),
    Column("measured is", ("as_derived",), numeric=False),
)


def beside(findings: Findings) -> Beside:
    """What a table of variants adds where runs saw a probe; else nothing."""
    derived = _derived(findings)
    if not derived:
        return Beside()
    note = _note(sorted({known.chance for known in derived.values()}))
    return Beside(COLUMNS, lambda variant: _cells(derived.get(variant), findings.mean(variant).value), (note,))


def _cells(known: Expected | None, measured: float) -> tuple[Cell, ...]:
    if known is None:
        return Cell(numbers.DASH, (math.nan,) * 3, math.nan), Cell(numbers.DASH, ("",))
    outcome = verdict(known, measured)
    data = tuple(map(float, (known.chance, known.alone, known.border)))
    return Cell(_range(known), data, data[1]), Cell(outcome or numbers.DASH, (outcome,))


def _note(chances: list[Fraction]) -> str:
    chance = numbers.listing([f"{_percent(chance)} %" for chance in chances])
    return (
        f"Derived (experiments/probes.py): chance is {chance}{', by the probe' * (len(chances) > 1)}. The first figure is what a kind tells of two "
        "patches by itself; the second, where there is one, adds what the grid's border gives away, and no model can "
        f'do better. "less" is below {100 * LEARNT:g} % of the first: not learnt in these epochs. "more" is above the '
        "second: a fault of the code or of the derivation. Both allow for "
        f"{DEVIATIONS:g} standard errors of a test set of {IMAGES['test']} images."
    )


def verdict(known: Expected, measured: float) -> str:
    """Whether a measured accuracy (a fraction) is as derived, less or more; nothing where there is none."""
    if not math.isfinite(measured):
        return ""
    border = float(known.border)
    if measured > border + _sampling(border):
        return "more"
    alone = float(known.alone)
    return "less" if measured < LEARNT * alone - _sampling(alone) else "as derived"


def _sampling(share: float) -> float:
    """How far from a true accuracy chance may put one that is measured on the test set."""
    return DEVIATIONS * math.sqrt(share * (1 - share) / IMAGES["test"])


def _derived(findings: Findings) -> dict[str, Expected]:
    """variant -> what it can know; only of those that the derivation speaks of: kinds that say what they tell, layers
    enough, images as they were made.
    """
    runs = findings.study.settings()
    if findings.study.metric != METRIC or not set(runs.get("data.name", ())) & set(PROBES):
        return {}
    from vit.pos_embed import REGISTRY  # here, for it imports torch

    found = {}
    for variant, run in runs.iterrows():
        name, kind = run["data.name"], REGISTRY.get(run["model.pos_embed"])
        deep = run["model.depth"] >= (1 if run["model.pool"] == "gap" else 2)
        if name in PROBES and kind is not None and _says_what_it_tells(kind) and deep and not run["data.shuffle_patches"]:
            prefix = kind.tells_prefix if run["model.class_token"] or run["model.reg_tokens"] else "nothing"
            found[str(variant)] = expected(name, kind.tells, prefix)
    return found


def _says_what_it_tells(kind: type) -> bool:
    """A plugin may have inherited it from a class that tells more; ours are tested to tell what they say."""
    return kind.__module__ == "vit.pos_embed" or "tells" in vars(kind)


def _range(known: Expected) -> str:
    return " to ".join(dict.fromkeys((_percent(known.alone), _percent(known.border))))


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.4g}"
