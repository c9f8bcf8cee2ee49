"""Which factors matter, and do their effects depend on each other?"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from analysis import words
from analysis.figures.forest import draw_forest
from analysis.figures.style import Plot
from analysis.figures.values import draw_grid
from analysis.findings import Findings
from analysis.findings.columns import bars, signed_column, verdict_mark
from analysis.verdicts import Effect, Factorial
from analysis.write.document import Section
from analysis.write.table import Column, Key, Table, Value

HEADING = "Factors and interactions"
MOST_INTERVALS = 2  # factors up to which the answer has the interval of each
ADJUSTED = (
    "Intervals hold for all effects of factors and all pairs of variants together, and verdicts are read from them."
)
CONTRASTS = "Effect of each factor, averaged over the other factors: the difference from one level to another."
INTERACTIONS = "Interactions: what each combination of the levels of two factors has beyond the effects of both."


def question(findings: Findings) -> Section | None:
    """The effects of the factors; nothing where they are not tested."""
    if findings.factors.model is None:
        return None
    contrasts, interactions = factor_tables(findings)
    effects = Plot("main-effects", lambda: draw_forest(contrasts.forests), "The rows of the table.", beside=True)
    items = [contrasts, effects, *_grid(findings), interactions]
    return Section("factors", HEADING, items, [_interactions(findings)], [_brief(findings)], title=title(findings))


def untested(findings: Findings) -> Section | None:
    """The grid of the factors, and why their effects are not tested; nothing where they are."""
    reason = findings.factors.skipped_reason
    if findings.factors.model is not None:
        return None
    said = [f"{HEADING} are not tested: {reason}."] if reason else []
    return Section("factors", HEADING, _grid(findings), said, answer=said)


def _grid(findings: Findings) -> list[Any]:
    """The means of the first two factors as a heat map, where both vary."""
    variants, means = findings.variants, findings.means
    measured = [variant for variant in variants.names if means.of(variant).n]
    levels = variants.levels
    if levels is None or levels.loc[measured].iloc[:, :2].nunique().min() < 2:
        return []
    values = {variant: mean.value for variant, mean in means.of_variants.items()}
    caption = (
        f"Mean {means.metric.label} of each combination of the first two factors, averaged over any other factors. A "
        "cell is empty where no run has finished."
    )
    return [Plot("grid", lambda: draw_grid(levels, values, variants.factors, means.metric), caption)]


def title(findings: Findings) -> str:
    """The finding in one line: the largest shown effect of each factor; empty where none is shown."""
    names, metric = _names(findings.variants.factors), findings.means.metric
    shown = [effect for effect in _largest(findings) if effect.verdict == "shown"]
    places = words.shared_places([effect.adjusted for effect in shown], metric)
    said = [f"{_of(effect, names)} {words.points(effect.alone, metric, True, places)}" for effect in shown]
    return "; ".join(said)


def _brief(findings: Findings) -> str:
    """The answer in one sentence: the main effects, and which depend on each other."""
    names = findings.variants.factors
    depends = [f"{names[a]} depends on {names[b]}" for a, b in _pairs(findings, "shown")]
    said = [f"the effect of {' and of '.join(depends)}"] * bool(depends)
    return f"{'; '.join([*_main_effects(findings), *said])}."


def _main_effects(findings: Findings) -> list[str]:
    """Clauses on the main effects."""
    model, names, metric = _model(findings), _names(findings.variants.factors), findings.means.metric
    largest, head = _largest(findings), f"Main effects on {metric.label}"
    places = words.shared_places([effect.adjusted for effect in largest], metric)

    def text(effect: Effect) -> str:
        """`depth 2 → 4 +1.2 points (largest of 3 differences, 95 % CI 0.5 to 1.9)`"""
        count = sum(other.term == effect.term for other in model.contrasts)
        most = f"largest of {count} differences, " if count > 1 else ""
        interval = f" ({most}{words.interval(effect.adjusted, metric, True, places)})"
        size = words.points(effect.alone, metric, True, places)
        return f"{_of(effect, names)} {size}" + interval * (len(largest) <= MOST_INTERVALS)

    shown, not_shown = (", ".join(text(e) for e in largest if e.verdict == word) for word in ("shown", "not shown"))
    parts = [f"{head}: {shown}"] if shown else []
    parts += [f"{'' if shown else f'{head}, '}undecided: {not_shown}"] if not_shown else []
    if left_out := findings.factors.seeds_left_out:
        lost = ", ".join(map(str, left_out))
        parts.append(f"seeds left out for lack of a finished run in some combination: {lost}")
    if sensitive := [names[term] for term in model.failure_sensitive]:
        why = "counted at chance level"
        parts.append(f"shown by the finished runs alone, but not with failed runs {why}: {words.listing(sensitive)}")
    if missing := [names[term] for term, verdict in model.verdicts.items() if verdict == "not tested"]:
        parts.append(f"not tested ({_reason(findings)}): {words.listing(missing)}")
    return [words.capital(parts[0]), *parts[1:]]


def _reason(findings: Findings) -> str:
    """Why there is no interval of an effect."""
    outcomes, none = findings.outcomes, f"no spread over the {findings.policy.unit}s"
    if outcomes.chance_unknown:
        return "failed runs, chance level unknown"
    return f"failed runs or {none}" if outcomes.has_failed else none


def _of(effect: Effect, names: Mapping[str, str]) -> str:
    return f"{names[effect.term]} {effect.reference} → {effect.level}"


def _interactions(findings: Findings) -> str:
    """Which effects depend on each other, and which pairs of factors are undecided."""
    names = findings.variants.factors
    said = [f"the effect of {names[a]} depends on {names[b]}" for a, b in _pairs(findings, "shown")]
    if said:
        said[-1] += ", so its main effect is only an average over different effects"
    missing = [f"{names[a]} and {names[b]}" for a, b in _pairs(findings, "not shown")]
    said += [f"no interaction is shown: {', '.join(missing)}"] if missing else []
    return f"{words.capital('; '.join(said))}." if said else ""


def _pairs(findings: Findings, verdict: str) -> list[tuple[str, str]]:
    """The pairs of factors whose interaction has this verdict."""
    verdicts = _model(findings).verdicts
    return [pair for pair in combinations(findings.variants.factors, 2) if verdicts["+".join(pair)] == verdict]


def factor_tables(findings: Findings) -> list[Table]:
    """The tables of the section: the differences between levels, and the interactions."""
    model, metric, names = _model(findings), findings.means.metric, _names(findings.variants.factors)
    name = partial(Column, value=lambda effect: names[effect.term], key=True)
    levels = partial(Column, value=_levels, key=True)
    difference, beyond = (signed_column(metric, label, "adjusted") for label in ("difference", "effect"))
    verdict = Column("verdict", "verdict", words.verdicts, mark=lambda effect: verdict_mark(effect.verdict))
    p = Column("p (adjusted)", "p_adjusted", words.p_values, detail=True)
    drawn = replace(bars(findings.policy, findings.variants), estimate="adjusted", verdict="verdict", zero="0")
    rows = sorted(model.contrasts, key=lambda effect: (effect.verdict != "shown", -abs(effect.alone.value)))
    difference = replace(difference, bars=drawn)
    tested: dict[Key, Value] = {
        **{name: name for name in ("p", "p_adjusted", "verdict", "verdict_of_finished")},
        **{"adjusted_low": "adjusted.low", "adjusted_high": "adjusted.high"},
    }
    fields: dict[Key, Value] = {"factor": "term", "level": "level"}
    of_levels = {**fields, "reference": "reference", "diff": "alone", **tested}
    columns = (name("factor"), levels("from → to"), difference, verdict, p)
    contrasts = Table("contrasts", CONTRASTS, rows, columns, of_levels, (ADJUSTED,))
    columns, of_cells = (name("factors"), levels("levels"), beyond, verdict, p), {**fields, "effect": "alone", **tested}
    notes = (f"An effect is zero for all combinations if there is no interaction. {ADJUSTED}",)
    return [contrasts, Table("interactions", INTERACTIONS, model.interactions, columns, of_cells, notes, folded=True)]


def _levels(effect: Effect) -> str:
    """`2 → 4`, or the levels of a combination."""
    level = effect.level.replace(" x ", " × ")
    return f"{effect.reference} → {level}" if effect.reference else level


def _names(factors: Mapping[str, str]) -> dict[str, str]:
    """Each factor and each pair of factors -> what the study calls it."""
    return {**factors, **{f"{a}+{b}": f"{factors[a]} × {factors[b]}" for a, b in combinations(factors, 2)}}


def _model(findings: Findings) -> Factorial:
    assert findings.factors.model is not None  # see `question`
    return findings.factors.model


def _largest(findings: Findings) -> list[Effect]:
    """The largest difference of two levels of each factor; of those that are shown, or else tested, if there are."""
    order = ("shown", "not shown", "not tested").index
    best: dict[str, Effect] = {}
    for effect in sorted(_model(findings).contrasts, key=lambda effect: -abs(effect.alone.value)):
        if effect.term not in best or order(effect.verdict) < order(best[effect.term].verdict):
            best[effect.term] = effect
    return [best[factor] for factor in findings.variants.factors]
