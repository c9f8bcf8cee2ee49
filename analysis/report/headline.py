"""State the answer of a study in a few sentences, made from its statistics alone. Plain text, no markup.

The first paragraph compares the variants with the baseline, the second the variants with each other, the last says what
the study cannot show (`headline_limits`). A study of training lengths or numbers of images says in between how the
differences change. A study of several factors starts with main effects and interactions (`sections.factors`).
"""

from __future__ import annotations

import math

from analysis import formatting
from analysis.formatting import plural, quoted
from analysis.report.headline_limits import limits
from analysis.report.headline_looks import looks_paragraph, not_tested_yet
from analysis.report.phrases import (
    MOST_SPELLED,
    alpha_text,
    by_points,
    change_by_diverged,
    higher,
    interval_text,
    names,
    range_text,
    spelled,
    value_text,
)
from analysis.report.sections.claims import evidence
from analysis.report.sections.factors import factor_paragraphs
from analysis.report.sections.trends import spread_text
from analysis.results.study_results import StudyResults
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.stats import Comparison

_NOUNS = {"model.pos_embed": "positional embedding"}
MOST_NAMED_PAIRS = 3  # significantly different pairs that are named, not counted


def headline(results: StudyResults) -> tuple[str, ...]:
    """Return the answer, one paragraph for each part."""
    if not results.others:
        return _single_variant(results)
    if results.policy.waiting:
        return not_tested_yet(results)
    if (most := max(results.versus[variant].n for variant in results.others)) < 2:
        return _not_testable(results, most)
    factors = factor_paragraphs(results.factors, results.variants, results.policy)
    among = () if factors else _among_others(results)
    compared = _against_baseline(results) + (_different_others(results) if factors else "")
    trends = [spread_text(trend) for trend in results.trends if math.isfinite(trend.spread.p)]
    return (*factors, compared, *trends, *_on_diverged(results), *among, *looks_paragraph(results), *limits(results))


def _single_variant(results: StudyResults) -> tuple[str, ...]:
    study, mean = results.study, results.mean(results.study.baseline)
    if not mean.n:
        lost = study.runs["status"].value_counts().to_dict()
        ended = formatting.listing([f"{n} {status}" for status, n in lost.items()])
        return (f"No run of {quoted(study.baseline)} has a {study.metric.label}. Its runs: {ended}.",)
    mean_text = (
        f"{quoted(study.baseline)} has a {study.metric.label} of {value_text(mean, study.metric)} "
        f"(mean of {plural(mean.n, 'seed')}). There is no other variant to compare it with."
    )
    if mean.n < 2:
        return mean_text, "One run gives no interval. For more runs, repeat the command with a higher --seeds."
    if not math.isfinite(mean.low):
        return mean_text, "All runs have the same value, so the mean has no interval."
    percent = " %" if study.metric.is_share else ""
    interval = formatting.bounds(mean, study.metric.scale, signed=False)
    published = [
        f"Published claim: {result.claim.statement} {result.outcome.capitalize()}: {evidence(result)}"
        for result in results.published.claims
    ]
    return mean_text, " ".join([f"The 95 % interval of the mean is {interval}{percent}.", *published])


def _not_testable(results: StudyResults, most: int) -> tuple[str, ...]:
    """At most one seed is shared with the baseline: the numbers, and no comparison."""
    study = results.study
    if not results.mean(study.baseline).n:
        runs = study.runs[study.runs["variant"] == study.baseline]
        if (runs["status"] == "finished").any():
            return _without_metric(study)
        nothing = f"Nothing can be compared: no run of the baseline {quoted(study.baseline)} has finished."
        if runs["status"].isin(ENDED).all():
            lost = f"All {len(runs)} runs of the baseline ended without a result. More seeds will not help; choose another baseline."
            return nothing, lost
        return (nothing,)
    advice = "For more runs, repeat the command with a higher --seeds: a test needs at least two seeds, better five."
    if not most:
        return f"Nothing can be compared: no other variant has finished on a seed of {quoted(study.baseline)}.", advice
    known = [variant for variant in results.others if results.versus[variant].n]
    best = results.best if results.best in known else known[0]
    first = (
        f"{quoted(best)} has a {study.metric.label} of {value_text(results.mean(best), study.metric)}, "
        f"{quoted(study.baseline)} {value_text(results.mean(study.baseline), study.metric)}. With a single seed no "
        "statistical test is possible, so no variant can be called better, worse or equivalent."
    )
    return first, advice


