"""Say how often the study was looked at, and what that does to its tests. Plain text, no markup."""

from __future__ import annotations

from analysis import formatting
from analysis.formatting import plural, quoted
from analysis.report.phrases import value_text
from analysis.results.policy import ALPHA
from analysis.results.study_results import StudyResults
from analysis.stats import repeated_rate
from experiments.runs.looks import Look

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def looks_paragraph(results: StudyResults) -> tuple[str, ...]:
    """Return the paragraph on repeated or planned looks; empty for a first look without a plan."""
    looks = results.conduct.looks
    if results.policy.plan:
        return (planned_looks_text(results),)
    if len(looks) < 2:
        return ()
    rate = repeated_looks_rate(results)
    often = f" (in about {100 * rate:.0f} % of studies for a single comparison)" if rate else ""
    return (
        f"This is the {_ordinal(len(looks))} look at this study (first at {seeds_of(looks[0])}). Testing again after "
        f"adding seeds raises the rate of false differences above {100 * ALPHA:g} %{often}. With `looks:` in the study file, set "
        f"before the first run, it stays at about {100 * ALPHA:g} %.",
    )


def repeated_looks_rate(results: StudyResults) -> float | None:
    """How often tests at 5 % at each look so far find a false difference; None where the numbers of seeds do not rise."""
    seeds = [look.most for look in results.conduct.looks if look.most > 1]
    rising = sorted(set(seeds))
    return repeated_rate(rising, ALPHA) if len(rising) > 1 else None


def not_tested_yet(results: StudyResults) -> tuple[str, ...]:
    """The headline before the first planned look: the best mean, and no comparison."""
    policy, study = results.policy, results.study
    first = (
        f"Nothing is tested yet: the first planned look is at {policy.plan[0]} seeds, and all runs of "
        f"{plural(policy.complete, 'seed')} have ended. So no variant can be called better, worse or equivalent."
    )
    if results.best is None:
        return (first,)
    mean = value_text(results.mean(results.best), study.metric)
    return first, f"The best mean {study.metric.label} so far is that of {quoted(results.best)} ({mean})."


def planned_looks_text(results: StudyResults) -> str:
    """State the plan, the level of the current look, and what becomes of seeds beyond it."""
    policy = results.policy
    plan = f"The study plans to test at {formatting.listing([str(n) for n in policy.plan])} seeds."
    if not policy.looks:
        return plan
    n, last = len(policy.looks.seeds), policy.plan[-1]
    level = 100 * policy.looks.level(ALPHA)
    used = (
        f"{plan} This is the look at {n} seeds: tests and intervals of differences use its level, {_percent(level)} % instead of "
        f"{100 * ALPHA:g} %, so that all looks together have a false verdict in about {100 * ALPHA:g} % of studies."
    )
    if policy.complete == n:
        return f"{used} It is the last look." if n == last else used
    beyond = f"{used} The runs of {policy.complete} seeds have ended; differences and verdicts use the first {n}."
    if policy.next_look is None:
        return f"{beyond} The plan has no further look, so more seeds give no new verdicts."
    return f"{beyond} The next look is at {policy.next_look} seeds."


def seeds_of(look: Look) -> str:
    """`5 seeds`, or `4 to 5 seeds` where variants have different numbers of seeds."""
    return plural(look.most, "seed") if look.fewest == look.most else f"{look.fewest} to {look.most} seeds"


def _ordinal(n: int) -> str:
    return _ORDINALS[n - 1] if n <= len(_ORDINALS) else f"{n}th" if n % 100 in (11, 12, 13) else f"{n}{_suffix(n % 10)}"


def _suffix(digit: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(digit, "th")


def _percent(level: float) -> str:
    """Two significant digits: `0.3`, `4.9`, `0.0015`."""
    return f"{level:.2g}" if level >= 1e-4 else "less than 0.0001"
