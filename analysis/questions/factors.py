"""Which factors matter, and do their effects depend on each other?"""

from collections.abc import Mapping, Sequence
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
from analysis.verdicts import Factorial
from analysis.write.document import Section
from analysis.write.table import Column, Key, Table, Value
from experiments.metric import Metric

HEADING = "Factors and interactions"
MOST_INTERVALS = 2  # factors up to which the answer has the interval of each
ADJUSTED = (
    "Intervals hold for all effects of factors and all pairs of variants together, and verdicts are read from them."
)
CAPTIONS = {
    "contrasts": "Effect of each factor, averaged over the other factors: the difference from one level to another.",
    "interactions": "Interactions: what each combination of the levels of two factors has beyond the effects of both.",
}


def question(findings: Findings) -> Section | None:
    """The effects of the factors; nothing where they are not tested."""
    model = findings.factors.model
    if model is None:
        return None
    contrasts, interactions = factor_tables(model, findings)
    effects = Plot("main-effects", lambda: draw_forest(contrasts.forests), "The rows of the table.", beside=True)
    brief = _brief(findings, len(model.factors) <= MOST_INTERVALS)
    items = [contrasts, effects, *_grid(findings), interactions]
    return Section("factors", HEADING, items, [_interactions(findings)], [brief], title=title(findings))


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
    """The finding in one line: the largest shown effect of each factor."""
    model, names, metric = findings.factors.model, findings.variants.factors, findings.means.metric
    assert model is not None
    shown = [effect for factor in model.factors if (effect := _largest(model, factor))["verdict"] == "shown"]
    places = words.shared_places([effect["adjusted"] for effect in shown], metric)
    said = [f"{_of(one, names)} {words.points(one['diff'], metric, True, places)}" for one in shown]
    return "; ".join(said) or f"No effect of {words.listing(list(names.values()), 'or')} is shown"


def _brief(findings: Findings, intervals: bool) -> str:
    """The answer in one sentence: the main effects, and which depend on each other."""
    model, names = findings.factors.model, _names(findings.variants.factors)
    assert model is not None
    shown = [pair for pair in combinations(model.factors, 2) if model.verdicts["+".join(pair)] == "shown"]
    depends = [f"{names[a]} depends on {names[b]}" for a, b in shown]
    said = [f"the effect of {' and of '.join(depends)}"] if depends else []
    return f"{'; '.join([*_main_effects(findings, intervals), *said])}."


def _main_effects(findings: Findings, intervals: bool) -> list[str]:
    """Clauses on the main effects."""
    model, names, metric = findings.factors.model, _names(findings.variants.factors), findings.means.metric
    assert model is not None
    largest = [_largest(model, factor) for factor in model.factors]
    places = words.shared_places([effect["adjusted"] for effect in largest], metric)
    heads = {"shown": f"Main effects on {metric.label}", "not shown": "undecided"}
    effects = {
        head: [_effect(e, names, metric, places, intervals) for e in largest if e["verdict"] == word]
        for word, head in heads.items()
    }
    parts = [f"{head}: {', '.join(texts)}" for head, texts in effects.items() if texts]
    if parts and not effects[heads["shown"]]:
        parts[0] = f"{heads['shown']}, {parts[0]}"
    if model.seeds_left_out:
        lost = ", ".join(map(str, model.seeds_left_out))
        parts.append(f"seeds left out for lack of a finished run in some combination: {lost}")
    if sensitive := [names[term] for term in model.failure_sensitive]:
        why = "counted at chance level"
        parts.append(f"shown by the finished runs alone, but not with failed runs {why}: {words.listing(sensitive)}")
    if missing := [names[term] for term, verdict in model.verdicts.items() if verdict == "not tested"]:
        parts.append(f"not tested ({_reason(findings)}): {words.listing(missing)}")
    return [words.capital(parts[0]), *parts[1:]]


def _reason(findings: Findings) -> str:
    """Why there is no interval of an effect."""
    chance, none = findings.policy.chance, f"no spread over the {findings.policy.unit}s"
    if chance.unknown:
        return "failed runs, chance level unknown"
    return f"failed runs or {none}" if chance.failed else none


