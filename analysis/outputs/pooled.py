"""`vit-report pool`: the difference of one pair of settings, over studies that share no run.

Verdicts of studies are not counted: a count hides how large an effect is, and small studies show little. Effects are
pooled.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from analysis import words
from analysis.figures.forest import draw_forest
from analysis.figures.style import Plot
from analysis.findings import Findings
from analysis.findings.columns import signed_column
from analysis.runs.runs import Runs
from analysis.verdicts import Estimate
from analysis.verdicts.estimates import UNKNOWN, mean
from analysis.write.document import Code, Document, Section
from analysis.write.table import Bars, Column, Table
from experiments.config import DEFAULTS, LOCATIONS, plain_settings
from experiments.errors import UserError, format_level
from experiments.metric import Metric
from vit.registry import nearest, site_of

EXPECTED = "expected SETTING=VALUE,... - SETTING=VALUE,..."
AFTER = "The pair and the studies were chosen after the results were known."
FEWEST_STUDIES = 3  # of which the spread between studies can be told
KIND, SITE = "model.pos_embed", "model.pos_site"
Settings = Mapping[str, Any]  # dotted path -> value


@dataclass(frozen=True)
class Effect:
    """The difference of the pair in one study: its variants, its learning rate and the differences by seed."""

    study: str
    a: str
    b: str
    rate: float
    by_seed: dict[int, float]

    @cached_property
    def mean(self) -> Estimate:
        """The mean difference with Student's t interval over the seeds."""
        return mean([*self.by_seed.values()])

    @property
    def above(self) -> int:
        """The number of seeds on which the difference is above zero."""
        return sum(diff > 0 for diff in self.by_seed.values())


@dataclass(frozen=True)
class Pooled:
    """The pair over studies.

    `seeds`: the mean over the seeds of these studies. `studies`: that of the studies' means, with Student's t interval
    over the studies; unknown below three.
    """

    pair: str
    metric: Metric
    effects: list[Effect]
    seeds: Estimate
    studies: Estimate


def pool(studies: Mapping[str, Findings], pair: str) -> Pooled:
    """Pool the difference of `pair`, "SETTING=VALUE,... - SETTING=VALUE,...", over studies (name -> findings).

    In each study, the pair is the two variants that have these settings and differ in nothing else. Raises `UserError`
    where a study has no such pair or several, where studies share runs or have different metrics, and where a run of
    the pair has no value.
    """
    sides = _sides(pair)
    metrics = dict.fromkeys(findings.means.metric for findings in studies.values())
    if len(metrics) > 1:
        raise UserError(f"pool: the studies have different metrics: {', '.join(metrics)}; choose one with --metric")
    for group in independent_groups({name: findings.study for name, findings in studies.items()}):
        if len(group) > 1:
            raise UserError(f"pool: {words.listing(group)} share runs and are one piece of evidence; name one of them")
    effects = [_effect(name, findings, *sides) for name, findings in studies.items()]
    over_studies = mean([effect.mean.value for effect in effects]) if len(effects) >= FEWEST_STUDIES else UNKNOWN
    every = mean([diff for effect in effects for diff in effect.by_seed.values()])
    return Pooled(pair, next(iter(metrics)), effects, every, over_studies)


