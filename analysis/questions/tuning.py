"""How were the settings of each variant tuned, and which choices may be luck?"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis import words
from analysis.figures.drawing import ONLY_COLOURED
from analysis.figures.style import Plot
from analysis.figures.values import draw_trials
from analysis.findings import Findings
from analysis.findings.columns import variant_table
from analysis.findings.rows import VariantRow
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from experiments.metric import Metric
from experiments.tuned import Range, Tuned

NAMES = {"optim.lr": "learning rate", "optim.weight_decay": "weight decay", "optim.warmup_epochs": "warm-up epochs"}
COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")
TOO_HIGH = (
    "The accuracy of the chosen trial is the best of several, so it is too high. The comparison uses other seeds."
)


def question(findings: Findings) -> Section | None:
    """How the variants were tuned; nothing where they were not."""
    plan = findings.study.plan.tuning
    if plan is None:
        return None
    trials = trials_of(plan)
    items = present(choices_table(plan, trials, findings), _plot(plan, trials, findings))
    frames = {"tuning-trials": trials}
    return Section("tuning", "Tuning", items, [_about(plan, trials)], frames=frames)


def trials_of(plan: Tuned) -> pd.DataFrame:
    """A row for each trial: `COLUMNS`, then the settings of the space; metrics of trials without a value are NaN."""
    rows = [{**trial.model_dump(by_alias=True), **trial.settings} for trial in plan.trials]
    return pd.DataFrame(rows, columns=[*COLUMNS, *plan.space]).astype({"val/acc": float, "val/loss": float})


def trials_text(plan: Tuned) -> str:
    """`6 trials`, or `4 to 6 trials` where the variants have different numbers of them."""
    fewest = min(Counter(trial.variant for trial in plan.trials).values())
    return f"{fewest} to " * (fewest < plan.budget) + words.plural(plan.budget, "trial")


def _name(path: str) -> str:
    return NAMES.get(path, path)


def _range(tried: Range) -> str:
    if tried.choices is not None:
        return words.listing(list(map(words.setting, tried.choices)), "or")
    return f"{words.setting(tried.low)} to {words.setting(tried.high)}{' (log scale)' if tried.log else ''}"


def _about(plan: Tuned, trials: pd.DataFrame) -> str:
    """What was searched, how, on which seeds."""
    seeds = sorted({seed for trial in plan.trials for seed in trial.seeds})
    used = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    stopped = int((trials["status"] == "pruned").sum())
    tried = "; ".join(f"{_name(path)} {_range(tried)}" for path, tried in plan.space.items())
    return (
        f"Tuned for each variant by validation accuracy, before this comparison: {tried}. Search: {plan.sampler}, "
        f"{trials_text(plan)} of {words.plural(plan.seeds_per_trial, 'seed')}, {stopped} of them "
        f"stopped early. The trials used {used}, which this comparison does not use."
    )


def _plot(plan: Tuned, trials: pd.DataFrame, findings: Findings) -> Plot | None:
    """Every trial against the learning rate, else the first setting with a range; None where all have choices only."""
    metric, styles = Metric(plan.objective), findings.styles
    ranges = [path for path, tried in plan.space.items() if tried.choices is None]
    path = "optim.lr" if "optim.lr" in ranges else next(iter(ranges), None)
    if path is None:
        return None
    tips = [_tip(plan, row) for row in trials.to_dict("records")]
    chosen = [(v, own.settings[path], own.val_acc, "chosen", "chosen") for v, own in plan.variants.items()]
    choices = pd.DataFrame(chosen, columns=["variant", "x", "y", "status", "tip"])
    drawn = pd.concat([trials.assign(x=trials[path], y=trials[metric], tip=tips), choices])
    axis, log = "peak learning rate" if path == "optim.lr" else _name(path), plan.space[path].log
    tried = trials.groupby("variant")[path].agg(["min", "max"]).T
    chosen_of = {v: plan.variants[v].settings[path] for v in findings.variants.brief if v in plan.variants}
    ends = [findings.variants.brief[v] for v, value in chosen_of.items() if value and value in tried[v].to_numpy()]
    inside = f"At an end of what was tried: {words.names(ends)}." if ends else "None is at an end of what was tried."
    caption = (
        f"Tuning: validation accuracy of each trial against its {_name(path)}. Large mark: the trial that was chosen. "
        f"{inside} Small mark: a finished trial. Hollow mark: a trial that was stopped early, with its last validation "
        "accuracy. Trials that diverged have none; those far below all chosen ones are below the axis."
    )
    curve = len(plan.space) == 1
    caption += " Lines join finished trials." * curve
    caption += f" {ONLY_COLOURED}" * bool(styles.note)
    return Plot("tuning", lambda: draw_trials(drawn, axis, log, metric, styles, curve), caption)


def _tip(plan: Tuned, trial: dict[Any, Any]) -> str:
    """`trial 3: 93.1 %, finished after 30 epochs; lr = 0.004, ...`"""
    settings = ", ".join(f"{path.rpartition('.')[2]} = {words.setting(trial[path])}" for path in plan.space)
    value, epochs = words.value(trial[plan.objective], Metric(plan.objective)), words.plural(trial["epochs"], "epoch")
    return f"trial {trial['trial']}: {value}, {trial['status']} after {epochs}; {settings}"


def choices_table(plan: Tuned, trials: pd.DataFrame, findings: Findings) -> Table:
    """The settings chosen for each variant, and how its trials ended."""
    metric, counts = Metric(plan.objective), pd.crosstab(trials["variant"], trials["status"])
    rows = [row for row in findings.rows if row.variant in plan.variants]

    def setting(path: str, tried: Range) -> Column:
        show = words.each(words.setting) if tried.choices is None else words.texts
        return Column(_name(path), lambda row: plan.variants[row.variant].settings[path], show, path)

    def count(status: str) -> Column:
        return Column(status, lambda row: int(counts.loc[row.variant, status]), words.counts, status)

    def of_variant(name: str) -> Callable[[VariantRow], Any]:
        return lambda row: getattr(plan.variants[row.variant], name)

    show, label = words.numbers(scale=metric.scale), f"{metric.label}{metric.unit}"
    accuracy = Column(label, of_variant("val_acc"), show, metric, note="of the trial that was chosen")
    epochs = Column("epochs of all trials", of_variant("epochs"), words.counts, "epochs")
    settings = (setting(path, tried) for path, tried in plan.space.items())
    columns = (*settings, accuracy, *map(count, counts), epochs)
    caption = f"Settings chosen for each variant: those of the finished trial with the highest {metric.label}."
    return variant_table("tuning", caption, findings, columns, (TOO_HIGH,), rows)
