"""The answer in two sentences, made from the statistics and nothing else. Plain text: no markup, no file.

The first says how the variants stand against the baseline. The second says what may be said of the others among each
other and how sure that is; where the seeds cannot decide, how many would.
"""

from __future__ import annotations

import math

from analysis import formatting
from analysis.report import factor_tables
from analysis.report.cells import margin_text
from analysis.report.claim_text import evidence_text
from analysis.results import ALPHA, Results
from analysis.sources.settings import level_text
from analysis.sources.study import ENDED
from analysis.stats import Comparison, Factorial
from analysis.stats.power import FEW_SEEDS

_TOO_FEW = f", and are too few to say how many would: take {FEW_SEEDS} or more"
NAMED, LONGEST = 6, 120  # variants, and characters of their names, up to which a sentence names them before it counts


def answer(results: Results) -> tuple[str, str]:
    """The two sentences."""
    return _against_baseline(results), _how_sure(results)


def _against_baseline(results: Results) -> str:
    study, groups = results.study, _groups(results)
    mean = results.mean(study.baseline)
    if not results.others:
        return (
            f"{quoted(study.baseline)} reaches a {_label(results)} of {_value(results, study.baseline)} over "
            f"{_seeds(mean.n)}; there is no other variant to compare it with."
        )
    if not mean.n:
        return f"Nothing can be compared yet: no run of the baseline, {study.baseline}, has finished."
    tested = [results.versus[variant].n for variant in results.others]
    head = f"Compared with {quoted(study.baseline)} ({_value(results, study.baseline)} {_label(results)}), "
    if max(tested) < 2:
        return head + _unreplicated(results)
    parts = [_group(results, word, variants) for word, variants in groups.items() if variants]
    return head + formatting.listing(parts) + f"; {_few(tested)} paired, Holm-adjusted tests at 5 %."


def _unreplicated(results: Results) -> str:
    """One seed: the numbers, and no word on what they mean."""
    known = [variant for variant in results.others if results.versus[variant].n]
    if not known:
        return "no other variant has finished on the same seed yet."
    best = results.best if results.best in known else known[0]
    return (
        f"{quoted(best)} reaches {_value(results, best)}, but a single seed says nothing of the spread: "
        "no variant can be called better, worse or equivalent."
    )


def _group(results: Results, word: str, variants: list[str]) -> str:
    """`sinusoidal and learned-1d are better (by 22.1 to 25.0 points)`."""
    many = len(variants) != 1
    named = names(variants, len(results.others))
    if many and word in ("better", "worse") and named[0].isdigit():
        most = _furthest(results, variants)
        return f"{named} are {word} ({_by(results, variants)}" + (f"; most of all {quoted(most)})" if most else ")")
    verb = "are" if many else "is"
    if word == "equivalent":
        return f"{named} {verb} equivalent (within ±{margin_text(results)})"
    if word == "not enough evidence":
        return f"for {named} there is not enough evidence either way{_unseen(results, variants)}"
    return f"{named} {verb} {word} ({_by(results, variants)})"


def _unseen(results: Results, variants: list[str]) -> str:
    """How large a difference these seeds could have missed."""
    scale = results.study.metric.scale
    known = [results.versus[variant].detectable * scale for variant in variants]
    known = [value for value in known if math.isfinite(value)]
    if not known:
        return ""
    if results.study.metric.is_share and max(known) >= scale:
        return " (with so few seeds any difference may go unseen)"
    return f" (one of up to {formatting.magnitude(max(known))}{results.study.metric.points} may well go unseen)"


def names(variants: list[str], total: int) -> str:
    """The variants' names, or how many they are where the names would fill a paragraph."""
    if len(variants) > NAMED or (len(variants) > 2 and sum(map(len, variants)) > LONGEST):
        return f"{len(variants)} of {total} variants"
    return formatting.listing([quoted(variant) for variant in variants])


def quoted(variant: str) -> str:
    """A name with commas in it, marked so that it reads as one in a list."""
    return f"“{variant}”" if "," in variant or " " in variant else variant


def _furthest(results: Results, variants: list[str]) -> str | None:
    """The variant with the largest difference; None where several share it."""
    away = {variant: abs(results.versus[variant].diff.value) for variant in variants}
    first, *others = [variant for variant in variants if math.isclose(away[variant], max(away.values()))]
    return None if others else first


