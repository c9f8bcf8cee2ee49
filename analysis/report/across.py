"""Make the report over several datasets: studies of the same variants, aggregated. Results in, a document out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import formatting
from analysis.across import FEWEST, AcrossDatasets, aggregate_studies, baseline_runs, side_by_side
from analysis.figures.across import across_plots
from analysis.figures.style import Plot
from analysis.report.document import Code, Document, Facts, Item, Section, present
from analysis.report.headline_looks import looks_paragraph, not_tested_yet
from analysis.report.methods import looks_fact, scope
from analysis.report.phrases import alpha_text, by_points, higher, interval_text, names, range_text, spelled, value_text
from analysis.report.provenance import study_provenance
from analysis.report.study_report import study_document, summary, title
from analysis.report.tables.across import (
    aggregates_table,
    dataset_differences_table,
    datasets_table,
    improvement_table,
    normalised_table,
)
from analysis.report.warnings import warnings
from analysis.results.conduct import study_looks
from analysis.results.policy import study_policy
from analysis.results.study_results import StudyResults, analyze
from analysis.sources.by_dataset import split_by_dataset
from analysis.sources.matching import check_alike
from analysis.sources.runs_table import ENDED, RunsTable
from analysis.stats import Estimate


def stratified_document(study: RunsTable, out: Path | None = None) -> Document:
    """Make the report of a study that has the dataset among its factors: each dataset is a study of the other factors.

    With ended runs on one dataset only, it is the report of that dataset. A dataset with too few runs of the baseline is
    left out with a warning. Where fewer than two datasets remain, the report shows the means without tests. Raises
    `UserError` where the datasets have different variants.
    """
    parts = split_by_dataset(study)
    started = [part for part in parts if not part.of(*ENDED).empty] or parts[:1]
    waiting = [str(part.base["data.name"]) for part in parts if part.of(*ENDED).empty]
    missing = [f"{formatting.listing(waiting)}: no run has finished yet."] if waiting else []
    check_alike(started)
    results = [analyze(part) for part in started]
    shown = {run for part in started for run in part.troubles}
    others = [(run, why) for run, why in sorted(study.troubles.items()) if run not in shown]
    if len(results) == 1:
        document = study_document(results[0], out=out)
        return replace(document, warnings=[*missing, *document.warnings], excluded=[*document.excluded, *others])
    ready = [each for each in results if baseline_runs(each) >= FEWEST]
    enough = len(ready) > 1
    few = [_too_few(each, left_out=enough) for each in results if baseline_runs(each) < FEWEST]
    policy = study_policy(study)  # of the whole study: a seed counts once its runs on all datasets have ended
    across = (
        aggregate_studies(ready, policy, study_looks(study))
        if enough
        else side_by_side(results, policy, study_looks(study))
    )
    document = across_document(across, f"vit-report {study.name}")
    return replace(
        document,
        title=title(study),
        description=study.plan.description,
        sections=document.sections[:-1],
        warnings=[*missing, *few, *document.warnings],
        excluded=[*document.excluded, *others],
    )


def _too_few(results: StudyResults, left_out: bool) -> str:
    """Say that a dataset cannot be aggregated yet, and whether the report leaves it out."""
    baseline, runs = results.study.baseline, formatting.plural(baseline_runs(results), "finished run")
    return (
        f"{results.study.base['data.name']}: the baseline {formatting.quoted(baseline)} has {runs}; averages over the "
        f"datasets need {FEWEST}.{' So this report leaves the dataset out.' * left_out}"
    )


def across_document(across: AcrossDatasets, command: str) -> Document:
    """Make the report over the datasets of `across`; `command` is the command that makes it."""
    plots = {plot.name: plot for plot in across_plots(across)} if across.scores else {}
    studies = across.studies.items()
    return Document(
        title=_title(across),
        description="",
        summary=" ".join(f"{name}: {summary(results)}" for name, results in studies),
        headline=_headline(across),
        warnings=[f"{name}: {warning}" for name, results in studies for warning in warnings(results)],
        sections=[
            *_aggregates(across, plots),
            *_differences(across, present(improvement_table(across), plots.get("improvement"))),
            Section("datasets", "Each dataset", present(datasets_table(across), dataset_differences_table(across))),
            Section("methods", "Methods", [Facts(tuple(_methods(across)))]),
            *(study_provenance(f"provenance-{i}", name, results.study) for i, (name, results) in enumerate(studies)),
            Section("reproduce", "Reproduce", [Code(command)]),
        ],
        excluded=[(f"{name}: {run}", why) for name, r in studies for run, why in sorted(r.study.troubles.items())],
        frames={
            "runs": pd.concat([results.study.runs for _, results in studies], ignore_index=True),
            "curves": pd.concat([results.study.curves for _, results in studies], ignore_index=True),
        },
    )


def _title(across: AcrossDatasets) -> str:
    """`position: test accuracy over digits and mnist`, without a name where the studies have different ones."""
    label, names = across.first.study.metric.label, {results.study.name for results in across.studies.values()}
    head = f"{names.pop()}: {label}" if len(names) == 1 else label.capitalize()
    return f"{head} over {formatting.listing(list(across.studies))}"


def _aggregates(across: AcrossDatasets, plots: Mapping[str, Plot]) -> list[Section]:
    if not across.scores:
        return []
    return [Section("result", "Results", present(plots["across"], aggregates_table(across), normalised_table(across)))]


def _differences(across: AcrossDatasets, items: list[Item]) -> list[Section]:
    return [Section("differences", "Differences from the baseline", items)] if items else []


def _headline(across: AcrossDatasets) -> tuple[str, ...]:
    if across.first.others and across.waiting:
        return tuple(filter(None, (not_tested_yet(_whole(across))[0], _best_means(across))))
    if across.differences:
        answer: tuple[str, ...] = (_against_baseline(across), _by_dataset(across))
    elif across.first.others or not across.scores:
        answer = (_not_testable(across), _best_means(across))
    else:
        answer = (_single(across),)
    limit = (_limit(across),) if across.scores else ()  # without aggregates it says nothing more
    repeated = looks_paragraph(_whole(across)) if across.policy and across.differences else ()
    return *(text for text in (*answer, _diverged(across)) if text), *repeated, *limit


def _whole(across: AcrossDatasets) -> StudyResults:
    """The first dataset's results with the looks at the whole study, for the texts about looks."""
    assert across.policy is not None
    conduct = replace(across.first.conduct, looks=across.looks)
    return replace(across.first, policy=across.policy, conduct=conduct)


