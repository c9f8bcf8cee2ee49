"""Which factors matter, and do their effects depend on each other?"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd

from analysis import words
from analysis.figures.factors import draw_grid, draw_pairs, drawn_pairs
from analysis.figures.forest import draw_forest
from analysis.figures.style import Plot
from analysis.findings import Findings
from analysis.findings.columns import bars, signed_column, verdict_mark
from analysis.verdicts import Factorial
from analysis.write.document import Section
from analysis.write.table import Column, Key, Table, Value
from experiments.metric import Metric

HEADING = "Factors and interactions"
MOST_LEVELS = 4  # levels of the other factor for which the answer lists the effect of a factor of two levels
FOLDED = ("effects", "interactions", "terms")
ADJUSTED = (
    "Intervals hold for all effects of factors and all pairs of variants together, and verdicts are read from them."
)
CAPTIONS = {
    "contrasts": "Effect of each factor, averaged over the other factors: the difference from one level to another.",
    "effects": "Mean of each level, averaged over all combinations of the other factors with equal weights.",
    "simple-effects": "Does the effect of one factor depend on another? The effect of a factor at each level of the "
    "other.",
    "interactions": "Interactions: each combination of the levels of two factors.",
    "terms": "Tests of factors and interactions.",
}


def question(findings: Findings) -> Section | None:
    """The effects of the factors; nothing where they are not tested."""
    model, names, metric = findings.factors.model, findings.variants.factors, findings.means.metric
    if model is None:
        return None
    contrasts, levels, *others = factor_tables(model, findings)
    effects = Plot("main-effects", lambda: draw_forest(contrasts.forests), "The rows of the table.", beside=True)
    items: list[Any] = [contrasts, effects, levels]
    if drawn_pairs(model):
        caption = (
            f"Every pair of factors: mean {metric.label} of each combination, averaged over any other factors, with "
            f"{words.CONFIDENCE} intervals. Parallel lines mean no interaction: the effect of one factor is the same "
            "at each level of the other."
        )
        items.append(Plot("interactions", lambda: draw_pairs(model, names, metric), caption))
    else:
        others += _grid(findings)
    brief = words.fitting([_brief(findings, form) for form in (True, False)])
    said = [_interactions(model, _names(names), metric)]
    return Section("factors", HEADING, [*items, *others], said, [brief], title=title(findings))


def untested(findings: Findings) -> Section | None:
    """The grid of the factors, and why their effects are not tested; nothing where they are."""
    reason = findings.factors.skipped_reason.replace("factors: ", "")
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
    verdict = dict(zip(model.terms["term"], model.terms["verdict"]))
    depends = [
        f"{names[a]} depends on {names[b]}" for a, b in combinations(model.factors, 2) if verdict[f"{a}+{b}"] == "shown"
    ]
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
    if sensitive := [names[term] for term in findings.factors.failure_sensitive_terms]:
        why = "counted at chance level"
        parts.append(f"shown by the finished runs alone, but not with failed runs {why}: {words.listing(sensitive)}")
    if missing := [names[term] for term in model.terms["term"][model.terms["verdict"] == "not tested"]]:
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


def _interactions(model: Factorial, names: Mapping[str, str], metric: Metric) -> str:
    verdict = dict(zip(model.terms["term"], model.terms["verdict"]))
    said, missing = list[str](), list[str]()
    for a, b in combinations(model.factors, 2):
        if (found := verdict[f"{a}+{b}"]) != "shown":
            missing += [f"{names[a]} and {names[b]}"] if found == "not shown" else []
            continue
        simple = _simple(model, a, b)
        places = words.shared_places([one["diff"] for one in simple], metric)
        each = [
            f"{words.points(one['diff'], metric, True, places)} with {names[b]} = {one['other_level']}"
            for one in simple
        ]
        sizes = f": {_of(simple[0], names)} {', '.join(each)}" if simple else ""
        said.append(f"the effect of {names[a]} depends on {names[b]}{sizes}")
    if said:
        said[-1] += ", so its main effect is only an average over different effects"
    said += [f"no interaction is shown: {', '.join(missing)}"] if missing else []
    return f"{words.capital('; '.join(said))}." if said else ""


def factor_tables(model: Factorial, findings: Findings) -> list[Table]:
    """Return all tables of the section."""
    metric, names = findings.means.metric, _names(findings.variants.factors)
    means = pd.DataFrame(
        {"factor": factor, "level": level, "mean": estimate}
        for factor in model.factors
        for (level,), estimate in model.means[factor,].items()
    )

    def name(label: str) -> Column:
        return Column(label, lambda row: names[row["term" if "term" in row else "factor"]], key=True)

    levels, alone = partial(Column, value=_levels, key=True), signed_column(metric, "difference", "diff")
    difference, effect = (signed_column(metric, label, "adjusted") for label in ("difference", "effect"))
    at = Column("with", lambda row: f"{names[row['other_factor']]} = {row['other_level']}", key=True)
    verdict = Column("verdict", "verdict", mark=lambda row: verdict_mark(row["verdict"]))
    p = Column("p (adjusted)", "p_adjusted", words.p_values, detail=True)
    interaction = Column("interaction", "verdict"), replace(p, value="interaction_p_adjusted")
    mean = Column(f"mean {metric.label}{metric.unit}", "mean", words.intervals(metric))
    note = "pairs of levels, or distinct effects of combinations"
    contrasts = Column("contrasts", "contrasts", words.counts, note=note)
    of = model.contrasts.to_dict("index")
    by_size = sorted(of, key=lambda at: (of[at]["verdict"] != "shown", -abs(of[at]["diff"].value)))
    drawn = replace(bars(findings.policy, findings.variants), estimate="adjusted", verdict="verdict", zero="0")
    tables = {
        "contrasts": (
            model.contrasts.loc[by_size],
            (name("factor"), levels("from → to"), replace(difference, bars=drawn), verdict, p),
        ),
        "effects": (means, (name("factor"), levels("level"), mean)),
        "simple-effects": (model.simple, (name("effect of"), levels("from → to"), at, alone, *interaction)),
        "interactions": (model.interactions, (name("factors"), levels("levels"), mean, effect, verdict, p)),
        "terms": (model.terms, (name("factor or interaction"), contrasts, verdict, p)),
    }
    notes = _notes(model, findings.policy.looks.several)
    return [
        Table(
            table,
            CAPTIONS[table],
            frame.to_dict("records"),
            columns,
            _fields(frame),
            notes.get(table, ()),
            folded=table in FOLDED,
        )
        for table, (frame, columns) in tables.items()
    ]


def _levels(row: Mapping[str, Any]) -> str:
    """`2 → 4`, or the levels of a combination."""
    level = str(row["level"]).replace(" x ", " × ")
    return f"{row['reference']} → {level}" if "reference" in row else level


def _fields(frame: pd.DataFrame) -> dict[Key, Value]:
    """What the CSV of a frame of the model holds: of the interval for all effects together, its ends."""
    ends: dict[Key, Value] = {
        "adjusted_low": lambda row: row["adjusted"].low,
        "adjusted_high": lambda row: row["adjusted"].high,
    }
    return {name: name for name in frame if name != "adjusted"} | (ends if "adjusted" in frame else {})


def _notes(model: Factorial, planned: bool) -> dict[str, tuple[str, ...]]:
    alone = words.alone(planned)
    over = f", each over {words.plural(len(model.seeds), 'seed')}" if model.seeds else ""
    return {
        "contrasts": (ADJUSTED,),
        "simple-effects": (
            "The verdict is that of the interaction: if it is not shown, a dependence is not shown, even if the "
            f"differences look unequal. Intervals are at {words.CONFIDENCE} and {alone}.",
        ),
        "interactions": (
            "Effect: the mean of the combination − the mean that the two main effects predict. It is zero for all "
            f"combinations if there is no interaction. {ADJUSTED}",
        ),
        "terms": (f"Contrasts: the number of differences{over}. A factor or interaction is shown if one of them is.",),
    }


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


def _simple(model: Factorial, factor: str, other: str) -> list[dict[str, Any]]:
    """The effect of a factor of two levels at each level of another one; empty where these are many."""
    if len(model.levels[factor]) > 2 or len(model.levels[other]) > MOST_LEVELS:
        return []
    return model.simple[(model.simple["factor"] == factor) & (model.simple["other_factor"] == other)].to_dict("records")
