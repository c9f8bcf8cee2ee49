"""A study's runs as trials in Optuna's database, for Optuna's dashboard: a copy that is made from the records."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState, create_trial

from experiments.metric import Metric
from experiments.runs import record
from experiments.study import RunSpec, StudyPlan
from sweeps.optuna_db import DATABASE, DatabaseErrors, open_storage, open_study, reason
from sweeps.study import format_level

VERSION = 2
CONTENTS = "contents"  # user attribute of the study: version, metric and levels; where they differ, it is made anew
STATUS, REASON = "status", "reason"  # of a trial: how its run ended; why an attempt left no record
REPORTS = 20  # intermediate values of a run at most
REPORT_SECONDS = 2.0  # between them, at least: each is a write
NOTE = (
    "Each trial is one attempt at one run of an ablation study; its value is the run's validation metric at the end. "
    "The best trial is the best single run: a variant with a lucky seed. vit-report compares the variants. "
    'A trial that failed with the reason "interrupted" lost its worker; a later trial continued its run.'
)


class Dashboard:
    """Optuna's study of a plan: a trial for each attempt at a run, with its levels as parameters.

    `say` prints a line. After an error of the database the copy ends with a line; the sweep goes on.
    """

    def __init__(self, plan: StudyPlan, study_dir: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = study_dir, say
        self.metric = Metric(plan.metric).on_validation  # choices never use the test set, so dashboards do not show it
        self.study: optuna.Study | None = None
        self.running: dict[str, optuna.trial.Trial] = {}  # run -> its trial
        self.reported: dict[str, float] = {}  # run -> time of its last intermediate value
        levels = {factor: _texts(plan, factor) for factor in dict.fromkeys(f for run in plan.runs for f in run.levels)}
        self.choices = {factor: CategoricalDistribution(texts) for factor, texts in levels.items()}
        with self._writing():
            self._open(plan, {"version": VERSION, "metric": self.metric, "levels": levels})

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Write to the database in the body, unless it could not be written before."""
        try:
            yield
        except DatabaseErrors as error:
            self.study = None
            self.say(f"{self.folder / DATABASE}: cannot be used ({reason(error)}); Optuna's dashboard lacks this sweep")

    def _open(self, plan: StudyPlan, contents: dict[str, Any]) -> None:
        storage, _ = open_storage(self.folder, self.say)
        study = open_study(storage, plan.name, Metric(self.metric))
        if study.get_trials(deepcopy=False) and study.user_attrs.get(CONTENTS) != contents:
            self.say(
                f"{self.folder / DATABASE}: made anew from the records: it has other levels, or is of another version"
            )
            optuna.delete_study(study_name=plan.name, storage=storage)
            study = open_study(storage, plan.name, Metric(self.metric))
        study.set_user_attr(CONTENTS, contents)
        study.set_user_attr("note", NOTE)
        trials = study.get_trials(deepcopy=False)
        known = {trial.user_attrs["run_id"] for trial in trials if STATUS in trial.user_attrs}
        for run in plan.runs:
            if run.run_id not in known and (summary := record.read_ended(self.folder, run)):
                study.add_trial(self._recorded(run, summary))
        self.study = study

    def _params(self, run: RunSpec) -> dict[str, str]:
        return {factor: level_text(level) for factor, level in run.levels.items()}

    def _attributes(self, run: RunSpec) -> dict[str, Any]:
        return {"run": run.name, "run_id": run.run_id, "variant": run.variant, "seed": run.seed}

    def _recorded(self, run: RunSpec, summary: dict[str, Any]) -> optuna.trial.FrozenTrial:
        """The trial of a run that has ended."""
        state, value = self._result(summary)
        rows = record.read_rows(self.folder / run.name / record.METRICS)
        params = self._params(run)
        return create_trial(
            state=state,
            value=value,
            params=params,
            distributions={factor: self.choices[factor] for factor in params},
            user_attrs={**self._attributes(run), STATUS: summary["status"]},
            intermediate_values={int(row["epoch"]): row[self.metric] for row in rows if self._is_due(row, len(rows))},
        )

    def _result(self, summary: dict[str, Any]) -> tuple[TrialState, float | None]:
        """The state and the value of the trial of a run with this summary. A diverged run has no value."""
        value = summary.get(self.metric)
        if summary["status"] == "finished" and value is not None:
            return TrialState.COMPLETE, value
        return (TrialState.PRUNED, value) if summary["status"] == "pruned" else (TrialState.FAIL, None)

    def _is_due(self, row: dict[str, float], epochs: int) -> bool:
        return row["epoch"] % math.ceil(epochs / REPORTS) == 0 and math.isfinite(row.get(self.metric, math.nan))

    def epoch(self, run: RunSpec, row: dict[str, float]) -> None:
        """Report the metric of an epoch, of some epochs only."""
        with self._writing():
            trial, now = self._trial(run), time.monotonic()
            if trial and self._is_due(row, run.config.train.epochs) and now - self.reported[run.name] >= REPORT_SECONDS:
                self.reported[run.name] = now
                trial.report(row[self.metric], int(row["epoch"]))

    def ended(self, run: RunSpec, summary: dict[str, Any]) -> None:
        """End the trial of a run that has a record."""
        self._tell(run, STATUS, summary["status"], *self._result(summary))

    def stopped(self, run: RunSpec, why: str) -> None:
        """End the trial of an attempt that left no record."""
        self._tell(run, REASON, why, TrialState.FAIL)

    def _trial(self, run: RunSpec) -> optuna.trial.Trial | None:
        """The trial of the present attempt at a run, which is made at its first epoch or at its end."""
        if self.study and run.name not in self.running:
            params = self._params(run)
            self.study.enqueue_trial(params, user_attrs=self._attributes(run))
            self.running[run.name] = self.study.ask({factor: self.choices[factor] for factor in params})
            self.reported[run.name] = time.monotonic()
        return self.running.get(run.name)

    def _tell(self, run: RunSpec, key: str, text: str, state: TrialState, value: float | None = None) -> None:
        with self._writing():
            trial = self._trial(run)
            if self.study and trial:
                del self.running[run.name]
                trial.set_user_attr(key, text)
                self.study.tell(trial, None if state == TrialState.PRUNED else value, state)


def _texts(plan: StudyPlan, factor: str) -> list[str]:
    """The levels of a factor as text, in the order of the plan. Optuna takes no list as a choice."""
    return list(dict.fromkeys(level_text(run.levels[factor]) for run in plan.runs if factor in run.levels))


def level_text(level: Any) -> str:
    """A level as text; one of linked factors is a list."""
    return ", ".join(map(format_level, level)) if isinstance(level, list) else format_level(level)