def _not_testable(across: AcrossDatasets) -> str:
    """Too few runs for an average of two variants over the datasets."""
    baseline = f"{FEWEST} finished runs of the baseline {formatting.quoted(across.first.study.baseline)}"
    if not across.first.others:
        return f"There is no mean over the datasets yet: that needs {baseline} on each of two datasets or more."
    return (
        f"No variant is compared over the datasets yet: that needs {baseline} and of the variant on each of two datasets or "
        "more. So no variant can be called better, worse or equivalent."
    )


def _best_means(across: AcrossDatasets) -> str:
    """The variant with the best mean on each dataset."""
    metric = across.first.study.metric
    best = [
        f"that of {formatting.quoted(results.best)} on {name} ({value_text(results.mean(results.best), metric)})"
        for name, results in across.studies.items()
        if results.best is not None
    ]
    return f"The best mean {metric.label} so far is {formatting.listing(best)}." if best else ""


def _single(across: AcrossDatasets) -> str:
    metric, baseline = across.first.study.metric, across.first.study.baseline
    mean = value_text(across.scores[baseline]["mean"].estimate, metric)
    reached = [f"{value_text(results.mean(baseline), metric)} on {name}" for name, results in across.studies.items()]
    return (
        f"{formatting.quoted(baseline)} has a {metric.label} of {formatting.listing(reached)}; the mean over the "
        f"{_datasets(across)} is {mean}. There is no other variant to compare it with."
    )


