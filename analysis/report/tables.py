"""What each table of a report holds. Results in, tables out; how a table is written is `render`'s, how a number,
`numbers`'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import formatting
from analysis.report import probe_columns, published
from analysis.report.cells import (
    anchor,
    baseline_name,
    difference_cell,
    estimate_cell,
    estimate_column,
    foot,
    margin_text,
    mark,
    number_cell,
    points,
    variant_cell,
    verdict_cell,
)
from analysis.report.claim_text import evidence_text
from analysis.report.render import Cell, Column, Table
from analysis.results import Results
from analysis.sources.study import ENDED, METRICS
from analysis.stats import Comparison
from analysis.stats.power import FEW_SEEDS, MOST_SEEDS

NOT_ADJUSTED = "one may exclude zero, or lie within the margin, without a verdict, for verdicts are adjusted."
MOST_PAIR_ROWS = 66  # twelve variants; a longer table of pairs is in the CSV and not in the page


def variants_table(results: Results) -> Table:
    """The main table: every variant's mean, its difference to the baseline, the verdict, and what it costs."""
    metric = results.study.metric
    theory, paper = probe_columns.beside(results), published.beside(results)
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("n", ("n",), help="runs that finished, one a seed"),
        estimate_column(metric, metric),
        Column(
            f"difference to {baseline_name(results)}{points(metric)}",
            ("diff", "diff_low", "diff_high"),
            help="mean over the seeds that both have",
        ),
        Column("verdict", ("verdict",), numeric=False),
        *theory.columns,
        *paper.columns,
        Column("parameters", ("params",), help="learned; fixed position values come on top"),
        Column("FLOPs an image", ("flops_per_image",), help="one forward pass, a multiply-add is two"),
        Column("device s a run", ("device_seconds",), help="median over the variant's runs"),
    )
    rows = []
    for variant in results.variants:
        versus, cost, mean = results.versus[variant], results.cost.loc[variant], results.mean(variant)
        rows.append(
            (
                variant_cell(results, variant),
                Cell(str(mean.n), (mean.n,), mean.n),
                estimate_cell(mean, metric, anchor(results, variant), mark(results, variant)),
                difference_cell(versus, metric, anchor(results, variant)),
                verdict_cell(versus),
                *theory.cells(variant),
                *paper.cells(variant),
                Cell(formatting.count(cost["params"]), (_whole(cost["params"]),), cost["params"]),
                Cell(
                    formatting.magnitude(cost["flops_per_image"]), (cost["flops_per_image"],), cost["flops_per_image"]
                ),
                Cell(formatting.number(cost["device_seconds"], 1), (cost["device_seconds"],), cost["device_seconds"]),
            )
        )
    caption = f"{metric.label.capitalize()} by variant: mean ± half of its 95 % interval."
    notes = (*main_notes(results), *theory.notes, *paper.notes, *foot(results))
    return Table("variants", caption, columns, tuple(rows), notes)


def comparisons_table(results: Results) -> Table:
    """Everything about each difference to the baseline."""
    metric, baseline = results.study.metric, results.study.baseline
    rows = [
        (variant_cell(results, variant), *_comparison_cells(results, variant, results.versus[variant]))
        for variant in results.others
    ]
    columns = (Column("variant", ("variant",), numeric=False), *_comparison_columns(metric))
    return Table(
        "differences",
        f"Differences to {baseline}, paired by seed.",
        columns,
        tuple(rows),
        comparison_notes(results, [results.versus[variant] for variant in results.others]),
    )


def pairs_table(results: Results) -> Table | None:
    """Every pair of variants; None where there are no more pairs than those with the baseline."""
    if len(results.variants) < 3 or not results.pairs:
        return None
    rows = [
        (variant_cell(results, a), variant_cell(results, b), *_comparison_cells(results, a, compared))
        for (a, b), compared in results.pairs.items()
    ]
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("less", ("less",), numeric=False),
        *_comparison_columns(results.study.metric),
    )
    notes = (
        *comparison_notes(results, list(results.pairs.values())),
        f"Of a difference to {results.study.baseline} the verdict is that of the table of those differences, a smaller family.",
    )
    return Table("pairs", "Every pair of variants, paired by seed.", columns, tuple(rows), notes)


