"""How do differences between variants change with the length of training or the number of training images?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from analysis import verdicts, words
from analysis.figures.lines import draw_along
from analysis.figures.style import Plot
from analysis.figures.styles import row_styles
from analysis.findings import Findings
from analysis.findings.columns import signed_column
from analysis.findings.variants import Variants, levels_by_variant, names_by_levels
from analysis.runs.runs import Runs, factor_levels
from analysis.verdicts.comparisons import compare
from analysis.verdicts.study import Policy
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from experiments.metric import Metric

CONDITIONS = {"train.epochs": "epochs", "data.train_limit": "training images"}
"""The factors along which differences are followed, with the unit of their levels."""
HEADINGS = {"epochs": "Training length", "training images": "Number of training images"}
STEPS = "Where the numbers of epochs are equal, fewer images are also fewer training steps; the two are not separated."


@dataclass(frozen=True)
class Trend:
    """Differences along a condition. A row is a variant without the condition; points are levels of the condition.

    `name`: "lengths", "epochs" or "train_limit"; `unit`: of its points; `metric`: at its end. `diffs`: every other row
    -> point -> mean difference from the row `baseline`. `missing`: planned rows without a finished run. `planned`:
    whether intervals have the level of a planned look.
    """

    name: str
    unit: str
    metric: Metric
    points: list[int]
    baseline: str
    diffs: dict[str, dict[int, verdicts.Estimate]]
    missing: list[str]
    planned: bool

    @property
    def seeds(self) -> list[int]:
        """Numbers of seeds of the differences."""
        return [diff.n for diffs in self.diffs.values() for diff in diffs.values()]

    @property
    def about(self) -> str:
        """What the differences are, for captions."""
        start = f"Differences in {self.metric.label} from {words.quoted(self.baseline)}"
        return f"{start}, over the seeds of both, by number of {self.unit}"


def study_trends(study: Runs, variants: Variants, policy: Policy) -> list[Trend]:
    """Every trend of a study with at least two rows and two points; none before the first planned look."""
    policy = replace(policy, looks=policy.looks.of(study.variants))  # the rows of a trend have the same seeds
    runs = study.tested(policy.looks)
    if runs.empty or policy.unit == "run":  # rows are compared by seed
        return []
    trends = [_lengths(study, runs, policy)]
    trends += [_along(study, variants, runs, factor, policy) for factor in study.factors if factor in CONDITIONS]
    return [trend for trend in trends if trend is not None]


def _lengths(study: Runs, runs: pd.DataFrame, policy: Policy) -> Trend | None:
    """The trend of metrics that the runs measured after several numbers of epochs."""
    base = study.metric.base
    columns = {metric.epochs: metric for metric in study.metrics if metric.base == base and metric.epochs}
    if columns and runs["epochs"].nunique() == 1:  # the end of training is a length too
        columns.setdefault(int(runs["epochs"].iloc[0]), Metric(base))
    run = {"row": runs["variant"], "seed": runs["seed"]}
    values = [pd.DataFrame({**run, "point": n, "value": runs[name]}) for n, name in columns.items() if name in runs]
    rows = {variant: variant for variant in study.variants}
    return _trend("lengths", "epochs", study, pd.concat(values), rows, policy) if values else None


def _along(study: Runs, variants: Variants, runs: pd.DataFrame, condition: str, policy: Policy) -> Trend | None:
    """The trend along a factor of the study."""
    rows = names_by_levels(levels_by_variant(study).drop(columns=condition), variants.factors)
    points = pd.to_numeric(factor_levels(runs, condition), errors="coerce")
    if condition == "data.train_limit":  # none: all images
        points = points.fillna(runs["train_images"])
    frame = {"row": runs["variant"].map(rows), "point": points, "seed": runs["seed"], "value": runs[study.metric]}
    values = pd.DataFrame(frame).dropna(subset=["row", "point"]).astype({"point": int})
    return _trend(condition.rpartition(".")[2], CONDITIONS[condition], study, values, rows, policy)


def _trend(
    name: str, unit: str, study: Runs, values: pd.DataFrame, rows_of: Mapping[str, str], policy: Policy
) -> Trend | None:
    """The trend from its values: columns row, point, seed and value. `rows_of`: variant -> its row."""
    planned = list(dict.fromkeys(rows_of.values()))
    rows, points = [row for row in planned if row in set(values["row"])], sorted(set(values["point"]))
    baseline = rows_of.get(study.baseline, "")
    if len(rows) < 2 or len(points) < 2 or baseline not in rows:
        return None
    table = values.pivot_table(index="seed", columns=["row", "point"], values="value", aggfunc="last", dropna=False)
    table = table.reindex(columns=pd.MultiIndex.from_product([rows, points]))
    others = [row for row in rows if row != baseline]
    pairs = [(row, baseline) for row in others]
    at_point = {at: {row: table[row, at].to_dict() for row in rows} for at in points}
    compared = {at: compare(by_row, pairs, policy) for at, by_row in at_point.items()}
    metric = Metric(study.metric.base) if name == "lengths" else study.metric
    diffs = {row: {at: here[row, baseline].diff for at, here in compared.items()} for row in others}
    missing = [row for row in planned if row not in rows]
    return Trend(name, unit, metric, points, baseline, diffs, missing, policy.looks.several)


def question(findings: Findings) -> Section | None:
    """How differences change along each condition."""
    trends = study_trends(findings.study, findings.variants, findings.policy)
    if not trends:
        return None
    items = [item for trend in trends for item in present(_plot(trend, findings), differences_table(trend))]
    headings = dict.fromkeys(HEADINGS[trend.unit] for trend in trends)
    left_out = [said for trend in trends for said in _left_out(trend, len(findings.study.of("diverged")))]
    return Section("trends", words.listing(list(headings)), items, left_out)


def _left_out(trend: Trend, diverged: int) -> list[str]:
    """The runs that the trend lacks, and what else its condition changes."""
    missing = f"Left out, because no run that counts here has finished: {words.names(trend.missing)}."
    lost = f"Diverged runs, left out here: {diverged}."
    return (
        ([missing] if trend.missing else [])
        + ([lost] if diverged else [])
        + ([STEPS] if trend.unit == "training images" else [])
    )


def _plot(trend: Trend, findings: Findings) -> Plot:
    styles, metric = row_styles(list(trend.diffs), findings.styles), trend.metric
    diffs = {row: list(by_point.values()) for row, by_point in trend.diffs.items()}
    labels = trend.unit, f"difference{metric.difference_unit}"
    caption = (
        f"{trend.about}. Bars: {words.CONFIDENCE} intervals over {words.seeds(trend.seeds)}; they "
        f"{words.alone(trend.planned)}.{styles.grey_note} The distances along the axis are not to scale."
    )
    shown = trend.points, labels, trend.unit, metric, styles
    return Plot(f"trend-{trend.name}", lambda: draw_along(trend.name, {"": diffs}, *shown, differences=True), caption)


def differences_table(trend: Trend) -> Table:
    """The differences from the baseline at each point."""
    rows = [{"variant": row, **{f"at_{at}": diffs[at] for at in trend.points}} for row, diffs in trend.diffs.items()]
    columns = (signed_column(trend.metric, f"{at:,} {trend.unit}", f"at_{at}") for at in trend.points)
    caption = f"{trend.about}: mean and {words.CONFIDENCE} interval, {words.seeds(trend.seeds)}."
    notes = (f"Intervals {words.alone(trend.planned)}.",)
    return Table(f"trend-{trend.name}", caption, rows, (Column("variant", "variant", key=True), *columns), notes=notes)
