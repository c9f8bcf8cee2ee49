"""A study's runs as trials in Optuna's database, for Optuna's dashboard: a copy that is made from the records."""

from collections.abc import Callable
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState, create_trial

from experiments.errors import format_level
from experiments.metric import Metric
from experiments.study import StudyPlan
from sweeps.optuna_db import DATABASE, DatabaseErrors, open_storage, open_study, reason
from sweeps.study_folder import StudyFolder

VERSION = 3
CONTENTS = "contents"  # user attribute of the study: version, metric and levels; where they differ, it is made anew
NOTE = (
    "Each trial is one run of an ablation study; its value is the run's validation metric at the end. "
    "The best trial is the best single run: a variant with a lucky seed. vit-report compares the variants."
)


def write_trials(folder: StudyFolder, say: Callable[[str], None]) -> None:
    """Write the runs that have ended into Optuna's database, with their levels as parameters.

    `say` prints a line. Where the database cannot be used, a line says so.
    """
    try:
        _write_trials(folder, say)
    except DatabaseErrors as error:
        say(f"{folder.dir / DATABASE}: cannot be used ({reason(error)}); Optuna's dashboard lacks these runs")


def _write_trials(folder: StudyFolder, say: Callable[[str], None]) -> None:
    plan = folder.plan
    metric = Metric(plan.metric).on_validation  # choices never use the test set, so dashboards do not show it
    levels = {factor: _texts(plan, factor) for factor in dict.fromkeys(f for run in plan.runs for f in run.levels)}
    contents = {"version": VERSION, "metric": metric, "levels": levels}
    storage, _ = open_storage(folder.dir, say)
    study = open_study(storage, plan.name, Metric(metric))
    trials = study.get_trials(deepcopy=False)
    if trials and study.user_attrs.get(CONTENTS) != contents:
        say(f"{folder.dir / DATABASE}: made anew from the records: it has other levels, or is of another version")
        optuna.delete_study(study_name=plan.name, storage=storage)
        study, trials = open_study(storage, plan.name, Metric(metric)), []
    study.set_user_attr(CONTENTS, contents)
    study.set_user_attr("note", NOTE)
    known = {trial.user_attrs["run_id"] for trial in trials}
    for run in plan.runs:
        if run.name in folder.ended and run.run_id not in known:
            summary = folder.ended[run.name]
            state, value = _result(summary, metric)
            trial = create_trial(
                state=state,
                value=value,
                params={factor: level_text(level) for factor, level in run.levels.items()},
                distributions={factor: CategoricalDistribution(levels[factor]) for factor in run.levels},
                user_attrs={**run.model_dump(by_alias=True, exclude={"levels"}), "status": summary["status"]},
            )
            study.add_trial(trial)


def _result(summary: dict[str, Any], metric: str) -> tuple[TrialState, float | None]:
    """The state and the value of the trial of a run with this summary. A diverged run has no value."""
    value = summary.get(metric)
    if summary["status"] == "finished" and value is not None:
        return TrialState.COMPLETE, value
    return (TrialState.PRUNED, value) if summary["status"] == "pruned" else (TrialState.FAIL, None)


def _texts(plan: StudyPlan, factor: str) -> list[str]:
    """The levels of a factor as text, in the order of the plan. Optuna takes no list as a choice."""
    return list(dict.fromkeys(level_text(run.levels[factor]) for run in plan.runs if factor in run.levels))


def level_text(level: Any) -> str:
    """A level as text; one of linked factors is a list."""
    return ", ".join(map(format_level, level)) if isinstance(level, list) else format_level(level)