def metrics_table(results: Results) -> Table:
    """Every metric's mean by variant."""
    metrics = [metric for metric in METRICS if metric in results.means]
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("n", ("n",)),
        *(estimate_column(metric, metric) for metric in metrics),
    )
    rows = tuple(
        (
            variant_cell(results, variant),
            Cell(str(results.mean(variant).n), (results.mean(variant).n,), results.mean(variant).n),
            *(estimate_cell(results.means[metric][variant], metric, anchor(results, variant)) for metric in metrics),
        )
        for variant in results.variants
    )
    return Table(
        "metrics", "Every metric after the last epoch: mean ± half of its 95 % interval.", columns, rows, foot(results)
    )


def spread_table(results: Results) -> Table:
    """How the runs of each variant scatter, and a mean that a single odd run does not move."""
    metric, scale = results.study.metric, results.study.metric.scale
    unit = f"{metric.label}{metric.unit}"
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("n", ("n",)),
        Column(f"mean {unit}", ("mean", "mean_low", "mean_high")),
        Column("standard deviation", ("sd",)),
        Column(f"interquartile mean {unit}", ("iqm", "iqm_low", "iqm_high")),
        Column("lowest", ("lowest",)),
        Column("highest", ("highest",)),
    )
    rows = []
    for variant in results.variants:
        mean, spread = results.mean(variant), results.spread[variant]
        places = formatting.decimals(spread.sd * scale, 2 if metric.is_share else 4)
        rows.append(
            (
                variant_cell(results, variant),
                Cell(str(mean.n), (mean.n,), mean.n),
                estimate_cell(mean, metric, anchor(results, variant)),
                number_cell(spread.sd, scale, places),
                estimate_cell(spread.iqm, metric, anchor(results, variant)),
                *(number_cell(value, scale, places) for value in (spread.lowest, spread.highest)),
            )
        )
    note = (
        "The interquartile mean leaves out a quarter of the runs, rounded down, at each end, with Yuen's interval; below "
        "four runs it is the mean."
    )
    return Table("spread", f"How runs scatter: {metric.label}.", columns, tuple(rows), (note,))


def cost_table(results: Results) -> Table:
    """What each variant costs, and the accuracy that this buys."""
    metric = results.study.metric
    bought = (
        Column(f"{metric.label} a MFLOP{points(metric)}", ("metric_per_mflop",)),
        Column(f"{metric.label} a device second{points(metric)}", ("metric_per_device_second",)),
    )
    bought = () if metric.lower_is_better else bought  # nobody buys loss
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("parameters", ("params",)),
        Column("fixed values", ("params_fixed",), help="position values that are not learned"),
        Column("FLOPs an image", ("flops_per_image",)),
        Column("device s a run", ("device_seconds",), help="median over the variant's runs"),
        Column(
            "images a second",
            ("images_per_second",),
            help="training images, by the time of epochs with their validation",
        ),
        Column("peak memory", ("peak_memory_bytes",), help="of the accelerator; not measured on a CPU"),
        Column(
            "time against baseline",
            ("device_seconds_ratio",),
            help="median over the seeds that both trained on the same hardware",
        ),
        *bought,
    )
    rows = []
    for variant in results.variants:
        cost, value = results.cost.loc[variant], results.mean(variant).value * metric.scale
        ratio = cost["device_seconds_ratio"]
        each = (_ratio(value, cost["flops_per_image"] / 1e6), _ratio(value, cost["device_seconds"]))
        rows.append(
            (
                variant_cell(results, variant),
                Cell(formatting.count(cost["params"]), (_whole(cost["params"]),), cost["params"]),
                Cell(formatting.count(cost["params_fixed"]), (_whole(cost["params_fixed"]),), cost["params_fixed"]),
                Cell(
                    formatting.magnitude(cost["flops_per_image"]), (cost["flops_per_image"],), cost["flops_per_image"]
                ),
                Cell(formatting.number(cost["device_seconds"], 2), (cost["device_seconds"],), cost["device_seconds"]),
                Cell(
                    formatting.magnitude(cost["images_per_second"]),
                    (cost["images_per_second"],),
                    cost["images_per_second"],
                ),
                Cell(
                    _bytes(cost["peak_memory_bytes"]), (_whole(cost["peak_memory_bytes"]),), cost["peak_memory_bytes"]
                ),
                Cell(f"× {ratio:.2f}" if math.isfinite(ratio) else formatting.DASH, (ratio,), ratio),
                *(Cell(formatting.magnitude(share), (share / metric.scale,), share) for share, _ in zip(each, bought)),
            )
        )
    return Table("cost", "What each variant costs.", columns, tuple(rows))