def _against_baseline(across: AcrossDatasets) -> str:
    """`On average over digits and mnist, learned-1d and rope-2d reach a higher test accuracy than none, by ...`"""
    study, said = across.first.study, []
    groups = {
        word: [variant for variant, compared in across.differences.items() if compared.verdict == word]
        for word in ("better", "worse", "equivalent", "not enough evidence")
    }
    baseline, total = formatting.quoted(study.baseline), len(across.differences)
    for word, variants in groups.items():
        if not variants:
            continue
        every = f"all {spelled(total)} variants" if len(variants) == total else f"{len(variants)} of {total} variants"
        listed = names(variants) or every
        several, diffs = len(variants) > 1, [across.differences[variant].diff for variant in variants]
        if word in ("better", "worse"):
            side = higher(study.metric, word == "better")
            said.append(
                f"{listed} {'have' if several else 'has'} a {side} mean {study.metric.label} than {baseline}, by "
                f"{_size(across, diffs)}"
            )
        elif word == "equivalent":
            margin = formatting.margin(study.metric, across.margin)
            said.append(f"{listed} {'are' if several else 'is'} equivalent to {baseline} (within ±{margin})")
        else:
            said.append(f"{listed} {'are' if several else 'is'} not significantly different from {baseline}")
    seeds = formatting.seeds([len(seeds) for each in across.paired.values() for seeds in each.values()])
    tests = "t tests and equivalence tests" if groups["equivalent"] else "t tests"
    planned = across.policy is not None and across.policy.plan
    adjusted = " and for the planned looks" if planned else ""
    intervals = "adjusted for the planned looks only" if planned else "not adjusted"
    return (
        f"On average over {formatting.listing(list(across.studies))}, with equal weight: {'; '.join(said)}. {seeds} per "
        f"dataset, {tests} paired by seed, p Holm-adjusted over the variants{adjusted}, intervals {intervals}, "
        f"alpha = {alpha_text()}."
    )


def _size(across: AcrossDatasets, diffs: list[Estimate]) -> str:
    metric = across.first.study.metric
    if len(diffs) == 1:
        return f"{by_points(diffs[0], metric)} ({interval_text(diffs[0], metric)})"
    return range_text(diffs, metric)


def _by_dataset(across: AcrossDatasets) -> str:
    """Where the mean differences of the datasets have the other sign than the average."""
    opposite = []
    for variant, compared in across.differences.items():
        if compared.verdict not in ("better", "worse"):
            continue
        along = {name: float(diffs.mean() * compared.diff.value) for name, diffs in across.paired[variant].items()}
        against, tied = (
            [name for name, sign in along.items() if sign < 0],
            [n for n, sign in along.items() if not sign],
        )
        side = "below" if compared.diff.value > 0 else "above"
        places = [f"{side} the baseline on {formatting.listing(against)}"] * bool(against)
        places += [f"equal to the baseline on {formatting.listing(tied)}"] * bool(tied)
        if places:
            opposite.append(f"{formatting.quoted(variant)} is {' and '.join(places)}")
    shown = [variant for variant, compared in across.differences.items() if compared.verdict in ("better", "worse")]
    if opposite:
        return f"The average does not hold for every dataset: by its mean, {'; '.join(opposite)}."
    return "By their means, these differences have the same sign on every dataset." if shown else ""


def _diverged(across: AcrossDatasets) -> str:
    lost = {name: len(results.study.of("diverged")) for name, results in across.studies.items()}
    if not any(lost.values()):
        return ""
    counts = formatting.listing([f"{formatting.plural(n, 'run')} on {name}" for name, n in lost.items() if n])
    depends = [formatting.quoted(variant) for variant in across.differences if variant in across.depends_on_diverged]
    if depends:
        verb = "depends" if len(depends) == 1 else "depend"
        which = f"the verdict{'s' * (len(depends) > 1)} on {formatting.listing(depends)} {verb} on them"
    else:
        which = "no verdict changes if they count as chance level"
    return f"Diverged: {counts}. Means and tests use the finished runs; {which}."


