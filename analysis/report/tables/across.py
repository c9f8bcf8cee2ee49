"""Tables about several datasets: aggregates, differences from the baseline, and the means of each dataset."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import formatting
from analysis.across import AGGREGATES, AcrossDatasets
from analysis.report.phrases import alpha_text
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import baseline_name, count_cell, counts_note, difference_cell, estimate_cell, points
from analysis.stats import Aggregate
from experiments.metric import Metric

UP_TO_ONE = (-1e9, 1.0)  # a normalised score can be below 0


def aggregates_table(across: AcrossDatasets) -> Table:
    """Return the aggregates of each variant with their intervals."""
    metric = across.first.study.metric
    caption = (
        f"{metric.label.capitalize()} over {formatting.plural(len(across.studies), 'dataset')} of equal weight: estimate ± "
        "half-width of the 95 % interval for new seeds on the same datasets."
    )
    notes = [f"Left out: {formatting.quoted(variant)} {reason}." for variant, reason in across.left_out.items()]
    notes += [f"{name}: {counts_note(results)}" for name, results in across.studies.items()]
    return _aggregates("across", caption, across.scores, metric, formatting.limits(metric), notes)


def normalised_table(across: AcrossDatasets) -> Table | None:
    """Return the aggregates of the normalised accuracy; None where it is not computed."""
    if not across.normalised or across.chance is None:
        return None
    chances = formatting.listing([f"{name} {formatting.number(100 * c, 2)} %" for name, c in across.chance.items()])
    caption = "The same aggregates of the normalised accuracy, (accuracy − chance) / (1 − chance), in percent."
    note = f"0 is chance level, 100 is perfect. Chance: {chances}."
    metric = across.first.study.metric
    return _aggregates("normalised", caption, across.normalised, metric, UP_TO_ONE, [note])


def improvement_table(across: AcrossDatasets) -> Table | None:
    """Return the average differences from the baseline with verdicts, and the probabilities of improvement."""
    if not across.differences:
        return None
    metric, total = across.first.study.metric, len(across.studies)
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column(f"difference from {baseline_name(across.first)}{points(metric)}", ("diff", "low", "high")),
        Column("p", ("p", "p_holm")),
        Column("verdict", ("verdict",), numeric=False),
        Column("datasets with a higher mean", ("higher_on",)),
        Column(
            "probability of improvement, %",
            ("improvement", "improvement_low", "improvement_high", "bootstrap_low", "bootstrap_high"),
            help="that a run of the variant beats a run of the baseline on the same dataset",
        ),
    )
    rows = []
    for variant, compared in across.differences.items():
        diff, higher, better = compared.diff, len(across.higher_on(variant)), across.improvement[variant]
        depends = " (depends on diverged runs)" if variant in across.depends_on_diverged else ""
        rows.append(
            (
                Cell(variant, (variant,)),
                Cell(
                    formatting.with_interval(diff, metric.scale, signed=True),
                    (diff.value, diff.low, diff.high),
                    diff.value,
                ),
                Cell(formatting.p_value(compared.p_holm), (compared.p, compared.p_holm), compared.p_holm),
                Cell(compared.verdict + depends, (compared.verdict,), mark=compared.verdict.replace(" ", "-")),
                Cell(f"{higher} of {total}", (higher,), higher),
                _probability_cell(better),
            )
        )
    caption = (
        f"Differences from the baseline {formatting.quoted(across.first.study.baseline)}, averaged over the datasets."
    )
    margin = formatting.margin(metric, across.margin)
    looks = " and for the planned looks" if across.policy is not None and across.policy.plan else ""
    note = (
        f"Verdict: t test and equivalence test (within ±{margin}) of the average difference, paired by seed within each "
        f"dataset, Holm-adjusted over the variants{looks}, alpha = {alpha_text()}. Probability of improvement: every run of the "
        "variant against every run of the baseline, whatever their seeds; it has no test."
    )
    return Table("improvement", caption, columns, tuple(rows), (note, *_dropped(across)))


def datasets_table(across: AcrossDatasets) -> Table:
    """Return the mean of each variant on each dataset, as in the report of that dataset's study."""
    metric = across.first.study.metric
    columns = [Column("variant", ("variant",), numeric=False)]
    for name in across.studies:
        columns += [
            Column(f"{name}{metric.unit}", (f"{name}", f"{name}_low", f"{name}_high")),
            Column("n", (f"{name}_n",), help="finished runs"),
        ]
    rows = []
    for variant in across.first.variants.names:
        row = [Cell(variant, (variant,))]
        for results in across.studies.values():
            mean = results.mean(variant)
            row += [estimate_cell(mean, metric), count_cell(mean.n)]
        rows.append(tuple(row))
    caption = f"{metric.label.capitalize()} on each dataset: mean ± half-width of the 95 % interval."
    return Table("datasets", caption, tuple(columns), tuple(rows))


