"""State the main effects and interactions of a study of several factors in sentences. Plain text, no markup."""

from __future__ import annotations

import math
from collections.abc import Mapping

from analysis import formatting
from analysis.formatting import factor_name
from analysis.report.phrases import alpha_text, by_points, change_by_diverged, higher, interval_text
from analysis.results.policy import ALPHA
from analysis.results.study_results import StudyResults
from analysis.sources.settings import level_text
from analysis.stats import Effect, Factorial
from experiments.metric import Metric

MOST_LEVELS = 4  # levels of the second factor for which an interaction is spelled out


def factor_paragraphs(results: StudyResults) -> tuple[str, ...]:
    """Return a paragraph of main effects and one of interactions; the second only if the model has interactions."""
    fitted = results.factorial
    if fitted is None:
        return ()
    names = results.study.names
    tested = {term: test.p_holm for term, test in fitted.terms.items()}
    seeds = formatting.plural(len(fitted.seeds), "seed")
    adjusted = "p adjusted for all tests of factors and pairs"
    if results.policy.plan:
        adjusted += " and for the planned looks, intervals adjusted for the planned looks only"
    else:
        adjusted += ", intervals not adjusted"
    model = f"{seeds}, t tests over the seeds, {adjusted}, alpha = {alpha_text()}"
    other = "the other factor" if len(fitted.factors) == 2 else "the other factors"
    effects = "; ".join(_main_effect(fitted, factor, tested[(factor,)], names) for factor in fitted.factors)
    main = f"Main effects, averaged over {other}{_absent(results, fitted)}: {effects}. {model}.{_lost(results, fitted)}"
    crossed: dict[tuple[str, ...], float] = {term: p for term, p in tested.items() if len(term) == 2}
    return (main, _interactions(fitted, crossed, names)) if crossed else (main,)


def _main_effect(fitted: Factorial, factor: str, p: float, names: Mapping[str, str]) -> str:
    """`depth = 2 has a higher test accuracy than depth = 1, by 5.0 points (95 % CI 4.5 to 5.5, p < 0.001)`"""
    name, metric = factor_name(factor, names), Metric(fitted.metric)
    if not p <= ALPHA:
        return (
            f"{name} has no significant effect{f' ({_two_levels(fitted, factor)}{_p(p)})' if math.isfinite(p) else ''}"
        )
    means = fitted.means[factor,]
    levels = sorted(means, key=lambda level: means[level].value, reverse=not metric.lower_is_better)
    (best,), (worst,) = levels[0], levels[-1]
    contrast = _contrast(fitted, factor, best, worst)
    is_shown = contrast.p_holm <= ALPHA
    if not is_shown:  # their means differ most, but another pair of levels is the one that differs significantly
        contrast = min(fitted.effects[factor,], key=lambda c: c.p_holm)
        (best,), (worst,) = sorted((contrast.levels, contrast.reference), key=levels.index)
    detail = f"by {by_points(contrast.diff, metric)} ({interval_text(contrast.diff, metric)}, {_p(contrast.p_holm)})"
    if len(levels) == 2 or not is_shown:
        return f"{name} = {best} has a {higher(metric, True)} {metric.label} than {name} = {worst}, {detail}"
    extremes = ("lowest", "highest") if metric.lower_is_better else ("highest", "lowest")
    return f"{name} = {best} has the {extremes[0]} {metric.label} and {name} = {worst} the {extremes[1]}; they differ {detail}"


def _two_levels(fitted: Factorial, factor: str) -> str:
    """`logits → softmax: −0.1 points, 95 % CI −1.4 to 1.1, ` for a factor of two levels; empty for any other factor."""
    metric, found = Metric(fitted.metric), fitted.effects[factor,]
    if len(found) != 1:
        return ""
    (c,) = found
    change = f"{c.reference[0]} → {c.levels[0]}: {by_points(c.diff, metric, signed=True)}"
    return f"{change}, {interval_text(c.diff, metric, signed=True)}, "


def _contrast(fitted: Factorial, factor: str, a: object, b: object) -> Effect:
    return next(c for c in fitted.effects[factor,] if {*c.levels, *c.reference} == {a, b})


def _interactions(fitted: Factorial, crossed: dict[tuple[str, ...], float], names: Mapping[str, str]) -> str:
    shown = [_interaction(fitted, term, p, names) for term, p in crossed.items() if p <= ALPHA]
    if shown:
        few = len(shown) == 1
        advice = f"So the main effects of {'these two factors' if few else 'these factors'} are only averages over different effects."
        return f"{'Interaction' if few else 'Interactions'}: {' '.join(shown)} {advice}"
    if len(crossed) == 1:
        ((term, p),) = crossed.items()
        detail = f" ({_p(p)})" if math.isfinite(p) else ""
        return f"Interaction: no significant interaction of {factor_name(term[0], names)} and {factor_name(term[1], names)}{detail}."
    return "Interactions: no pair of factors has a significant interaction."


def _interaction(fitted: Factorial, term: tuple[str, ...], p: float, names: Mapping[str, str]) -> str:
    """`the effect of depth depends on head (p < 0.001): from 1 to 2 it is +10.0 points for logits and 0.0 for softmax.`"""
    first, second = factor_name(term[0], names), factor_name(term[1], names)
    said = f"the effect of {first} depends on {second} ({_p(p)})"
    levels, others = (fitted.levels[factor] for factor in term)
    if len(levels) != 2 or len(others) > MOST_LEVELS:
        return f"{said}."
    means = fitted.means[term]
    metric, (low, high) = Metric(fitted.metric), levels
    places = formatting.decimals(max(formatting.half_width(mean) for mean in means.values()) * metric.scale)
    changes = [
        f"{formatting.number((means[high, other].value - means[low, other].value) * metric.scale, places, signed=True)}"
        f"{metric.points} with {second} = {other}"
        for other in others
    ]
    return f"{said}: the difference {first} = {high} − {first} = {low} is {formatting.listing(changes)}."


def _absent(results: StudyResults, fitted: Factorial) -> str:
    """Which levels the model leaves out because not all of their combinations were run."""
    absent = [
        level
        for factor in fitted.factors
        for level in results.study.factors[factor]
        if level not in map(level_text, fitted.levels[factor])
    ]
    return f" (without {formatting.listing(absent)}, which lack some combinations)" if absent else ""


def _lost(results: StudyResults, fitted: Factorial) -> str:
    """Which seeds the model leaves out, and which of its results depend on diverged runs."""
    said = ""
    if lost := fitted.seeds_left_out:
        verb = "are" if len(lost) > 1 else "is"
        seeds = f"Seed{'s' * (len(lost) > 1)} {formatting.listing(list(map(str, lost)))}"
        said += f" {seeds} {verb} left out, because a combination has no finished run."
    if terms := results.factors.divergence_sensitive_terms:
        names = [" and ".join(factor_name(factor, results.study.names) for factor in term) for term in terms]
        several = len(names) > 1
        subject = f"The result{'s' * several} on {formatting.listing(names)}"
        said += f" {change_by_diverged(results, subject, several)}"
    return said


def _p(p: float) -> str:
    text = formatting.p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
