"""Say how the variants were tuned: the section of the report, its tables, a fact of the methods and warnings."""

from __future__ import annotations

from typing import Any

from analysis import formatting
from analysis.figures.tuning_figures import tuning_plots
from analysis.report.document import Item, Section
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import number_cell, variant_cells, variant_columns
from analysis.results.study_results import StudyResults
from analysis.results.tuning import TuningResults
from experiments.tuned import Range

SAMPLERS = {
    "tpe": "Optuna's tree-structured Parzen estimator (TPE)",
    "random": "random search",
    "qmc": "a quasi-random sequence (Sobol)",
}
PRUNERS = {"halving": "Successive halving (ASHA)", "hyperband": "Hyperband"}
STATUSES = ("finished", "pruned", "diverged", "failed")


def tuning_section(results: StudyResults) -> Section | None:
    """Return the section "Tuning"; None for a study that was not tuned."""
    found = results.tuning
    if found is None:
        return None
    importances = importances_table(results, found)
    items: list[Item] = [choices_table(results, found), *tuning_plots(results)]
    if importances is not None:
        items.append(importances)
    return Section("tuning", "Tuning", items, [budget_text(found)])


def budget_text(found: TuningResults) -> str:
    """Say that the variants were tuned, by which search, with what budget and on what seeds."""
    tuning = found.tuning
    names = formatting.listing([_name(path) for path in tuning.space])
    verb = "were" if len(tuning.space) > 1 else "was"
    seeds = sorted(found.trials["seed"].unique())
    epochs = sorted(choice.epochs for choice in tuning.variants.values())
    trained = ""
    if epochs[0] < epochs[-1]:
        trained = f" The trials of a variant trained {epochs[0]} to {epochs[-1]} epochs in total."
    return (
        f"Before this comparison, {names} {verb} tuned for each variant separately, by "
        f"{SAMPLERS.get(tuning.sampler, tuning.sampler)}. Every variant had the same budget: "
        f"{formatting.plural(tuning.budget, 'trial')}. {_stopped(found)}{trained} "
        f"The trials used validation images only, and seeds {seeds[0]} to {seeds[-1]}, which this comparison does not use. "
        f"Tried: {'; '.join(f'{_name(path)} {_range(tried)}' for path, tried in tuning.space.items())}."
    )


def _stopped(found: TuningResults) -> str:
    """Say how many trials were stopped early for a low accuracy."""
    trials = found.trials
    stopped, pruner = int((trials["status"] == "pruned").sum()), PRUNERS.get(found.tuning.pruner)
    if not stopped:
        return f"{pruner} stopped no trial early." if pruner else "No trial was stopped early for a low accuracy."
    which = f"{stopped} of {formatting.plural(len(trials), 'trial')} early, because of a low validation accuracy"
    return f"{pruner or 'The pruner'} stopped {which}."


def choices_table(results: StudyResults, found: TuningResults) -> Table:
    """Return the settings chosen for each variant, and what its trials cost."""
    tuning, metric = found.tuning, found.metric
    columns = (
        *variant_columns(results),
        *(Column(_name(path), (path,), numeric=tried.low is not None) for path, tried in tuning.space.items()),
        Column(f"{metric.label}{metric.unit}", (metric,), help="of the trial that was chosen, on one seed"),
        *(Column(status, (status,), help=f"trials that {_ended(status)}") for status in _statuses(found)),
        Column("epochs", ("epochs",), help="trained in all trials of the variant"),
    )
    rows = []
    for variant in found.expected:
        choice, counts = tuning.variants[variant], found.of(variant)["status"].value_counts()
        rows.append(
            (
                *variant_cells(results, variant),
                *(_setting_cell(choice.settings[path]) for path in tuning.space),
                number_cell(choice.val_acc, metric.scale, 2 if metric.is_share else 4),
                *(Cell(str(int(counts.get(s, 0))), (int(counts.get(s, 0)),)) for s in _statuses(found)),
                Cell(formatting.count(choice.epochs), (choice.epochs,), choice.epochs),
            )
        )
    caption = (
        f"Settings chosen for each variant (those of the finished trial with the highest {metric.label}), and how its trials "
        "ended."
    )
    note = (
        "The accuracy of the chosen trial is the best of several, so it is too high as an estimate. The comparison uses other "
        "seeds."
    )
    return Table("tuning", caption, columns, tuple(rows), (note,))


def importances_table(results: StudyResults, found: TuningResults) -> Table | None:
    """Return Optuna's importances of the settings; None where they are not known for any variant."""
    tuning = found.tuning
    known = [variant for variant in found.expected if tuning.variants[variant].importances]
    if not known:
        return None
    columns = (*variant_columns(results), *(Column(_name(path), (path,)) for path in tuning.space))
    rows = tuple(
        (
            *variant_cells(results, variant),
            *(number_cell(tuning.variants[variant].importances.get(path, float("nan")), 1, 2) for path in tuning.space),
        )
        for variant in known
    )
    caption = (
        "Importance of each setting for the validation accuracy of the trials, as a share of 1 (fANOVA, by Optuna)."
    )
    note = (
        "A trial that was stopped early counts with its last validation accuracy, one that diverged with 0. With few trials the "
        "values are imprecise."
    )
    return Table("tuning-importances", caption, columns, rows, (note,))


def tuning_facts(results: StudyResults) -> list[tuple[str, str]]:
    """Return the methods of the tuning; empty for a study that was not tuned."""
    if results.tuning is None:
        return []
    return [
        (
            "Expected best",
            "The mean of the largest validation accuracy in n of the trials, over all choices of n (Dodge et al., 2019; without "
            "replacement as by Tang et al., 2020). It holds for independent trials, as in random search; for other samplers it "
            "describes the trials made. A trial that diverged or failed counts as 0.",
        )
    ]


def tuning_warnings(results: StudyResults) -> list[str]:
    """Say where the choice lies at an end of its range, and where the trials had other settings than the runs."""
    found = results.tuning
    if found is None:
        return []
    edges = [
        f"Tuning: the {_name(path)} chosen for {formatting.listing(variants)} is at or near an end of the range that was tried "
        f"({_range(found.tuning.space[path])}). Values outside it may be better."
        for path, variants in found.at_edge.items()
    ]
    others = [
        f"{path} {formatting.setting(before)} instead of {formatting.setting(now)}"
        for path, (before, now) in found.other_base.items()
    ]
    if others:
        edges.append(f"Tuning: the trials had other settings than the runs: {formatting.listing(others)}.")
    return edges


def _statuses(found: TuningResults) -> list[str]:
    """The statuses that a trial has, finished first."""
    return [status for status in STATUSES if (found.trials["status"] == status).any()]


def _ended(status: str) -> str:
    return {"pruned": "were stopped early", "diverged": "diverged", "failed": "ended with an error"}.get(
        status, "finished"
    )


def _name(path: str) -> str:
    """A setting as a reader calls it: `learning rate`."""
    names = {"optim.lr": "learning rate", "optim.weight_decay": "weight decay", "optim.warmup_epochs": "warm-up epochs"}
    return names.get(path, path)


def _range(tried: Range) -> str:
    if tried.choices is not None:
        return formatting.listing([formatting.setting(choice) for choice in tried.choices], "or")
    return f"{formatting.setting(tried.low)} to {formatting.setting(tried.high)}{' (log scale)' * tried.log}"


def _setting_cell(value: Any) -> Cell:
    return Cell(formatting.setting(value), (value,), float(value) if isinstance(value, int | float) else None)
