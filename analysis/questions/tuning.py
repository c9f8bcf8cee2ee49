"""How were the settings of each variant tuned, and which choices may be luck?"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import words
from analysis.figures.style import Plot
from analysis.figures.values import draw_trials
from analysis.findings import Findings
from analysis.findings.columns import variant_table
from analysis.runs.runs import Runs
from analysis.write.document import Section, Warn, about, present
from analysis.write.table import Column, Table
from experiments.config import DEFAULTS, LOCATIONS
from experiments.metric import Metric
from experiments.tuned import Range, Tuned

NAMES = {"optim.lr": "learning rate", "optim.weight_decay": "weight decay", "optim.warmup_epochs": "warm-up epochs"}
SEARCHES = {
    "tpe": "Optuna's tree-structured Parzen estimator (TPE)",
    "random": "random search",
    "qmc": "a quasi-random sequence (Sobol)",
}
PRUNERS = {"halving": ", by successive halving (ASHA)", "hyperband": ", by Hyperband"}
STATUSES = {
    "finished": "finished",
    "pruned": "were stopped early",
    "diverged": "diverged",
    "failed": "ended with an error",
}
TOO_HIGH = (
    "The accuracy of the chosen trial is the best of several, so it is too high. The comparison uses other seeds."
)
COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")


@dataclass(frozen=True)
class Tuning:
    """A tuning: its plan, the metric that decided, and the variants of the study that were tuned.

    `trials`: a row for each trial: `COLUMNS`, then the settings of the space; metrics of trials without a value are
    NaN. `leads`: variant -> how far its choice is ahead of the best finished trial with other settings; NaN if none.
    """

    plan: Tuned
    metric: Metric
    variants: list[str]
    trials: pd.DataFrame
    leads: dict[str, float]

    @property
    def choices(self) -> int:
        """How many different settings were chosen."""
        return len({str(self.plan.variants[variant].settings) for variant in self.variants})


def study_tuning(study: Runs) -> Tuning | None:
    """The tuning of a study; None for a study that was not tuned."""
    plan = study.plan.tuned
    if plan is None:
        return None
    rows = [{**trial.model_dump(by_alias=True), **trial.settings} for trial in plan.trials]
    trials = pd.DataFrame(rows, columns=[*COLUMNS, *plan.space]).astype({"val/acc": float, "val/loss": float})
    variants = [variant for variant in study.variants if variant in plan.variants]
    return Tuning(plan, Metric(plan.objective), variants, trials, {v: _lead(plan, v) for v in variants})


def _lead(plan: Tuned, variant: str) -> float:
    chosen, trials = plan.variants[variant], [trial for trial in plan.trials if trial.variant == variant]
    others = [trial for trial in trials if trial.status == "finished" and trial.settings != chosen.settings]
    return chosen.val_acc - max((trial.val_acc for trial in others if trial.val_acc is not None), default=math.nan)


def _seed_sd(plan: Tuned) -> float:
    """The standard deviation between the seeds of a finished trial, pooled over trials; NaN if none has two seeds."""
    values = [list((trial.accuracies or {}).values()) for trial in plan.trials if trial.status == "finished"]
    groups = [np.array(x, float) for x in values if len(x) > 1]
    df = sum(len(group) - 1 for group in groups)
    return math.sqrt(sum(float(((x - x.mean()) ** 2).sum()) for x in groups) / df) if df else math.nan


def _other_base(plan: Tuned, study: Runs) -> dict[str, tuple[Any, Any]]:
    """Setting of the base that differs -> (in the tuning, in the study). Those of `eval` change no training."""
    ignored = {*plan.space, *study.varied, *LOCATIONS, "seed"}
    paths = [path for path in DEFAULTS if path not in ignored and not path.startswith("eval.")]
    pairs = {path: (plan.base.get(path, DEFAULTS[path]), study.base.get(path, DEFAULTS[path])) for path in paths}
    return {path: (before, now) for path, (before, now) in pairs.items() if before != now}


def question(findings: Findings) -> Section | None:
    """How the variants were tuned; nothing where they were not."""
    tuning = study_tuning(findings.study)
    if tuning is None:
        return None
    items = present(choices_table(tuning, findings), _plot(tuning, findings))
    warnings, frames = _warnings(tuning, findings.study), {"tuning-trials": tuning.trials}
    return Section("tuning", "Tuning", items, [_about(tuning)], warnings=warnings, frames=frames)


def _name(path: str) -> str:
    return NAMES.get(path, path)


def _range(tried: Range) -> str:
    if tried.choices is not None:
        return words.listing(list(map(words.setting, tried.choices)), "or")
    return f"{words.setting(tried.low)} to {words.setting(tried.high)}{' (log scale)' if tried.log else ''}"


def _chosen(tuning: Tuning) -> str:
    """How many settings were tried and chosen, in one sentence."""
    plan, trials = tuning.plan, tuning.trials
    tried = len(trials[list(plan.space)].astype(str).drop_duplicates())
    lengths = sorted((trials.loc[trials["status"] == "finished", "epochs"] // plan.seeds_per_trial).unique())
    a_seed = " a seed" if plan.seeds_per_trial > 1 else ""
    stopped = ", unless stopped early" if "pruned" in set(trials["status"]) else ""
    return (
        f"Tuning chose {tuning.choices} of {words.plural(tried, 'different setting')} for "
        f"{words.plural(len(tuning.variants), 'variant')}, each from {words.plural(plan.budget, 'trial')} of "
        f"{words.plural(plan.seeds_per_trial, 'seed')} and {words.listing(lengths, 'or')} epochs{a_seed}{stopped}."
    )


def _about(tuning: Tuning) -> str:
    plan, trials = tuning.plan, tuning.trials
    seeds = sorted({seed for trial in plan.trials for seed in trial.seeds})
    epochs = sorted(own.epochs for own in plan.variants.values())
    length = words.count(epochs[0]) + (f" to {words.count(epochs[-1])}" if epochs[-1] > epochs[0] else "")
    used = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    several = (
        f"The validation accuracy of a trial is the mean over {plan.seeds_per_trial} seeds; its first seed decides "
        "whether it is stopped early."
    )
    said = [
        f"Tuned for each variant separately, before this comparison: {', '.join(map(_name, plan.space))}.",
        f"Search: {SEARCHES.get(plan.sampler, plan.sampler)}.",
        _chosen(tuning),
        several if plan.seeds_per_trial > 1 else "",
        f"Stopped early for a low validation accuracy{PRUNERS.get(plan.pruner, '')}: "
        f"{(trials['status'] == 'pruned').sum()} of {words.plural(len(trials), 'trial')}.",
        f"Epochs trained in all trials of a variant: {length}.",
        f"The trials used validation images only, and {used}, which this comparison does not use.",
        f"Tried: {'; '.join(f'{_name(path)} {_range(tried)}' for path, tried in plan.space.items())}.",
        "The chosen trial is the best of several, so its lead is too large on average.",
    ]
    return " ".join(said)


def _warnings(tuning: Tuning, study: Runs) -> list[Warn]:
    """Where a choice lies at an end of its range or may be luck, and trials with other settings."""
    plan, warnings = tuning.plan, list[Warn]()
    for path, tried in plan.space.items():
        if at_edge := [v for v in tuning.variants if tried.edge(plan.variants[v].settings[path])]:
            line = f"Tuning: the {_name(path)} chosen for {words.names(at_edge)} is at or near an end of its range."
            warnings.append(Warn(line, f"Tried: {_range(tried)}. Values outside it may be better; widen it."))
    won = f"Tuning: {words.plural(tuning.choices, 'setting')} won for {words.plural(len(tuning.variants), 'variant')}"
    sd = _seed_sd(plan) * tuning.metric.scale
    spread = (
        f"The standard deviation between the seeds of a trial is {words.number(sd, 2)}{tuning.metric.points}; a trial "
        f"is the mean over {plan.seeds_per_trial}."
    )
    unknown = Warn(f"{won}; a trial has one seed, so a choice may be luck.")
    warnings.append(Warn(f"{won}.", spread) if math.isfinite(sd) else unknown)
    if differing := _other_base(plan, study):
        show = words.setting
        pairs = (f"{path} {show(before)} instead of {show(now)}" for path, (before, now) in differing.items())
        warnings.append(Warn("Tuning: the trials had other settings than the runs.", f"{', '.join(pairs)}."))
    return about("tuning", warnings)


def _plot(tuning: Tuning, findings: Findings) -> Plot | None:
    """Every trial against the learning rate, else the first setting with a range; None where all have choices only."""
    plan, metric, styles = tuning.plan, tuning.metric, findings.styles
    ranges = [path for path, tried in plan.space.items() if tried.choices is None]
    path = "optim.lr" if "optim.lr" in ranges else next(iter(ranges), None)
    if path is None:
        return None
    tips = [_tip(tuning, row) for row in tuning.trials.to_dict("records")]
    trials = tuning.trials.assign(x=tuning.trials[path], y=tuning.trials[metric], tip=tips)
    choices = {variant: plan.variants[variant] for variant in tuning.variants}
    chosen = [(v, choice.settings[path], choice.val_acc, "chosen", "chosen") for v, choice in choices.items()]
    trials = pd.concat([trials, pd.DataFrame(chosen, columns=["variant", "x", "y", "status", "tip"])])
    axis, log = "peak learning rate" if path == "optim.lr" else _name(path), plan.space[path].log
    caption = (
        f"Tuning: validation accuracy of each trial against its {_name(path)}. Large mark: the trial that was chosen. "
        "Small mark: a finished trial. Hollow mark: a trial that was stopped early, with its last validation accuracy. "
        "Trials that diverged have none."
    )
    return Plot("tuning", lambda: draw_trials(trials, axis, log, metric, styles), caption)


def _tip(tuning: Tuning, trial: dict[Any, Any]) -> str:
    """`trial 3: 93.1 %, finished after 30 epochs; lr = 0.004, ...`"""
    settings = ", ".join(f"{path.rpartition('.')[2]} = {words.setting(trial[path])}" for path in tuning.plan.space)
    ended = f"{trial['status']} after {words.plural(trial['epochs'], 'epoch')}"
    return f"trial {trial['trial']}: {words.value(trial[tuning.metric], tuning.metric)}, {ended}; {settings}"


def choices_table(tuning: Tuning, findings: Findings) -> Table:
    """The settings chosen for each variant, and what its trials cost."""
    metric, chosen, space = tuning.metric, tuning.plan.variants, tuning.plan.space
    counts = pd.crosstab(tuning.trials["variant"], tuning.trials["status"])
    statuses = [status for status in STATUSES if status in counts]
    fields = {
        variant: {
            **chosen[variant].settings,
            metric: chosen[variant].val_acc,
            "lead": tuning.leads[variant],
            **counts.loc[variant, statuses],
            "epochs": chosen[variant].epochs,
        }
        for variant in tuning.variants
    }

    def column(label: str, field: str, show: words.Format, note: str = "") -> Column:
        return Column(label, lambda row: fields[row.variant][field], show, field, note=note)

    accuracy, seeds = words.numbers(scale=metric.scale), tuning.plan.seeds_per_trial
    mean = "on one seed" if seeds == 1 else f"mean over {seeds} seeds"
    number, lead = words.each(words.setting), "over the best finished trial with other settings"
    columns = (
        *(column(_name(path), path, number if tried.choices is None else words.texts) for path, tried in space.items()),
        column(f"{metric.label}{metric.unit}", metric, accuracy, f"of the trial that was chosen, {mean}"),
        column(f"lead over the second{metric.difference_unit}", "lead", accuracy, lead),
        *(column(status, status, words.counts, f"trials that {STATUSES[status]}") for status in statuses),
        column("epochs", "epochs", words.counts, "trained in all trials of the variant"),
    )
    caption = (
        f"Settings chosen for each variant (those of the finished trial with the highest {metric.label}), and how its "
        "trials ended."
    )
    rows = [row for row in findings.rows if row.variant in tuning.variants]
    return variant_table("tuning", caption, findings, columns, (TOO_HIGH,), rows)
