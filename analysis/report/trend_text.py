"""Say in words how differences change along a condition, and how that is tested."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.report.tables.trends import NOT_TESTED, spread_number, spread_verdict, verdict_of
from analysis.results.profiles import profiles
from analysis.results.study_results import StudyResults
from analysis.results.trends import Trend
from analysis.stats import SpreadChange
from vit.registry import REGISTRY

CLAIMS = {"epochs": "with training", "training images": "with more training images"}
CONDITIONS = {
    "epochs": (
        "Training length",
        "Where a configuration states eval.epochs, each run is evaluated on the test images once after each of these "
        "numbers of epochs, as planned before training. Nothing is chosen by these results.",
    ),
    "training images": (
        "Number of training images",
        "Where the numbers of epochs are equal, fewer images are also fewer training steps, so the two are not separated.",
    ),
}
"""unit of a condition -> its heading and its explanation"""


def trend_text(results: StudyResults, trend: Trend) -> list[str]:
    """Return the answer of a section on a condition: the spread of the kinds, the pairs, and the runs that are left out."""
    return [spread_text(results, trend), *([] if results.policy.plan else [_pairs(trend)]), *_left_out(results, trend)]


def spread_text(results: StudyResults, trend: Trend) -> str:
    """Return the claim that differences between kinds shrink, and its verdict."""
    found, (first, last) = trend.spread, (trend.points[0], trend.points[-1])
    claim = f"Claim: differences between variants shrink {CLAIMS[trend.unit]}."
    if not math.isfinite(found.p):
        return f"{claim} Not tested: {_LOOKS if results.policy.plan else _why_not(found)}."
    verdict = {"shrinks": "they shrink", "grows": "they grow"}.get(spread_verdict(found), "not shown")
    kinds = formatting.plural(len(trend.kinds), "variant")
    which = " with a positional embedding" if len(trend.kinds) < len(trend.rows) else ""
    said = (
        f"{claim} Verdict: {verdict}. The standard deviation of the true means of the {kinds}{which} is "
        f"{spread_number(trend, first)}{trend.metric.points} with {first:,} {trend.unit} and "
        f"{spread_number(trend, last)}{trend.metric.points} with {last:,} (p = {formatting.p_value(found.p)}, "
        f"{found.change.n} seeds)."
    ).replace("p = <", "p <")
    largest = max(trend.spreads, key=lambda point: trend.spreads[point])
    if largest not in (first, last):
        said += f" In between it is larger: {spread_number(trend, largest)}{trend.metric.points} with {largest:,} (not tested)."
    return said


_LOOKS = "the study plans looks, and the tests of this section are for one look"


def _why_not(found: SpreadChange) -> str:
    if found.variants < 3 or found.change.n < 3:
        return "it needs at least three variants and three seeds that all of them have"
    return "the standard deviation of the means is the same whichever seed is left out"


def _pairs(trend: Trend) -> str:
    verdicts = [verdict_of(*found) for found in trend.pairs.values()]
    tested = sum(verdict != NOT_TESTED for verdict in verdicts)
    if not tested:
        return "The change of no pair can be tested: a test needs two seeds that have both ends."
    of = formatting.plural(tested, "pair") + " of variants"
    if tested < len(verdicts):
        of = f"{tested} of {len(verdicts)} pairs of variants that can be tested"
    return (
        f"The size of the difference shrinks significantly for {verdicts.count('shrinks')} of {of}, and grows significantly "
        f"for {verdicts.count('grows')}."
    )


def _left_out(results: StudyResults, trend: Trend) -> list[str]:
    """The variants and runs that this section cannot use."""
    said = []
    if trend.missing:
        listed = formatting.listing([formatting.quoted(row) for row in trend.missing])
        of = " with a seed of this look" if results.policy.plan else ""
        said.append(f"Left out, because no run{of} has finished: {listed}.")
    if diverged := len(results.study.of("diverged")):
        runs = formatting.plural(diverged, "diverged run")
        said.append(f"{runs} {'are' if diverged > 1 else 'is'} left out here, also from the tests.")
    return said


def trend_methods(results: StudyResults) -> list[tuple[str, str]]:
    """Return the explanation of the tests, for the section "Methods"; empty where there is no such condition."""
    if not results.trends:
        return []
    return [
        (
            "Differences that shrink",
            "For each pair of variants, the size of the difference at the first and at the last level of the condition is "
            "compared. With d the difference of the means, |d last| < |d first| if and only if d first − d last and "
            "d first + d last have the same sign. So two paired t tests are made, that each of the two is zero; p is the "
            "larger one (intersection-union test; Berger, 1982), Holm-adjusted over all pairs. The claim on all variants "
            "with a positional embedding is one more test, of its own family: the variance of their true means is estimated "
            "without the noise of the runs, as the mean covariance of two different seeds over the variants, and its change is "
            "tested with a t test on the jackknife over seeds (Arvesen, 1969). In simulations with 3 to 10 seeds, it is "
            "wrong in 0.5 % to 5.6 % of studies without a change.",
        ),
        *((heading, text) for unit, (heading, text) in CONDITIONS.items() if unit in {t.unit for t in results.trends}),
    ]


def profile_methods(results: StudyResults) -> list[tuple[str, str]]:
    """Return the explanation of few-shot accuracies and of other images; empty where there are none."""
    headings = {profile.heading for profile in profiles(results)}
    found = [(term, text) for term, text in _PROFILES if term in headings]
    return [(term, f"{text}{_resizing(results)}" if term == SIZES else text) for term, text in found]


def _resizing(results: StudyResults) -> str:
    """How the positional embeddings of the study carry over to another image size."""
    kinds = [name for name in REGISTRY if name in set(results.study.settings().get("model.pos_embed", []))]
    said = ""
    for word, text in _RESIZED.items():
        if names := [name for name in kinds if REGISTRY[name].resized == word]:
            said += f" {text}: {formatting.listing(names)}."
    return said


SIZES = "Other image sizes"
_RESIZED = {
    "interpolated": "Tables interpolated to the new grid (bicubic, as in timm), so that positions are relative to the image",
    "rescaled": "Computed for the new grid, with positions relative to the image",
    "computed": "Computed for the new grid, with positions counted in patches",
    "unchanged": "Weights unchanged, with positions counted in patches",
}


_PERMUTED = (
    "Permuted: the patches of each test image are put in a random order, each image in its own, the same for all runs. If the "
    "accuracy is close to that on the original images, the model hardly relies on position."
)
_PROFILES = [
    (
        "Few-shot accuracy",
        "As in big_vision: the features are the inputs of the last linear layer, frozen. The first S training images of "
        "each class under a seeded permutation are the support set. Features are standardized by it (with 1e-5 added to "
        "the standard deviation), a constant feature of 100 is appended, and targets are ±1. The weights minimize the "
        "squared error plus 2^10 times the squared norm. The accuracy on the test images is the mean over three support "
        "sets, which are the same for all runs with the same training images. On the dataset that a run was trained on, its "
        "features have been trained with the labels of all its training images, so this is not transfer to new classes. For "
        "fewshot-l2, the factor is the one of 2^6 to 2^10 that is best on "
        "the validation images.",
    ),
    (
        SIZES,
        "The images are resized from the dataset's own, and the trained weights are used with the same patch size.",
    ),
    (
        "Shifted and permuted images",
        "Consistency is the share of test images with the same predicted class before and after a shift, whether or not "
        "it is correct; the mean of shifts up, down, left and right. Pixels from outside the image are black. "
        + _PERMUTED,
    ),
    ("Permuted images", _PERMUTED),
]
