"""The answer in two sentences, made from the statistics and nothing else. Plain text: no markup, no file.

The first says how the variants stand against the baseline. The second says what may be said of the others among each
other and how sure that is; where the seeds cannot decide, how many would.
"""

from __future__ import annotations

import math

from analysis import numbers
from analysis.findings import Findings
from analysis.stats import Comparison
from analysis.tables import margin_text

NAMED = 6  # variants that a sentence names before it counts


def answer(findings: Findings) -> tuple[str, str]:
    """The two sentences."""
    return _against_baseline(findings), _how_sure(findings)


def _against_baseline(findings: Findings) -> str:
    study, groups = findings.study, _groups(findings)
    mean = findings.mean(study.baseline)
    if not findings.others:
        return f"{study.baseline} reaches a {_label(findings)} of {_value(findings, study.baseline)} over {_seeds(mean.n)}; there is no other variant to compare it with."
    if not mean.n:
        return f"Nothing can be compared yet: no run of the baseline, {study.baseline}, has finished."
    tested = max(findings.versus[variant].n for variant in findings.others)
    head = f"Compared with {study.baseline} ({_value(findings, study.baseline)} {_label(findings)}), "
    if tested < 2:
        return head + _unreplicated(findings)
    parts = [_group(findings, word, variants) for word, variants in groups.items() if variants]
    return head + numbers.listing(parts) + f"; {_seeds(tested)} paired, Holm-adjusted tests at 5 %."


def _unreplicated(findings: Findings) -> str:
    """One seed: the numbers, and no word on what they mean."""
    known = [variant for variant in findings.others if findings.versus[variant].n]
    if not known:
        return "no other variant has finished on the same seed yet."
    best = findings.best if findings.best in known else known[0]
    return (
        f"{best} reaches {_value(findings, best)}, but a single seed says nothing of the spread: "
        "no variant can be called better, worse or equivalent."
    )


def _group(findings: Findings, word: str, variants: list[str]) -> str:
    """`sinusoidal and learned-1d are better (by 22.1 to 25.0 points)`."""
    many = len(variants) != 1
    if len(variants) > NAMED:
        names = f"{len(variants)} of {len(findings.others)} variants"
    else:
        names = numbers.listing(variants)
    verb = "are" if many else "is"
    if word == "equivalent":
        return f"{names} {verb} equivalent (within ±{margin_text(findings)})"
    if word == "not enough evidence":
        return f"for {names} there is not enough evidence either way"
    return f"{names} {verb} {word} ({_by(findings, variants)})"


def _by(findings: Findings, variants: list[str]) -> str:
    """`by 22.1 to 25.0 points`; the range where there are several."""
    metric = findings.study.metric
    diffs = sorted((abs(findings.versus[variant].diff.value), _difference(findings, findings.versus[variant])) for variant in variants)
    low, high = diffs[0][1], diffs[-1][1]
    return f"by {low if low == high else f'{low} to {high}'}{numbers.points(metric)}"


def _how_sure(findings: Findings) -> str:
    if not findings.others or max((findings.versus[variant].n for variant in findings.others), default=0) < 2:
        return "Differences need at least two seeds for an interval and three for a fair verdict; train more with the same command and a higher --seeds."
    if len(findings.others) == 1:
        return _one_difference(findings, findings.versus[findings.others[0]])
    if not findings.pairs:
        return f"{findings.best} has the best mean, {_value(findings, findings.best)}; there are too many variants to compare each with each."
    return _among_others(findings)


def _one_difference(findings: Findings, compared: Comparison) -> str:
    metric, unit = findings.study.metric, numbers.points(findings.study.metric)
    interval = numbers.bounds(compared.diff, numbers.scale(metric))
    if not math.isfinite(compared.detectable):
        return f"The difference is the same on every one of {_seeds(compared.n)}, so no interval can be given; more seeds would show its spread."
    line = f"The difference is {_difference(findings, compared, signed=True)}{unit}, 95 % interval {interval}; "
    if compared.verdict == "not enough evidence":
        return line + _would_decide(compared.seeds_needed, compared.n)
    small = numbers.number(compared.detectable * numbers.scale(metric), numbers.decimals(compared.detectable * numbers.scale(metric)))
    return line + f"{_seeds(compared.n)} could have detected one of {small}{unit} with 80 % power."


