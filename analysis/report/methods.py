"""Describe how every number of a report is computed. Results in, a section out."""

from __future__ import annotations

from analysis import formatting
from analysis.report.document import Facts, Section
from analysis.report.headline_looks import seeds_of
from analysis.report.sections.factors import factor_methods
from analysis.report.sections.profiles import profile_methods
from analysis.report.sections.trends import trend_methods
from analysis.results.study_results import StudyResults
from analysis.sources.plan_changes import plan_changes
from experiments.sections import PER_SEED

FIXED_SPLIT = (
    "The seed sets the initial weights, the order of the images, augmentation and dropout. It does not change which "
    "images are used for training and testing. Intervals and tests therefore apply to other seeds on the same images, "
    "and not to other images."
)
SPLIT_BY_SEED = (
    "The seed sets the initial weights, the order of the images, augmentation, dropout and the split of the images "
    "(data.split_seed is per-seed). Variants with the same seed share the split. Intervals and tests therefore apply to "
    "other seeds and other splits of the same dataset. The splits share images, so they do not cover new images."
)
SPLIT_BY_SEED_OF_SOME = (
    "The seed sets the initial weights, the order of the images, augmentation and dropout, and in some variants the split "
    "of the images (data.split_seed is per-seed). Intervals and tests of these variants apply to other seeds and other "
    "splits, those of the other variants to other seeds on the same images."
)
_ONE_LOOK = (
    "The rate of false verdicts is 5 % for one look. If seeds are added and tested again until there is a "
    "verdict, the rate is higher. A study file can plan its looks, such as `looks: [5, 10]`; then it stays at about 5 %."
)
TEST_IMAGES = (
    "New test images",
    "Only the intervals headed “new seeds and images” also apply to new test images. They treat seeds and images as random "
    "samples (two-way random effects, from mean squares, with Satterthwaite's degrees of freedom). They are never shorter "
    "than the intervals for new seeds. They do not cover new training images.",
)


def scope(results: StudyResults) -> tuple[str, str]:
    """Say which sources of variation the intervals cover: the seed, or the seed and the split."""
    settings = results.study.settings()
    splits = list(settings["data.split_seed"]) if "data.split_seed" in settings else []
    by_seed = [split == PER_SEED for split in splits]
    if any(by_seed):
        return "Scope", SPLIT_BY_SEED if all(by_seed) else SPLIT_BY_SEED_OF_SOME
    return "Scope", FIXED_SPLIT


def methods(results: StudyResults) -> Section:
    """Return the section "Methods": one term and its explanation for each method that the report uses."""
    facts = [
        *_data(results),
        *(_tests(results) if results.others else ()),
        *factor_methods(results.factors),
        *profile_methods(results.profiles),
        *trend_methods(results.trends),
        (
            "Cost",
            "Parameters are trainable values; fixed values are position values that are not trained. FLOPs are those of "
            "one forward pass of one image, from PyTorch's counter; a multiply-add counts as two. Device time is the "
            "time of training, without data loading.",
        ),
    ]
    return Section("methods", "Methods", [Facts(tuple(facts))])


def _data(results: StudyResults) -> list[tuple[str, str]]:
    metric = results.study.metric
    better = "Lower" if metric.lower_is_better else "Higher"
    last = " after the last epoch" if metric.epochs is None else ""
    return [
        (
            "Run and variant",
            "A run is one configuration trained once with one seed. Runs that differ only in the seed belong to the "
            "same variant.",
        ),
        ("Metric", f"The {metric.label}{last}. {better} is better. No epoch is selected by its result."),
        (
            "Means",
            "Means over the finished runs of a variant, with Student's t confidence interval (CI) at 95 %. An interval "
            "that extends beyond a limit of the metric, such as 100 %, is cut there and written “(low to high)” instead of ±. "
            "Runs that diverged or were pruned have no final value: they are listed and excluded from all means.",
        ),
        scope(results),
        *((TEST_IMAGES,) if results.images is not None else ()),
    ]


def _tests(results: StudyResults) -> list[tuple[str, str]]:
    return [*_verdicts(results), looks_fact(results), *_precision(results), *_exceptions()]


