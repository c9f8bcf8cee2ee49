"""Say in words how differences change along a condition, and how that is tested."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.profiles import profiles
from analysis.report.tables.trends import verdict_of
from analysis.results import ALPHA, Results
from analysis.trends import Trend

CLAIMS = {"epochs": "with training", "training images": "with more training images"}


def trend_text(trend: Trend, looks: bool = False) -> list[str]:
    """Return the answer of a section on a condition: the spread of the kinds, then the pairs."""
    return [_spread(trend), _pairs(trend), *([_NOT_FOR_LOOKS] if looks else [])]


_NOT_FOR_LOOKS = "These tests are not adjusted for planned looks."


def _spread(trend: Trend) -> str:
    """The claim that differences between kinds shrink, and the verdict."""
    found, metric, (first, last) = trend.spread, trend.metric, (trend.points[0], trend.points[-1])
    kinds = formatting.plural(len(trend.kinds), "variant")
    claim = f"Claim: differences between variants shrink {CLAIMS[trend.unit]}."
    if not math.isfinite(found.p):
        return f"{claim} Not tested: it needs at least three variants and three seeds that all of them have."
    sizes = [
        formatting.number(value * metric.scale, 2 if metric.is_share else 4) for value in (found.first, found.last)
    ]
    verdict = "not shown" if not found.p <= ALPHA else "they shrink" if found.change.value < 0 else "they grow"
    which = " with a positional embedding" if len(trend.kinds) < len(trend.rows) else ""
    return (
        f"{claim} Verdict: {verdict}. The standard deviation of the true means of the {kinds}{which} is {sizes[0]}{metric.points} "
        f"with {first:,} {trend.unit} and {sizes[1]}{metric.points} with {last:,} (p = {formatting.p_value(found.p)}, "
        f"{found.change.n} seeds)."
    ).replace("p = <", "p <")


def _pairs(trend: Trend) -> str:
    verdicts = [verdict_of(*found) for found in trend.pairs.values()]
    return (
        f"The size of the difference shrinks significantly for {verdicts.count('shrinks')} of "
        f"{formatting.plural(len(verdicts), 'pair')} of variants, and grows significantly for {verdicts.count('grows')}."
    )


def trend_methods(results: Results) -> list[tuple[str, str]]:
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
        (
            "Training length",
            "Where a configuration states eval.epochs, each run is evaluated on the test images once after each of these "
            "numbers of epochs, as planned before training. Nothing is chosen by these results.",
        ),
    ]


def profile_methods(results: Results) -> list[tuple[str, str]]:
    """Return the explanation of few-shot accuracies and of other images; empty where there are none."""
    headings = {profile.heading for profile in profiles(results)}
    return [(term, text) for term, text in _PROFILES if term in headings]


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
        "sets, which are the same for all runs. For fewshot-l2, the factor is the one of 2^6 to 2^10 that is best on "
        "the validation images.",
    ),
    (
        "Other image sizes",
        "The images are resized from the dataset's own, and the trained weights are used as they are, with the same patch "
        "size. Learned tables of positions and of offsets are interpolated to the new grid (bicubic, as in timm), so positions "
        "are relative to the image. Sinusoids, rotary embeddings and penalties are computed for the new grid with positions "
        "counted in patches; cape has positions relative to the image.",
    ),
    (
        "Shifted and permuted images",
        "Consistency is the share of test images with the same predicted class before and after a shift, whether or not "
        "it is correct; the mean of shifts up, down, left and right. Pixels from outside the image are black. "
        + _PERMUTED,
    ),
    ("Permuted images", _PERMUTED),
]