def claims_table(results: Results) -> Table | None:
    """What the runs say of published statements; None where they bear on none."""
    if not results.claims:
        return None
    columns = (
        Column("published statement", ("id", "statement"), numeric=False),
        Column("outcome", ("verdict",), numeric=False),
        Column("evidence", ("evidence",), numeric=False),
        Column("seeds", ("n",), help="behind the hypothesis with the fewest"),
        Column("more seeds to decide", ("more_seeds",)),
        Column("source", ("source",), numeric=False),
    )
    rows = []
    for result in results.claims:
        more, evidence = result.more_seeds, evidence_text(result)
        rows.append(
            (
                Cell(result.claim.statement, (result.claim.id, result.claim.statement)),
                Cell(result.verdict, (result.verdict,), mark=result.verdict),
                Cell(evidence, (evidence,)),
                Cell(str(result.n), (result.n,), result.n),
                Cell(
                    formatting.DASH if more is None or not more else str(more),
                    (more,),
                    math.inf if more is None else more,
                ),
                Cell(result.claim.source, (result.claim.source,)),
            )
        )
    note = (
        "Reproduced: every hypothesis of the statement, that is every pair of variants that differ in nothing else, "
        "is shown at 5 %. Contradicted: at least one hypothesis is shown to be false, Holm-adjusted over the hypotheses. "
        f"Undecided: neither. Where a source says far, little or reaches, ±{margin_text(results)} is read, this study's "
        "margin; intervals at 90 % go with one-sided tests at 5 %. A published figure is one run's: to be contradicted it "
        "must lie further off than one more run here would. "
        "Statements are checked at this study's own scale, which is rarely that of the source."
    )
    return Table("claims", "Published statements and what these runs say of them.", columns, tuple(rows), (note,))


def runs_table(results: Results, variant: str, linked: bool = True) -> Table:
    """Each run of a variant, with its difference to the baseline on the same seed; `linked` to its record."""
    study, runs = results.study, results.study.runs
    chosen = runs[runs["variant"] == variant]
    metrics = [metric for metric in METRICS if metric in results.means]
    columns = (
        Column("run", numeric=False),
        Column("run id", numeric=False),
        Column("seed"),
        Column("status", numeric=False),
        Column("epochs"),
        *(Column(f"{metric.label}{metric.unit}") for metric in metrics),
        Column(f"difference to {baseline_name(results)}{points(study.metric)}"),
        Column("device s"),
    )
    base = results.values[study.baseline]
    rows = []
    for run in chosen.to_dict("records"):
        own = results.values[variant].get(run["seed"], math.nan)
        less = (own - base.get(run["seed"], math.nan)) * study.metric.scale
        rows.append(
            (
                Cell(run["run"], href=run_link(results, run) if linked else ""),
                Cell(str(run["run_id"] or formatting.DASH)),
                Cell(str(run["seed"]), sort=run["seed"]),
                Cell(run["status"], mark=run["status"] if run["status"] != "finished" else ""),
                Cell(formatting.count(run["epochs"]), sort=run["epochs"]),
                *(
                    Cell(formatting.number(run[metric] * metric.scale, 2 if metric.is_share else 4), sort=run[metric])
                    for metric in metrics
                ),
                Cell(formatting.number(less, 2 if study.metric.is_share else 4, signed=True), sort=less),
                Cell(formatting.number(run["device_seconds"], 1), sort=run["device_seconds"]),
            )
        )
    return Table(f"runs-v{results.variants.index(variant)}", f"Runs of {variant}", columns, tuple(rows))


def run_link(results: Results, run: dict) -> str:
    """From the report's folder to the run's record; nothing where there is no record to look at."""
    from urllib.parse import quote

    return f"../{quote(run['run'])}/summary.json" if results.study.folder and run["status"] in ENDED else ""