def _by(results: Results, variants: list[str]) -> str:
    """`by 22.1 to 25.0 points`; the range where there are several."""
    metric = results.study.metric
    diffs = sorted(
        (abs(results.versus[variant].diff.value), _difference(results, results.versus[variant])) for variant in variants
    )
    low, high = diffs[0][1], diffs[-1][1]
    return f"by {low if low == high else f'{low} to {high}'}{metric.points}"


def _how_sure(results: Results) -> str:
    study = results.study
    if not results.others:
        mean = results.mean(study.baseline)
        if mean.n > 1:
            percent = " %" if study.metric.is_share else ""
            interval = f"The 95 % interval of that mean is {formatting.bounds(mean, study.metric.scale, signed=False)}{percent}."
            published = [
                f"Published: {result.claim.statement} {result.verdict.capitalize()}: {evidence_text(result)}"
                for result in results.claims
            ]
            return " ".join([interval, *published])
        return "One run gives no interval; train more with the same command and a higher --seeds."
    baseline = study.runs[study.runs["variant"] == study.baseline]
    if not results.mean(study.baseline).n and baseline["status"].isin(ENDED).all():
        return f"All {len(baseline)} of them ended without a result: more seeds alone will not help, another baseline would."
    if max((results.versus[variant].n for variant in results.others), default=0) < 2:
        return (
            "Differences need at least two seeds for an interval and three for a fair verdict; train more with the "
            "same command and a higher --seeds."
        )
    if results.factorial is not None:
        return _by_factor(results, results.factorial)
    if len(results.others) == 1:
        return _one_difference(results, results.versus[results.others[0]])
    if not results.pairs:
        return (
            f"{quoted(results.best)} has the best mean, {_value(results, results.best)}; there are too many "
            "variants to compare each with each."
        )
    return _among_others(results)


def _one_difference(results: Results, compared: Comparison) -> str:
    metric, unit = results.study.metric, results.study.metric.points
    interval = formatting.bounds(compared.diff, metric.scale)
    if not math.isfinite(compared.detectable):
        return (
            f"The difference is the same on every one of {_seeds(compared.n)}, so no interval can be given; more seeds "
            "would show its spread."
        )
    line = f"The difference is {_difference(results, compared, signed=True)}{unit}, 95 % interval {interval}; "
    if compared.verdict == "not enough evidence":
        return line + _would_decide(compared.seeds_needed, compared.n)
    small = formatting.number(
        compared.detectable * metric.scale, formatting.decimals(compared.detectable * metric.scale)
    )
    return line + f"{_seeds(compared.n)} could have detected one of {small}{unit} with 80 % power."


def _by_factor(results: Results, fitted: Factorial) -> str:
    """Which factors move the metric, averaged over the others, and whether they simply add up."""
    tested = fitted.tested()
    said = [_main_effect(results, fitted, factor, tested[(factor,)]) for factor in fitted.factors]
    crossed = {term: p for term, p in tested.items() if len(term) == 2}
    for term, p in crossed.items():
        if p <= ALPHA:
            said.append(
                f"the effect of {factor_tables.factor_name(term[0])} depends on {factor_tables.factor_name(term[1])} (interaction "
                f"p {_p(p)})"
            )
    if crossed and not any(p <= ALPHA for p in crossed.values()):
        said.append("no interaction between factors is shown")
    absent = [
        level
        for factor in fitted.factors
        for level in results.study.factors[factor]
        if level not in map(level_text, fitted.levels[factor])
    ]
    head = "Averaged over the other factors" + (
        f" (on the complete grid, without {formatting.listing(absent)})" if absent else ""
    )
    return f"{head}, " + "; ".join(said) + "."


def _main_effect(results: Results, fitted: Factorial, factor: str, p: float) -> str:
    name, metric = factor_tables.factor_name(factor), fitted.metric
    if not p <= ALPHA:
        return f"for an effect of {name} there is not enough evidence" + (f" (p {_p(p)})" if math.isfinite(p) else "")
    levels = sorted(fitted.of(factor), key=lambda effect: effect.mean.value, reverse=not metric.lower_is_better)
    best, worst = levels[0], levels[-1]
    extreme = "lowest" if metric.lower_is_better else "highest"
    apart = abs(best.mean.value - worst.mean.value) * metric.scale
    places = formatting.decimals(formatting.half_width(best.effect) * metric.scale)
    return (
        f"{name} matters (p {_p(p)}): {best.levels[0]} has the {extreme} mean, "
        f"{formatting.number(apart, places)}{metric.points} from {worst.levels[0]}"
    )