def _sides(pair: str) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of both sides, as text."""
    sides = [[item.strip().partition("=") for item in side.split(",")] for side in pair.split(" - ")]
    if len(sides) != 2 or not all(path and equals and value for side in sides for path, equals, value in side):
        raise UserError(f"--pair: {pair!r} is not allowed: {EXPECTED}")
    for path in (path for side in sides for path, _, _ in side):
        if path not in DEFAULTS:
            raise UserError(f"--pair: {path!r} is not a setting; {nearest(path, list(DEFAULTS))}")
    a, b = ({path: value for path, _, value in side} for side in sides)
    return a, b


def _effect(name: str, findings: Findings, a: Settings, b: Settings) -> Effect:
    """The difference of a - b in a study."""
    settings = {variant: changed for variant, _, changed in computed(findings.study)}
    x_variants, y_variants = ([v for v, of in settings.items() if _has(of, side)] for side in (a, b))
    both = [(x, y) for x in x_variants for y in y_variants if x != y]
    pairs = [(x, y) for x, y in both if not _other_changes(settings[x], settings[y], {*a, *b})]
    if len(pairs) != 1:
        several = "; ".join(f"{x!r} - {y!r}" for x, y in pairs)
        why = f"several pairs: {several}; add settings" if pairs else "no pair that differs in these settings alone"
        raise UserError(f"pool: {name} has {why}")
    ((x, y),) = pairs
    values = findings.means.values[[x, y]][findings.outcomes.ended[[x, y]].any(axis=1)]
    if lost := list(values.index[values.isna().any(axis=1)]):
        raise UserError(f"pool: {name}: seed {lost[0]} of {x!r} or {y!r} has no value; leave the study out")
    rate = settings[x].get("optim.lr", DEFAULTS["optim.lr"])
    return Effect(name, x, y, rate, (values[x] - values[y]).to_dict())


def _has(settings: Settings, side: Settings) -> bool:
    return all(format_level(settings.get(path, DEFAULTS[path])) == text for path, text in side.items())


def _other_changes(x: Settings, y: Settings, named: Collection[str]) -> set[str]:
    """The settings that differ and are not named. The natural site of a kind follows from the kind."""
    both = [{p: v for p, v in of.items() if p != SITE or v != site_of(of.get(KIND, DEFAULTS[KIND]))} for of in (x, y)]
    return {path for path in {**both[0], **both[1]} if both[0].get(path) != both[1].get(path)} - {*named}


def independent_groups(studies: Mapping[str, Runs]) -> list[list[str]]:
    """The studies in groups. Two studies are in one group where a run of each has the same settings and the same seed.

    The precision, the compiler and what is evaluated do not count: they change the rounding, or nothing.
    """
    groups: list[tuple[list[str], set[Any]]] = []
    for name, study in studies.items():
        names, runs = [name], {(s, frozenset((p, str(v)) for p, v in of.items())) for _, s, of in computed(study)}
        for group in [group for group in groups if group[1] & runs]:
            names, runs = [*group[0], *names], group[1] | runs
            groups.remove(group)
        groups.append((names, runs))
    return [names for names, _ in groups]


def computed(study: Runs) -> list[tuple[str, int, dict[str, Any]]]:
    """Variant and seed of each finished run, and what it computes: its settings that differ from the defaults."""
    finished = study.of("finished")
    ignored = {*LOCATIONS, "seed", "train.precision", "train.compile"}
    paths = [p for p in finished.columns if p in DEFAULTS and p not in ignored and not p.startswith("eval.")]
    rows = finished[paths].to_dict("records")
    changed = [{p: v for p, v in plain_settings(row).items() if v not in (None, DEFAULTS[p])} for row in rows]
    return [*zip(finished["variant"], finished["seed"], changed, strict=True)]


def pooled_document(pooled: Pooled, command: str) -> Document:
    """The report: a row for each study and one for all, a figure, and the command."""
    metric, effects, seeds, studies = pooled.metric, pooled.effects, pooled.seeds, pooled.studies
    above, has_studies = sum(effect.above for effect in effects), studies.n > 0
    rows = [(effect.study, f"{effect.rate:g}", f"{effect.above} of {effect.mean.n}", effect.mean) for effect in effects]
    rows.append(("these studies, over seeds", "", f"{above} of {seeds.n}", seeds))
    rows += [("these studies, over studies", "", "", studies)] * has_studies
    records = [dict(zip(("study", "rate", "above", "difference"), row)) for row in rows]
    shown = Bars(metric, "difference", lambda row: "shown" if row["difference"].excludes_zero else "not shown")
    names = (Column("study", "study", key=True), Column("learning rate", "rate"), Column("seeds above 0", "above"))
    columns = (*names, replace(signed_column(metric, "difference", "difference"), bars=shown))
    caption = (
        f"{words.capital(metric.label)}, {pooled.pair}: mean over the seeds of each study and of these studies together"
        f"{', and mean of the means of studies' * has_studies}, with Student's {words.CONFIDENCE} intervals."
    )
    said = f"{pooled.pair}: {above} of {seeds.n} seeds above 0, {_text(seeds, metric)} in these studies"
    said += f" and {_text(studies, metric)} over {studies.n} studies." if has_studies else "."
    table = Table("pooled", caption, records, columns)
    plot = Plot("pooled", lambda: draw_forest(table.forests), "The rows of the table.", beside=True)
    reproduce = Section("reproduce", "Reproduce", [Code(command)] * bool(command))
    over = f"{words.capital(metric.label)} over {words.plural(len(effects), 'study', 'studies')}."
    title = f"{pooled.pair}: {words.points(seeds, metric, signed=True)} in these studies"
    sections = [Section("pooled", "Pooled effect", [table, plot]), reproduce]
    return Document(title, "", over, (said, AFTER), [], sections)


def _text(estimate: Estimate, metric: Metric) -> str:
    return f"{words.points(estimate, metric, signed=True)} ({words.interval(estimate, metric, signed=True)})"