def _without_metric(study: RunsTable) -> tuple[str, ...]:
    """Runs of the baseline have finished, and none has measured the metric."""
    nothing = f"Nothing can be compared: no run of the baseline {quoted(study.baseline)} has a {study.metric.label}."
    of_another_program = not study.recorded and study.folder is None
    if not study.metric.startswith("test/") or of_another_program or study.runs["val/acc"].isna().all():
        measured = [str(metric) for metric in study.metrics if study.runs[metric].notna().any()]
        which = f": its runs have {formatting.listing(measured)}" if measured else ""
        return nothing, f"More seeds will not help; choose another metric with --metric{which}."
    return nothing, (
        "The test images of its finished runs were left out (vit-train --test false). To compare validation images, give "
        "--metric val/acc."
    )


def _against_baseline(results: StudyResults) -> str:
    """`All three positional embeddings have a higher test accuracy than none (72.4 %): ... 5 seeds, paired t tests.`"""
    study, compared = results.study, [variant for variant in results.others if results.versus[variant].n > 1]
    total, lost = len(compared), [variant for variant in results.others if not results.versus[variant].n]
    single = [variant for variant in results.others if results.versus[variant].n == 1]
    groups = {
        word: [variant for variant in compared if results.versus[variant].verdict == word]
        for word in ("better", "worse", "equivalent", "not enough evidence")
    }
    name = _called(results, study.baseline)
    baseline = f"{name} ({value_text(results.mean(study.baseline), study.metric)})"
    if results.factorial is not None:
        baseline, name = f"the baseline, {baseline}", "the baseline"
    said: list[str] = []
    for word, variants in groups.items():
        if variants:
            than = name if said else baseline  # the baseline's value is given once
            said.append(_GROUP[word](results, variants, than, total, word))
    family = f", {'paired t tests' if total > 1 else 'paired t test'}"
    family += " and equivalence tests" if groups["equivalent"] else ""
    seeds = formatting.seeds([results.versus[variant].n for variant in compared])
    for variants, reason in (
        (lost, "cannot be compared: there is no result on a seed of the baseline."),
        (single, "cannot be tested: there is a result on one seed of the baseline only."),
    ):
        if variants:
            said.append(f"{names(variants) or spelled(len(variants)).capitalize() + ' variants'} {reason}")
    if results.factorial is not None:  # the paragraph of main effects says how
        return f"{' '.join(said)} {seeds}{family}, adjusted in the same way."
    looks = " and for the planned looks" if results.policy.plan else ""
    adjusted = (
        f", p Holm-adjusted over all pairs{'' if results.pairs else ' with the baseline'}{looks}"
        if total > 1
        else ", p adjusted for the planned looks" * bool(looks)
    )
    if total > 1 and (groups["better"] or groups["worse"]):  # these come with intervals
        adjusted += ", intervals not adjusted" if not looks else ", intervals adjusted for the planned looks only"
    return f"{' '.join(said)} {seeds}{family}{adjusted}, alpha = {alpha_text()}."


def _different(results: StudyResults, variants: list[str], than: str, total: int, word: str) -> str:
    metric = results.study.metric
    comparative = f"a {higher(metric, word == 'better')} {metric.label} than {than}"
    listed, counted = _names(results, variants), f"{_count(results, variants, total)} have {comparative}"
    if len(variants) == 1:
        compared = results.versus[variants[0]]
        return f"{listed} has {comparative}, by {by_points(compared.diff, metric)} ({interval_text(compared.diff, metric)})."
    if listed is None:
        most = max(variants, key=lambda variant: abs(results.versus[variant].diff.value))
        diffs = [results.versus[variant].diff for variant in variants]
        away = sorted(abs(diff.value) for diff in diffs)
        if math.isclose(away[-1], away[-2]):  # no single largest difference
            return f"{counted}, by {range_text(diffs, metric)}."
        return (
            f"{counted}, by {range_text(diffs, metric)}. The largest difference is that of {_called(results, most)} "
            f"({interval_text(results.versus[most].diff, metric)})."
        )
    parts: list[str] = []
    for variant in variants:
        diff = results.versus[variant].diff
        interval = interval_text(diff, metric, label="" if parts else "95 % CI ")
        parts.append(f"{_called(results, variant)} by {by_points(diff, metric)} ({interval})")
    return f"{counted}: {formatting.listing(parts)}."