def main_notes(results: Results) -> tuple[str, ...]:
    """What the marks of the main table mean."""
    metric, margin = results.study.metric, margin_text(results)
    notes = []
    if results.best is not None:
        notes.append(
            "Bold: the best mean." + (f" †: shown to be within ±{margin} of it." if results.equal_to_best else "")
        )
    if any(math.isnan(formatting.half_width(results.mean(variant))) for variant in results.variants):
        notes.append(
            f"A {metric.label} without ± is of one seed, of equal ones or of none, which says nothing of the spread."
        )
    return tuple(notes)


def comparison_notes(results: Results, compared: Sequence[Comparison]) -> tuple[str, ...]:
    """How the columns of a table of comparisons are to be read; `compared` is what stands in it."""
    family = len(compared)
    level = "5 %" if family == 1 else f"5 %/{family}, the strictest level of this family"
    notes = [
        f"Intervals are at 95 % and of the single comparison; {NOT_ADJUSTED} p and equivalence p are Holm-adjusted over "
        f"the {family} comparison{'s' * (family != 1)} of this table; the verdict uses "
        f"5 % and the margin of ±{margin_text(results)} that the study states. Effect is the mean difference over "
        "its standard deviation (Hedges). "
        f"Detectable is the smallest true difference that these seeds would find with 80 % power at {level}. Seeds to "
        "decide is the number, in all, that would "
        "give a verdict with that power if the observed difference and spread were the true ones; from fewer than "
        f"{FEW_SEEDS} seeds it is a guess."
    ]
    if any(c.n > 2 and c.diff.low == c.diff.high for c in compared):
        notes.append(
            "Where every seed gave the same difference (two kinds at a ceiling, say), p is the limit of a spread that "
            "vanishes: it says that nothing scattered, and is no test."
        )
    return tuple(notes)


def _comparison_columns(metric: str) -> tuple[Column, ...]:
    return (
        Column("pairs", ("n", "dropped"), help="seeds used; in brackets those that one side lacks"),
        Column(f"difference{points(metric)}", ("diff", "diff_low", "diff_high")),
        Column("95 % interval", ()),
        Column("effect", ("effect",)),
        Column("p", ("p", "p_holm")),
        Column(
            "P(better)",
            ("improvement", "improvement_low", "improvement_high"),
            help="share of seeds on which it is the better one",
        ),
        Column("equivalence p", ("tost_p", "tost_p_holm")),
        Column("verdict", ("verdict",), numeric=False),
        Column(f"detectable{points(metric)}", ("detectable",)),
        Column("seeds to decide", ("seeds_needed",)),
    )


def _comparison_cells(results: Results, variant: str, c: Comparison) -> tuple[Cell, ...]:
    metric = results.study.metric
    scale, places = metric.scale, formatting.decimals(formatting.half_width(c.diff) * metric.scale)
    needed = {
        True: str(c.seeds_needed),
        False: f"> {formatting.count(MOST_SEEDS)}" if math.isfinite(c.detectable) else formatting.DASH,
    }[c.seeds_needed is not None]
    return (
        Cell(f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""), (c.n, c.dropped), c.n),
        difference_cell(c, metric, anchor(results, variant)),
        Cell(formatting.bounds(c.diff, scale), (), c.diff.low),
        Cell(formatting.number(c.effect, 2, signed=True), (c.effect,), c.effect),
        Cell(formatting.p_value(c.p_holm), (c.p, c.p_holm), c.p_holm),
        Cell(
            formatting.number(c.improvement.value, 2),
            (c.improvement.value, c.improvement.low, c.improvement.high),
            c.improvement.value,
        ),
        Cell(formatting.p_value(c.tost_p_holm), (c.tost_p, c.tost_p_holm), c.tost_p_holm),
        verdict_cell(c),
        Cell(formatting.number(c.detectable * scale, places), (c.detectable,), c.detectable),
        Cell(needed, (c.seeds_needed,), c.seeds_needed if c.seeds_needed is not None else math.inf),
    )


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _ratio(a: float, b: float) -> float:
    return a / b if math.isfinite(a) and math.isfinite(b) and b else math.nan


def _bytes(value: float) -> str:
    return formatting.DASH if not math.isfinite(value) else f"{formatting.magnitude(value)}B"