def dataset_differences_table(across: AcrossDatasets) -> Table | None:
    """Return the difference of each variant from the baseline on each dataset; None without another variant."""
    if not across.first.others:
        return None
    metric = across.first.study.metric
    columns = [Column("variant", ("variant",), numeric=False)]
    columns += [
        Column(f"{name}{points(metric)}", (f"{name}", f"{name}_low", f"{name}_high")) for name in across.studies
    ]
    rows = [
        (
            Cell(variant, (variant,)),
            *(difference_cell(results.versus[variant], metric) for results in across.studies.values()),
        )
        for variant in across.first.others
    ]
    baseline = formatting.quoted(across.first.study.baseline)
    planned = any(results.policy.plan for results in across.studies.values())
    adjusted = "adjusted for the planned looks only" if planned else "not adjusted"
    caption = f"Differences from {baseline} on each dataset, paired by seed, with 95 % intervals ({adjusted})."
    return Table("dataset-differences", caption, tuple(columns), tuple(rows))


def _aggregates(
    name: str,
    caption: str,
    scores: Mapping[str, Mapping[str, Aggregate]],
    metric: Metric,
    limits: tuple[float, float],
    notes: list[str],
) -> Table:
    """One row for each variant, one column for each aggregate; the CSV has the percentile intervals as well."""
    shown = [key for key in AGGREGATES if key in next(iter(scores.values()))]
    columns = [Column("variant", ("variant",), numeric=False)]
    for key in shown:
        fields = (key, f"{key}_low", f"{key}_high", f"{key}_bootstrap_low", f"{key}_bootstrap_high")
        columns.append(Column(f"{AGGREGATES[key]}{metric.unit}", fields))
    columns.append(Column("runs", ("runs",), help="finished runs on all datasets"))
    rows = []
    for variant, found in scores.items():
        cells = [_aggregate_cell(found[key], metric.scale, limits) for key in shown]
        rows.append((Cell(variant, (variant,)), *cells, count_cell(found[shown[0]].estimate.n)))
    return Table(name, caption, tuple(columns), tuple(rows), tuple(notes))


def _aggregate_cell(found: Aggregate, scale: float, limits: tuple[float, float]) -> Cell:
    estimate = found.estimate
    text = formatting.with_interval(estimate, scale, limits=limits)
    return Cell(text, (estimate.value, estimate.low, estimate.high, *found.percentile), estimate.value)


def _probability_cell(found: Aggregate) -> Cell:
    """A probability with its interval, which is not symmetric."""
    share = found.estimate
    text = f"{100 * share.value:.0f} ({100 * share.low:.0f} to {100 * share.high:.0f})"
    return Cell(text, (share.value, share.low, share.high, *found.percentile), share.value)


def _dropped(across: AcrossDatasets) -> list[str]:
    """Notes on what cannot be paired."""
    notes = []
    if across.dropped:
        notes.append(
            "A pair of runs with the same seed is left out where only one of the two finished: "
            f"{across.dropped} left out, summed over variants and datasets."
        )
    if unpaired := [formatting.quoted(v) for v in across.others if v not in across.differences]:
        notes.append(f"Not compared, for lack of a common seed with the baseline: {formatting.listing(unpaired)}.")
    return notes