def _limit(across: AcrossDatasets) -> str:
    left = f" Not aggregated: {_left_out(across)}." if across.left_out else ""
    return (
        f"This is a statement about these {_datasets(across)} only. The datasets are fixed and the seeds vary, so intervals and "
        f"tests say nothing about other datasets.{left}"
    )


def _left_out(across: AcrossDatasets) -> str:
    return "; ".join(f"{formatting.quoted(variant)} ({reason})" for variant, reason in across.left_out.items())


def _datasets(across: AcrossDatasets) -> str:
    return f"{spelled(len(across.studies))} datasets"


def _methods(across: AcrossDatasets) -> list[tuple[str, str]]:
    facts = _aggregation(across) if across.scores else []
    if across.differences:
        facts += _tests(across)
    facts += dict.fromkeys(scope(results) for results in across.studies.values())
    if across.policy is not None:
        facts.append(looks_fact(_whole(across)))
    elif any(results.policy.plan for results in across.studies.values()):
        facts.append(("Looks", "The tests are made for one look; looks that a study plans are for its own tests."))
    return [*facts, ("Other methods", "As in the report of each study.")]


def _aggregation(across: AcrossDatasets) -> list[tuple[str, str]]:
    return [
        (
            "Aggregates",
            "As rliable defines them (Agarwal et al., arXiv 2108.13264). Every dataset has the same weight. Mean: the mean "
            "of the datasets' means. Median: the median of the datasets' means (shown for three datasets or more). "
            "Interquartile mean: the mean of the middle half of all runs. The optimality gap is left out: for accuracies it "
            "is 100 % minus the mean.",
        ),
        ("Scores", _scores(across)),
        (
            "Intervals of aggregates",
            "95 %, for new seeds on the same datasets: Student's t interval with the standard error of a stratified bootstrap "
            "(10,000 resamples of the runs within each dataset), corrected by sqrt(n / (n − 1)) for n runs per dataset, and "
            "Satterthwaite's degrees of freedom (for the median n − 1). The percentile intervals of rliable are in the CSV files. They are too short "
            "for few seeds: in simulations they cover 77 to 88 % with 3 seeds and 82 to 92 % with 5.",
        ),
    ]


def _scores(across: AcrossDatasets) -> str:
    label = across.first.study.metric.label
    if across.normalised:
        return f"The {label} itself and, in a second table, (accuracy − chance) / (1 − chance), where chance is 1 / number of classes."
    if across.chance is not None:
        chance = formatting.number(100 * next(iter(across.chance.values())), 2)
        return (
            f"The {label} itself. Chance is {chance} % on every dataset, so a normalisation by chance would not change any "
            "comparison."
        )
    return f"The {label} itself. It is not normalised."


def _tests(across: AcrossDatasets) -> list[tuple[str, str]]:
    margin = formatting.margin(across.first.study.metric, across.margin)
    margins = {results.study.margin for results in across.studies.values()}
    smallest = " (the smallest margin of the studies)" if len(margins) > 1 else ""
    return [
        (
            "Average difference",
            "The mean over the datasets of the mean difference between runs with the same seed. Its standard error is that of "
            "the seeds within each dataset, with Satterthwaite's degrees of freedom. t test and two one-sided t tests with the "
            f"margin ±{margin}{smallest}, adjusted together over the variants with Holm's method (Shaffer, 1986). The report of "
            "each study has tests of its own, which are another family.",
        ),
        (
            "Probability of improvement",
            "The share of pairs, a run of the variant and a run of the baseline on the same dataset, in which the variant's run "
            "is better; a tie counts half; averaged over the datasets. It uses all pairs of runs, unlike the share of seeds won "
            "in the report of a study. The interval is Clopper and Pearson's with one trial per seed and dataset, which is "
            "conservative. The percentile interval of the bootstrap is in the CSV file. It resamples the seeds of both "
            "variants together within each dataset, because runs with the same seed are paired, and has no width where one "
            "side wins every pair.",
        ),
        (
            "Diverged runs",
            "Aggregates and tests use the finished runs. The tests are made again with diverged runs at chance level. "
            "Where a verdict changes, or chance level is not known, the report says that it depends on diverged runs.",
        ),
    ]