def _effect(effect: Mapping[str, Any], names: Mapping[str, str], metric: Metric, places: int, interval: bool) -> str:
    """`depth 2 → 4 +1.2 points (largest of 3 differences, 95 % CI 0.5 to 1.9)`"""
    most = f"largest of {effect['count']} differences, " if effect["count"] > 1 else ""
    size = f"{_of(effect, names)} {words.points(effect['diff'], metric, True, places)}"
    return size + f" ({most}{words.interval(effect['adjusted'], metric, True, places)})" * interval


def _of(effect: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return f"{names[effect['factor']]} {effect['reference']} → {effect['level']}"


def _interactions(findings: Findings) -> str:
    """Which effects depend on each other, and which pairs of factors are undecided."""
    model, names = findings.factors.model, findings.variants.factors
    assert model is not None
    pairs = {pair: model.verdicts["+".join(pair)] for pair in combinations(model.factors, 2)}
    said = [
        f"the effect of {names[a]} depends on {names[b]}" for (a, b), verdict in pairs.items() if verdict == "shown"
    ]
    if said:
        said[-1] += ", so its main effect is only an average over different effects"
    missing = [f"{names[a]} and {names[b]}" for (a, b), verdict in pairs.items() if verdict == "not shown"]
    said += [f"no interaction is shown: {', '.join(missing)}"] if missing else []
    return f"{words.capital('; '.join(said))}." if said else ""


def factor_tables(model: Factorial, findings: Findings) -> list[Table]:
    """The tables of the section: the differences between levels, and the interactions."""
    metric, names = findings.means.metric, _names(findings.variants.factors)
    name, levels = (
        partial(Column, value=lambda row: names[row["factor"]], key=True),
        partial(Column, value=_levels, key=True),
    )
    difference, effect = (signed_column(metric, label, "adjusted") for label in ("difference", "effect"))
    verdict = Column("verdict", "verdict", mark=lambda row: verdict_mark(row["verdict"]))
    p = Column("p (adjusted)", "p_adjusted", words.p_values, detail=True)
    drawn = replace(bars(findings.policy, findings.variants), estimate="adjusted", verdict="verdict", zero="0")
    rows = model.contrasts.to_dict("records")
    rows.sort(key=lambda row: (row["verdict"] != "shown", -abs(row["diff"].value)))
    effects = model.interactions.to_dict("records")
    shown = {
        "contrasts": (rows, (name("factor"), levels("from → to"), replace(difference, bars=drawn), verdict, p)),
        "interactions": (effects, (name("factors"), levels("levels"), effect, verdict, p)),
    }
    zero = "An effect is zero for all combinations if there is no interaction."
    notes = {"contrasts": (ADJUSTED,), "interactions": (f"{zero} {ADJUSTED}",)}
    return [
        Table(table, CAPTIONS[table], rows, columns, _fields(rows), notes[table], folded=table == "interactions")
        for table, (rows, columns) in shown.items()
    ]


def _levels(row: Mapping[str, Any]) -> str:
    """`2 → 4`, or the levels of a combination."""
    level = str(row["level"]).replace(" x ", " × ")
    return f"{row['reference']} → {level}" if "reference" in row else level


def _fields(rows: Sequence[Mapping[str, Any]]) -> dict[Key, Value]:
    """What the CSV of effects holds: of the interval for all effects together, its ends."""
    ends: dict[Key, Value] = {
        "adjusted_low": lambda row: row["adjusted"].low,
        "adjusted_high": lambda row: row["adjusted"].high,
    }
    return {name: name for row in rows[:1] for name in row if name != "adjusted"} | ends


def _names(factors: Mapping[str, str]) -> dict[str, str]:
    """Each factor and each pair of factors -> what the study calls it."""
    return {**factors, **{f"{a}+{b}": f"{factors[a]} × {factors[b]}" for a, b in combinations(factors, 2)}}


def _largest(model: Factorial, factor: str) -> dict[str, Any]:
    """The largest difference of two levels; of those that are shown if there are any. `count`: of how many."""
    contrasts = model.contrasts[model.contrasts["factor"] == factor].to_dict("records")
    shown = [contrast for contrast in contrasts if contrast["verdict"] == "shown"]
    tested = [contrast for contrast in contrasts if contrast["verdict"] != "not tested"]
    largest = max(shown or tested or contrasts, key=lambda contrast: abs(contrast["diff"].value))
    return largest | {"count": len(contrasts)}