def _p(p: float) -> str:
    text = formatting.p_value(p)
    return text if text.startswith("<") else f"= {text}"


def _among_others(results: Results) -> str:
    """What the pairs without the baseline say."""
    others = {pair: compared for pair, compared in results.pairs.items() if results.study.baseline not in pair}
    open_ = {pair: compared for pair, compared in others.items() if compared.verdict == "not enough evidence"}
    equal = [pair for pair, compared in others.items() if compared.verdict == "equivalent"]
    decided = {pair: compared for pair, compared in others.items() if compared.verdict in ("better", "worse")}
    head = f"Among the other {_spelt(len(results.others))}, "
    said = []
    if len(decided) == len(others):
        said.append("every difference is told apart")
    elif decided:
        said.append(_told_apart(decided, len(others)))
    if len(equal) == len(others):
        said.append(f"all are equivalent to each other (within ±{margin_text(results)})")
    elif equal:
        pairs = _pairs(equal) if len(equal) <= 3 else f"{len(equal)} of {len(others)} pairs"
        said.append(f"{pairs} are equivalent (within ±{margin_text(results)})")
    if open_:
        said.append(_undecided(results, open_, len(others)))
    return head + "; ".join(said) + "."


def _told_apart(decided: dict[tuple[str, str], Comparison], total: int) -> str:
    if len(decided) > 3:
        return f"{len(decided)} of {total} pairs are told apart"
    ranked = [(a, b) if compared.verdict == "better" else (b, a) for (a, b), compared in decided.items()]
    phrases = [f"{quoted(good)} is better than {quoted(bad)}" for good, bad in ranked]
    return formatting.listing(phrases)


def _undecided(results: Results, open_: dict[tuple[str, str], Comparison], total: int) -> str:
    what = (
        "any pair"
        if len(open_) == total > 1
        else _pairs(list(open_), "or")
        if len(open_) <= 3
        else f"{len(open_)} of {total} pairs"
    )
    needs = [compared.seeds_needed for compared in open_.values()]
    tested = [compared.n for compared in open_.values()]
    head = f"{_few(tested)} cannot decide {what}"
    if max(tested) < FEW_SEEDS:
        return head + _TOO_FEW
    if any(need is None for need in needs):
        known = [need for need in needs if need is not None]
        return head + (
            f"; {min(known)} would settle the clearest, no practical number all of them"
            if known
            else "; no practical number of seeds would"
        )
    return head + (
        f"; about {max(needs)} would"
        if len(set(needs)) == 1
        else f"; about {min(needs)} would settle the clearest and {max(needs)} all of them"
    )


def _would_decide(needed: int | None, n: int) -> str:
    if n < FEW_SEEDS:
        return f"{_seeds(n)} cannot decide{_TOO_FEW}."
    return f"{_seeds(n)} cannot decide; " + (
        f"about {needed} would." if needed is not None else "no practical number of seeds would."
    )


def _pairs(pairs: list[tuple[str, str]], last: str = "and") -> str:
    return formatting.listing(
        [f"{'between ' * (last == 'or')}{quoted(a)} and {quoted(b)}" for a, b in pairs],
        "as well as" if last == "and" else "or",
    )


def _groups(results: Results) -> dict[str, list[str]]:
    words = ("better", "worse", "equivalent", "not enough evidence")
    return {word: [variant for variant in results.others if results.versus[variant].verdict == word] for word in words}


def _value(results: Results, variant: str) -> str:
    metric = results.study.metric
    text = formatting.with_interval(results.mean(variant), metric.scale).partition(" ±")[0]
    return text + (" %" if metric.is_share else "")


def _difference(results: Results, compared: Comparison, signed: bool = False) -> str:
    metric = results.study.metric
    diff = compared.diff.value * metric.scale
    places = formatting.decimals(formatting.half_width(compared.diff) * metric.scale)
    return formatting.number(diff if signed else abs(diff), places, signed)


def _label(results: Results) -> str:
    return results.study.metric.label


def _spelt(n: int) -> str:
    """A small number as a word, so that it does not run into the next one: "the other three, 5 seeds"."""
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[n] if n < len(words) else str(n)


def _few(counts: list[int]) -> str:
    return _seeds(max(counts)) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)} seeds"


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"
