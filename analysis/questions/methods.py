"""How were the numbers made? What this study used; `analysis/README.md` explains the rules."""

from analysis import words
from analysis.columns import held_for
from analysis.findings import Findings
from analysis.findings.conduct import Conduct
from analysis.stats import ALPHA
from analysis.stats.comparisons import NEAR_CHANCE
from analysis.stats.shared_variance import FEWEST_RUNS
from analysis.write.document import Facts, Section

README = "analysis/README.md, “Methods in plain words”, has the rules, their sources and error rates."
SPLITS = {
    "fixed": "other seeds on the same images",
    "by seed": "other seeds and other splits of the same dataset (data.split_seed is per-seed), not new images",
    "by seed in some variants": "other seeds; for the variants with data.split_seed per-seed also other splits of the "
    "same dataset, not new images",
}


def question(findings: Findings) -> Section:
    """What this study used, in at most twenty lines."""
    facts = {
        "Metric": _metric(findings),
        "Means": f"Of finished runs, with Student's t interval at {words.CONFIDENCE}, cut at the limits of the metric.",
        "Scope": scope(findings.conduct),
        **(_differences(findings) if findings.variants.others else {}),
        "Rules": README,
    }
    return Section("methods", "Methods", [Facts(tuple((term, text) for term, text in facts.items() if text))])


def _metric(findings: Findings) -> str:
    metric, known = findings.means.metric, findings.study.training_known
    after = " after the last epoch" * (metric.epochs is None and known)
    selected = " No epoch is selected by its result." * known
    return f"The {metric.label}{after}; {'lower' if metric.lower_is_better else 'higher'} is better.{selected}"


def scope(conduct: Conduct) -> str:
    """What intervals and tests apply to."""
    if not conduct.study.training_known:
        return "Intervals and tests apply to other seeds of the same experiment, and to nothing else."
    on = f" ({conduct.dataset})" if conduct.dataset else ""
    return f"Intervals and tests apply to {SPLITS[conduct.split]}{on}."


def _differences(findings: Findings) -> dict[str, str]:
    policy, looks = findings.policy, findings.policy.looks
    metric, alpha = policy.metric, words.percent(ALPHA)
    points = f"{metric.scale * policy.floor:.2g}{metric.points}"
    step = "an image" if metric.is_share else "a step"
    return {
        "Differences": "Means over the seeds that both variants have.",
        "Standard errors": " ".join(_errors(findings)),
        "Intervals of differences": f"For {held_for(findings)} (Bonferroni): in at least {words.CONFIDENCE} of "
        "studies, all hold.",
        "Verdict": _verdict(findings),
        "Looks": f"The planned looks share the {alpha}; a pair is judged at the last look that both variants reached."
        if looks
        else "",
        "Minimum detectable difference": "The smallest true difference that such an interval shows with 80 % power.",
        "Smallest standard deviation": f"At least half {step} for a run ({points}), since equal values happen by "
        "chance."
        if policy.floor
        else "",
        "Diverged runs": _diverged(findings),
    }


def _errors(findings: Findings) -> list[str]:
    methods, few = findings.comparisons.methods, f"a pair with fewer than {FEWEST_RUNS} common seeds has its own"
    shared = f"From the spread that all {len(findings.variants.names)} variants share (empirical Bayes); {few}."
    stated = findings.policy.variance == "paired"
    why = "the study states variance: paired" if stated else "sharing needs four variants of which three vary"
    return [
        *([shared] if "shared" in methods else []),
        *(
            ["From the spread of both variants (Welch's t test), below five common seeds."]
            if "Welch" in methods
            else []
        ),
        *([f"From the differences seed by seed (paired t test), because {why}."] if "paired" in methods else []),
    ]


def _verdict(findings: Findings) -> str:
    policy, conduct = findings.policy, findings.conduct
    rest = '"better" or "worse" beyond zero, else "not shown", which does not mean equal.'
    if policy.margin is None:
        none = f"No margin is stated in the unit of the {policy.metric.label}, so nothing is called equivalent."
        return f"Read from the interval: {rest} {none}"
    changed = ", which was changed after runs had started" * ("margin" in conduct.changes)
    stated = ", which the study fixes before its runs" * (not changed and conduct.study.recorded)
    within = words.margin(policy.margin, policy.metric)
    near = ' "Both near chance": both means are near that of guessing, so they are not called equivalent.'
    return f'Read from the interval: "equivalent" within the margin, ±{within}{changed}{stated}; otherwise {rest}' + (
        near if NEAR_CHANCE in findings.comparisons.verdicts else ""
    )


def _diverged(findings: Findings) -> str:
    if not findings.policy.chance.diverged:
        return ""
    if findings.policy.chance.unknown:
        return "Their chance level is not known, so nothing is shown of a pair with diverged runs."
    return "An interval also covers what the runs of a pair show if diverged runs count at chance level."