def _verdicts(results: StudyResults) -> list[tuple[str, str]]:
    """How a pair gets its verdict."""
    study = results.study
    margin = formatting.margin(study.metric, study.margin)
    changed = "margin" in plan_changes(study)
    fixed = "which was changed after runs had started" if changed else "which the study fixes before its runs"
    with_baseline, shared = "" if results.pairs or not results.others else " with the baseline", ""
    if results.factorial is not None:
        shared = (
            " The tests of pairs and the tests of factors share the 5 %: each set is tested at 2.5 %. So every p is "
            "multiplied by 2 and compared with 5 %."
        )
    return [
        (
            "Differences",
            f"Each variant is compared with {formatting.quoted(study.baseline)} on the seeds that both have: the mean of the paired "
            "differences with Student's t interval at 95 %, and the paired t test.",
        ),
        ("Equivalence", f"Two one-sided paired t tests (TOST) with the margin ±{margin}, {fixed}."),
        (
            "Multiple comparisons",
            f"The p-values of the t tests and the equivalence tests of all pairs{with_baseline} are adjusted together with Holm's "
            "method. The two null hypotheses of a pair cannot both be true, so the smallest p is multiplied by the number "
            "of pairs, not by the number of tests (Shaffer, 1986). The probability of one or more false verdicts in a "
            f"study is at most 5 %.{shared} Published claims are a separate family. Intervals {results.policy.intervals}.",
        ),
        (
            "Verdict",
            'At alpha = 5 %, after adjustment: "equivalent" if the difference is shown to be within the margin; '
            'otherwise "better" or "worse" if the difference is significant; otherwise "not enough evidence", which '
            "does not mean that there is no difference.",
        ),
    ]


def looks_fact(results: StudyResults) -> tuple[str, str]:
    """How often the study was looked at, and how planned looks are tested."""
    policy = results.policy
    if policy.plan:
        return "Looks", (
            "The planned looks share the 5 % (alpha spending of the O'Brien-Fleming type, Lan and DeMets, "
            "1983). Each p-value is replaced by the smallest overall level at which its look rejects, and the smallest of "
            "these over the looks so far is adjusted with Holm's method (Ye et al., 2013). So a verdict of an earlier look "
            "stays. Intervals of differences are repeated confidence intervals. A look uses the first seeds of the plan, once "
            "all their runs have ended; means use all finished runs. The levels are those of tests of a normal mean. "
            "With t tests on few seeds, the rate of false differences in simulations is 5.1 % for looks at 5 and 10 seeds, and 5.8 % "
            "for looks at 2, 3, 4 and 5 seeds."
        )
    if not results.study.recorded:
        return "Looks", f"Looks at runs without a study.json are not recorded. {_ONE_LOOK}"
    seen = formatting.listing([seeds_of(look) for look in results.conduct.looks])
    return "Looks", (
        "A look (interim analysis) tests a study at a number of seeds (finished runs of a variant). "
        f"Looks at this study so far: {seen}. A report with another number of seeds is a new look, and so is a sweep that "
        f"adds seeds to finished runs. {_ONE_LOOK}"
    )


def _precision(results: StudyResults) -> list[tuple[str, str]]:
    """What a number of seeds can show."""
    level = "5 %" if results.factorial is None else "2.5 %"
    return [
        (
            "Minimum detectable difference",
            "The smallest true difference that the t test finds with 80 % power, given the observed standard deviation "
            f"and number of seeds, at the strictest level of Holm's method ({level} divided by the number of comparisons).",
        ),
        (
            "Seeds needed",
            "The total number of seeds that gives a verdict with 80 % power at the same level, if the observed "
            "difference is the true one. The range is for the 10 % and the 90 % quantile of the true standard deviation, "
            "from its chi-square distribution.",
        ),
    ]


def _exceptions() -> list[tuple[str, str]]:
    """Accuracies that agree by chance, and runs without a final value."""
    return [
        (
            "Smallest standard deviation",
            "An accuracy changes in steps of one image, so all seeds can have the same accuracy by chance. The tests and "
            "intervals therefore use a standard deviation of at least half a step for runs, and √2 times that for "
            "differences of two runs.",
        ),
        (
            "Diverged runs",
            "Verdicts use the finished runs. Each is computed again with diverged runs at chance level (an accuracy of "
            "1 / number of classes). Where the two differ, the verdict says that it depends on diverged runs.",
        ),
    ]