def _among_others(findings: Findings) -> str:
    """What the pairs without the baseline say."""
    others = {pair: compared for pair, compared in findings.pairs.items() if findings.study.baseline not in pair}
    open_ = {pair: compared for pair, compared in others.items() if compared.verdict == "not enough evidence"}
    equal = [pair for pair, compared in others.items() if compared.verdict == "equivalent"]
    decided = {pair: compared for pair, compared in others.items() if compared.verdict in ("better", "worse")}
    head = f"Among the other {len(findings.others)}, "
    said = []
    if len(decided) == len(others):
        said.append("every difference is told apart")
    elif decided:
        said.append(_told_apart(decided, len(others)))
    if len(equal) == len(others):
        said.append(f"all are equivalent to each other (within ±{margin_text(findings)})")
    elif equal:
        pairs = _pairs(equal) if len(equal) <= 3 else f"{len(equal)} of {len(others)} pairs"
        said.append(f"{pairs} are equivalent (within ±{margin_text(findings)})")
    if open_:
        said.append(_undecided(findings, open_, len(others)))
    return head + "; ".join(said) + "."


def _told_apart(decided: dict[tuple[str, str], Comparison], total: int) -> str:
    if len(decided) > 3:
        return f"{len(decided)} of {total} pairs are told apart"
    phrases = [f"{a} is better than {b}" if c.verdict == "better" else f"{b} is better than {a}" for (a, b), c in decided.items()]
    return numbers.listing(phrases)


def _undecided(findings: Findings, open_: dict[tuple[str, str], Comparison], total: int) -> str:
    what = "any pair" if len(open_) == total > 1 else _pairs(list(open_), "or") if len(open_) <= 3 else f"{len(open_)} of {total} pairs"
    needs = [compared.seeds_needed for compared in open_.values()]
    head = f"{_few([compared.n for compared in open_.values()])} cannot decide {what}"
    if any(need is None for need in needs):
        known = [need for need in needs if need is not None]
        return head + (f"; {min(known)} would settle the clearest, no practical number all of them" if known else "; no practical number of seeds would")
    return head + (f"; about {max(needs)} would" if len(set(needs)) == 1 else f"; about {min(needs)} would settle the clearest and {max(needs)} all of them")


def _would_decide(needed: int | None, n: int) -> str:
    return f"{_seeds(n)} cannot decide; " + (f"about {needed} would." if needed is not None else "no practical number of seeds would.")


def _pairs(pairs: list[tuple[str, str]], last: str = "and") -> str:
    return numbers.listing([f"{a} and {b}" if last == "and" else f"between {a} and {b}" for a, b in pairs], "as well as" if last == "and" else "or")


def _groups(findings: Findings) -> dict[str, list[str]]:
    words = ("better", "worse", "equivalent", "not enough evidence")
    return {word: [variant for variant in findings.others if findings.versus[variant].verdict == word] for word in words}


def _value(findings: Findings, variant: str) -> str:
    metric = findings.study.metric
    text = numbers.with_interval(findings.mean(variant), numbers.scale(metric)).partition(" ±")[0]
    return text + (" %" if numbers.is_share(metric) else "")


def _difference(findings: Findings, compared: Comparison, signed: bool = False) -> str:
    metric = findings.study.metric
    diff = compared.diff.value * numbers.scale(metric)
    places = numbers.decimals(numbers.half_width(compared.diff) * numbers.scale(metric))
    return numbers.number(diff if signed else abs(diff), places, signed)


def _label(findings: Findings) -> str:
    return numbers.label(findings.study.metric)


def _few(counts: list[int]) -> str:
    return _seeds(max(counts)) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)} seeds"


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"
