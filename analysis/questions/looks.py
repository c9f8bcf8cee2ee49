"""How often was the study tested, and what does that mean for its verdicts?"""

from collections.abc import Sequence

from analysis import words
from analysis.findings import Findings
from analysis.verdicts import ALPHA
from analysis.write.document import Section, Warn
from experiments.runs.history import Look


def question(findings: Findings) -> Section | None:
    """The planned looks; a warning where the study was tested repeatedly without a plan."""
    looks, seen = findings.policy.looks, findings.conduct.looks
    if not looks:
        return Section("looks", "Looks", warnings=[_repeated(seen)]) if len(seen) > 1 else None
    once = "once, " if len(looks.plan) == 1 else ""
    planned = f"The study plans to test {once}at {words.listing(looks.plan)} seeds."
    said = [planned, *([] if looks.waiting else _reached(findings))]
    return Section("looks", "Planned looks", paragraphs=[" ".join(filter(None, said))])


def _reached(findings: Findings) -> list[str]:
    """This look, its level, and what comes next."""
    looks = findings.policy.looks
    n, once, alpha = len(looks.seeds), len(looks.plan) == 1, words.percent(ALPHA)
    last = f"It is the {'only' if once else 'last'} look: more seeds give no new verdicts."
    then = f"The next look is at {looks.next} seeds." if looks.next else last
    level = (
        f"Tests and intervals of differences use its level, {words.percent(ALPHA * looks.share)} instead of {alpha}, "
        f"so that all looks together have a false verdict in at most about {alpha} of studies."
    )
    ended = len(looks.complete)
    more = f"The runs of {ended} seeds have ended; differences and verdicts use the first {n}." if ended > n else ""
    return [*([then] if once else [f"This is the look at {n} seeds. {then}", level]), more]


def _repeated(looks: Sequence[Look]) -> Warn:
    """The warning on looks without a plan."""
    rising = {look.most for look in looks if look.most > 1}
    most = words.percent(1 - (1 - ALPHA) ** len(rising))  # Sidak's inequality
    often = f" (for a single comparison, to at most {most})" if len(rising) > 1 else ""
    first = words.seeds([looks[0].fewest, looks[0].most])
    line = f"The study was tested {len(looks)} times, first at {first}, without planned looks."
    why = (
        f"Testing again after adding seeds raises the rate of false differences above {words.percent(ALPHA)}{often}. "
        f"With `looks:` in the study file, set before the first run, it stays at about {words.percent(ALPHA)}."
    )
    return Warn(line, why, "looks", changes=True)