def _equivalent(results: StudyResults, variants: list[str], than: str, total: int, word: str) -> str:
    listed = _names(results, variants) or _count(results, variants, total)
    plural_form = len(variants) != 1
    verb, differences = ("are", "the differences are") if plural_form else ("is", "the difference is")
    return f"{listed} {verb} equivalent to {than}: {differences} within ±{formatting.margin(results.study.metric, results.study.margin)}."


def _open(results: StudyResults, variants: list[str], than: str, total: int, word: str) -> str:
    if len(variants) == total > 1:
        return f"No {_noun(results, 1)} differs significantly from {than}."
    listed = names(variants) or _count(results, variants, total)
    if results.factorial is not None:  # its names are long
        others = f"{spelled(len(variants))} {_noun(results, 2)}" if len(variants) > 1 else _noun(results, 1)
        listed = f"The other {others}"
    verb = "do" if len(variants) != 1 else "does"
    return f"{listed} {verb} not differ significantly from {than}."


_GROUP = {"better": _different, "worse": _different, "equivalent": _equivalent, "not enough evidence": _open}


def _on_diverged(results: StudyResults) -> tuple[str, ...]:
    """Which variants diverged, and which verdicts depend on that."""
    rates = {variant: rate for variant, rate in results.conduct.divergence.items() if rate.value > 0}
    if not rates:
        return ()
    lost = [f"{round(rate.value * rate.n)} of {plural(rate.n, 'run')} of {quoted(v)}" for v, rate in rates.items()]
    depends = [variant for variant in results.others if results.versus[variant].depends_on_diverged]
    pairs = [pair for pair, compared in results.other_pairs.items() if compared.depends_on_diverged]
    said = f"{formatting.listing(lost)} diverged; the comparisons use the other runs."
    if not depends and not pairs:
        return (f"{said} The verdicts stay the same if diverged runs are counted at chance level.",)
    which = [f"on {names(depends) or plural(len(depends), 'variant')}"] * bool(depends)
    if pairs:
        named = (
            f"the pair of {' and '.join(map(quoted, pairs[0]))}"
            if len(pairs) == 1
            else plural(len(pairs), "other pair")
        )
        which.append(f"on {named}")
    several = len(depends) + len(pairs) > 1
    subject = f"The verdict{'s' * several} {' and '.join(which)}"
    return (f"{said} {change_by_diverged(results, subject, several)}",)


def _among_others(results: StudyResults) -> tuple[str, ...]:
    """How the variants compare with each other, without the baseline."""
    if len(results.others) == 1:
        return ()
    if not results.pairs:
        best = results.best or results.study.baseline
        mean = value_text(results.mean(best), results.study.metric)
        return (f"{quoted(best)} has the best mean, {mean}. There are too many variants to compare all pairs.",)
    pairs = {pair: compared for pair, compared in results.other_pairs.items() if compared.n > 1}
    if not pairs:
        return ()
    known = {variant for pair in pairs for variant in pair}
    groups: dict[str, list[tuple[str, str]]] = {word: [] for word in ("different", "equivalent", "not enough evidence")}
    for pair, compared in pairs.items():
        groups[compared.verdict if compared.verdict in groups else "different"].append(pair)
    among = f"the {spelled(len(known))} {_noun(results, len(known))} themselves"
    seeds = formatting.seeds([compared.n for compared in pairs.values()])
    if len(pairs) == 1:
        return (_one_pair(results, *next(iter(pairs.items())), seeds),)
    if len(groups["not enough evidence"]) == len(pairs):
        largest = max((compared.diff for compared in pairs.values()), key=lambda diff: abs(diff.value))
        apart = by_points(largest, results.study.metric)
        return (f"Among {among}, no pair is significantly different with {seeds}; the largest difference is {apart}.",)
    parts = [_group_of_pairs(results, word, found, len(pairs)) for word, found in groups.items() if found]
    return (f"Among {among}, {'; '.join(parts)}.{_standing_of_best(results)}",)


def _different_others(results: StudyResults) -> str:
    """The significantly different pairs without the baseline, in a study of several factors; empty if there are none."""
    pairs = results.other_pairs
    different = [pair for pair, compared in pairs.items() if compared.verdict in ("better", "worse")]
    return (
        f" Among the pairs without the baseline, {_group_of_pairs(results, 'different', different, len(pairs))}."
        if different
        else ""
    )


