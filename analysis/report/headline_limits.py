"""State what a study cannot show: differences that are too small for its seeds, and other data. Plain text, no markup."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import formatting
from analysis.formatting import plural
from analysis.results.study_results import StudyResults
from analysis.sources.held_fixed import CHOOSE_IMAGES, changed_images
from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import PLACES
from analysis.stats import PairedComparison
from analysis.stats.power import FEW_SEEDS, SeedsNeeded
from experiments.sections import PER_SEED


def limits(results: StudyResults) -> tuple[str, ...]:
    """What the study cannot show: differences that are too small for its seeds, and other data."""
    study = results.study
    compared = {(v, study.baseline): results.versus[v] for v in results.others} | results.other_pairs
    undecided = [c for c in compared.values() if c.verdict == "not enough evidence" and c.n]
    said = [_undecided(results, undecided)] if undecided else [_power(results)]
    on = study.base.get("data.name")
    dataset = f" ({on})" if on else ""
    if changed_images(study):
        said.append("The images were changed between the runs, so the tests are not valid.")
    elif (same := _same_images(study)) is None:
        said.append("The tests say nothing about other data.")
    else:
        images = "the same training and test images" if same else "images of the same dataset"
        said.append(f"All runs use {images}{dataset}, so the tests say nothing about other data.")
    return (" ".join(said),)


def _same_images(study: RunsTable) -> bool | None:
    """Whether the settings of all runs choose the same images of one dataset; None where they are not recorded, or where
    the folder of the images is a factor.
    """
    settings = study.settings()
    if "data.split_seed" not in settings or "data.root" in study.varied:
        return None
    chosen = [path for path in CHOOSE_IMAGES if path in settings and path not in PLACES]
    return PER_SEED not in list(settings["data.split_seed"]) and all(
        settings[path].nunique(dropna=False) == 1 for path in chosen
    )


def _undecided(results: StudyResults, undecided: Sequence[PairedComparison]) -> str:
    """The minimum detectable difference of the undecided comparisons, and the seeds needed."""
    metric = results.study.metric
    found = sorted(c.detectable for c in undecided if math.isfinite(c.detectable))
    if not found:
        return "For the other pairs, the study has too few seeds to show whether they differ."
    hopeless = [value for value in found if metric.is_share and value >= 1]
    if len(hopeless) == len(found):
        return "The pairs that are not significantly different have too few seeds to detect any difference."
    found = found[: len(found) - len(hopeless)]
    none = f" For {plural(len(hopeless), 'pair')} there are too few seeds to detect any difference." * bool(hopeless)
    places = formatting.decimals(found[0] * metric.scale)
    texts = dict.fromkeys(formatting.number(value * metric.scale, places) for value in (found[0], found[-1]))
    depends = ", depending on the pair" if len(texts) > 1 else ""
    pairs = "pairs that are" if len(undecided) > 1 else "pair that is"
    return (
        f"“Not significant” does not mean equal: for the {pairs} not significantly different, the minimum detectable "
        f"difference is {' to '.join(texts)}{metric.points}{depends} (80 % power).{none} {_margin_detected(results, undecided)} "
        f"{_seeds_needed(results, undecided)}"
    ).rstrip()


def _margin_detected(results: StudyResults, compared: Sequence[PairedComparison]) -> str:
    """Whether these seeds can detect a difference as small as the margin, which the study says would matter."""
    known = [c for c in compared if math.isfinite(c.detectable)]
    missed = [c for c in known if c.detectable > results.study.margin]
    seeds = formatting.seeds([c.n for c in known])
    small = f"to detect differences as small as the margin ({formatting.margin(results.study.metric, results.study.margin)})"
    if not missed:
        return f"So {seeds} are enough {small}."
    return f"So {seeds} are too few {small}{' for some of the pairs' if len(missed) < len(known) else ''}."


def _seeds_needed(results: StudyResults, undecided: Sequence[PairedComparison]) -> str:
    if results.policy.plan:  # the plan says how many seeds there will be
        return ""
    if max(c.n for c in undecided) < FEW_SEEDS:
        return f"With fewer than {FEW_SEEDS} seeds, the number of seeds needed cannot be estimated."
    needs = [c.seeds_needed for c in undecided if c.seeds_needed is not None]
    if not needs:
        return ""
    lows, highs = [need.low for need in needs], [need.high for need in needs]
    low = min((n for n in lows if n is not None), default=None)
    high = None if None in highs else max(n for n in highs if n is not None)
    needed = formatting.seeds_needed(SeedsNeeded(low, high))
    return f"To show a difference or equivalence, about {needed} seeds per variant are needed (80 % power)."


def _power(results: StudyResults) -> str:
    compared = [results.versus[variant] for variant in results.others]
    found = sorted(c.detectable for c in compared if math.isfinite(c.detectable))
    if not found:
        return "The spread of the differences is unknown, so the study has no estimate of its precision."
    metric = results.study.metric
    places = formatting.decimals(found[0] * metric.scale)
    texts = dict.fromkeys(formatting.number(value * metric.scale, places) for value in (found[0], found[-1]))
    return (
        f"The minimum detectable difference is {' to '.join(texts)}{metric.points} (80 % power): the study can miss "
        f"smaller differences. {_margin_detected(results, compared)}"
    )
