"""How were the numbers made? What this study used; `analysis/verdicts/README.md` explains the rules."""

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import held_for
from analysis.findings.conduct import Conduct
from analysis.verdicts import ALPHA
from analysis.verdicts.comparisons import CEILING, NOT_TESTED
from analysis.write.document import Facts, Section

README = "analysis/verdicts/README.md has the rules, their sources and error rates."
OF_BOTH = "A difference has a t test with the variances of both sides, and at most"
OF_VARIANT = "one part its own and two parts the average of all variants, but never less than its own"
STANDARD_ERRORS = {
    "shared": f"Seed means are taken out first. A variant's variance is {OF_VARIANT}. {OF_BOTH} the degrees of freedom "
    "of the whole table.",
    "unpaired": f"A variant's variance is {OF_VARIANT}; of two variants, each has its own. {OF_BOTH} V (n - 1) degrees "
    "of freedom, V the variants and n the smaller number of runs.",
    "paired": "From the differences of each pair seed by seed (paired t test), because the study states variance: "
    "paired.",
}
SPLITS = {
    "fixed": "other seeds on the same images",
    "by seed": "other seeds and other splits of the same dataset (data.split_seed is per-seed), not new images",
    "by seed in some variants": "other seeds; for the variants with data.split_seed per-seed also other splits of the "
    "same dataset, not new images",
}


def question(findings: Findings) -> Section:
    """What this study used, in at most twenty lines."""
    metric, known = findings.means.metric, findings.study.training_known
    after = " after the last epoch" if metric.epochs is None and known else ""
    selected = " No epoch is selected by its result." if known else ""
    better = "lower" if metric.lower_is_better else "higher"
    facts = {
        "Metric": f"The {metric.label}{after}; {better} is better.{selected}",
        "Means": f"Of finished runs, with Student's t interval at {words.CONFIDENCE}.",
        "Scope": scope(findings.conduct, findings.counted),
        **(_differences(findings) if findings.variants.others else {}),
        "Rules": README,
    }
    return Section("methods", "Methods", [Facts(tuple((term, text) for term, text in facts.items() if text))])


def scope(conduct: Conduct, unit: str) -> str:
    """What intervals and tests apply to."""
    if unit == "run" or not conduct.study.training_known:
        return f"Intervals and tests apply to other {unit}s of the same experiment, and to nothing else."
    dataset = conduct.study.base.get("data.name")
    on = f" ({dataset})" if dataset else ""
    return f"Intervals and tests apply to {SPLITS[conduct.split]}{on}."


def _differences(findings: Findings) -> dict[str, str]:
    policy, looks = findings.policy, findings.policy.looks
    alpha = words.percent(ALPHA)
    planned = f"The planned looks share the {alpha}; a pair is judged at the last look that is reached."
    unknown = "Their chance level is not known, so nothing is shown of a pair with diverged runs."
    covered = "An interval also covers what the runs of a pair show if failed runs count at chance level."
    paired = "Means over the seeds that both variants have."
    unpaired = "Of the means of both variants: runs are not paired, and their order changes nothing."
    failed = unknown if findings.outcomes.chance_unknown else covered
    return {
        "Differences": paired if policy.unit == "seed" else unpaired,
        "Standard errors": STANDARD_ERRORS[policy.variance],
        "Intervals of differences": f"For {held_for(findings)} (Bonferroni): in at least {words.CONFIDENCE} of "
        "studies, all hold.",
        "Verdict": _verdict(findings),
        "Looks": planned if looks else "",
        "Minimum detectable difference": "What such an interval would show with 80 % power if the observed spread were "
        "the true one.",
        "Diverged runs": failed if findings.outcomes.has_failed else "",
    }


def _verdict(findings: Findings) -> str:
    policy, conduct = findings.policy, findings.conduct
    said = {
        CEILING: '"Both at the ceiling": each run errs on at most one image, so they are not called equivalent.',
        NOT_TESTED: '"Not tested": there is no interval, for the reason given.',
    }
    more = [text for word, text in said.items() if word in findings.comparisons.verdicts]
    rest = '"better" or "worse" beyond zero, else "undecided" (in files: not shown), which does not mean equal.'
    if policy.margin is None:
        none = f"No margin is stated in the unit of the {policy.metric.label}, so nothing is called equivalent."
        return " ".join([f"Read from the interval: {rest} {none}", *more])
    changed = ", which was changed after runs had started" if "margin" in conduct.changes else ""
    fixed = ", which the study fixes before its runs"
    stated = fixed if not changed and conduct.study.recorded else ""
    within = words.margin(policy.margin, policy.metric)
    equal = f'"equivalent" within the margin, ±{within}{changed}{stated}; otherwise {rest}'
    return " ".join([f"Read from the interval: {equal}", *more])