def _group_of_pairs(results: StudyResults, word: str, pairs: list[tuple[str, str]], total: int) -> str:
    number = (
        f"all {total} pairs are"
        if len(pairs) == total
        else f"{len(pairs)} of {total} pairs {'are' if len(pairs) > 1 else 'is'}"
    )
    if word == "different":
        if len(pairs) <= MOST_NAMED_PAIRS and len(pairs) < total:
            ranked = [(a, b) if results.pairs[a, b].verdict == "better" else (b, a) for a, b in pairs]
            return formatting.listing(
                [f"{_called(results, good)} is better than {_called(results, bad)}" for good, bad in ranked]
            )
        return f"{number} significantly different"
    if len(pairs) == 1:
        number = f"{formatting.listing([quoted(variant) for variant in pairs[0]])} are"
    if word == "equivalent":
        return f"{number} equivalent (within ±{formatting.margin(results.study.metric, results.study.margin)})"
    return f"{number} not significantly different"


def _one_pair(results: StudyResults, pair: tuple[str, str], compared: Comparison, seeds: str) -> str:
    metric, (a, b) = results.study.metric, pair
    detail = f"{by_points(compared.diff, metric)}, {interval_text(compared.diff, metric)}"
    if compared.verdict == "equivalent":
        return f"{quoted(a)} and {quoted(b)} are equivalent to each other (within ±{formatting.margin(results.study.metric, results.study.margin)})."
    if compared.verdict == "not enough evidence":
        return f"{quoted(a)} and {quoted(b)} are not significantly different with {seeds} (difference {detail})."
    good, bad = (a, b) if compared.verdict == "better" else (b, a)
    return f"{quoted(good)} is better than {quoted(bad)} (difference {detail})."


def _standing_of_best(results: StudyResults) -> str:
    """Which variant has the best mean, and how many are not shown to be worse; for the longer tables of pairs."""
    if len(results.others) < 4 or results.best is None:
        return ""
    best = results.best
    won = {"better": 0, "worse": 1}  # the place of the better variant in a pair with this verdict
    different = [(pair, pair[won[c.verdict]]) for pair, c in results.pairs.items() if best in pair and c.verdict in won]
    worse = [pair for pair, better in different if better == best]
    above = [quoted(better) for _, better in different if better != best]
    mean = value_text(results.mean(best), results.study.metric)
    ties = sum(results.mean(v).value == results.mean(best).value for v in results.variants.names)
    if ties > 1:
        return f" {spelled(ties).capitalize()} variants share the best mean ({mean})."
    total = len(results.variants.names) - 1
    rest = f"all {total} other variants" if len(worse) == total else f"{len(worse)} of the {total} other variants"
    said = f" The best mean is that of {quoted(best)} ({mean}); it is significantly better than {rest}."
    if above:  # the means are over other seeds than the paired differences
        said += f" On the seeds that both have, {formatting.listing(above)} {'are' if len(above) > 1 else 'is'} significantly better."
    return said


def _count(results: StudyResults, variants: list[str], total: int) -> str:
    """`All three positional embeddings`, `Two of four positional embeddings`, or `learned-1d`."""
    if len(variants) == total > 1:
        number = "Both" if total == 2 else f"All {spelled(total)}"
    else:
        part = spelled(len(variants)).capitalize() if total < MOST_SPELLED else str(len(variants))
        number = f"{part} of {spelled(total)}"
    return f"{number} {_noun(results, total)}"


def _called(results: StudyResults, variant: str) -> str:
    """What the sentences call a variant: in a study of several factors its levels, as in tables and figures."""
    return quoted(results.variants.brief[variant] if results.factorial is not None else variant)


def _names(results: StudyResults, variants: list[str]) -> str | None:
    brief = results.variants.brief if results.factorial is not None else {}
    return names([brief.get(variant, variant) for variant in variants])


def _noun(results: StudyResults, n: int) -> str:
    """What the study calls its variants."""
    factors = list(results.study.factors)
    noun = _NOUNS.get(factors[0], "variant") if len(factors) == 1 else "combination" if results.factorial else "variant"
    kinds = results.study.settings().get("model.pos_embed")
    if kinds is not None and "none" in list(kinds.reindex(results.others)):
        noun = "variant"
    return noun + "s" * (n != 1)
