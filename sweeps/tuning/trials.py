"""Tune every variant of a study: a sampler of Optuna proposes the settings of trials, and a driver trains them."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
from optuna.trial import Trial, TrialState

from experiments.compared import RunSpec
from experiments.errors import UserError, say
from experiments.files import own_folder, write_text
from experiments.runs import record, resume
from experiments.tracker import Tracker
from experiments.tuned import TunedTrial, best_trial
from sweeps.driver import Driver
from sweeps.engines.contract import Engine, Task
from sweeps.progress import ProgressDisplay
from sweeps.study_folder import LOG, Ended, StudyFolder
from sweeps.tuning import optuna_studies
from sweeps.tuning.tuned import TUNED, check_result, make_tuned, write_tuned
from sweeps.tuning.tuning_plan import OBJECTIVE, RUNS, TuningPlan, rounded

MEANS = ("val/acc", "val/loss")  # of the runs of a trial
NOTE = "These folders are trials of `vit-sweep tune`, in no report. tuned.yaml beside this folder lists them.\n"


def tune(
    plan: TuningPlan, study_dir: Path, engine: Engine, intro: str, tracker: Tracker
) -> dict[str, list[TunedTrial]]:
    """Train the trials that are left; each variant gets the same number. Returns variant -> its trials.

    If each variant has a finished trial, it writes STUDY/tuned.yaml. Raises `UserError` for bad input, where
    STUDY/tuned.yaml is of another tuning, and where Optuna's journal cannot be used. The caller is the only driver.
    """
    write_text(own_folder(study_dir / RUNS) / record.TRIALS, NOTE)
    trials = Trials(plan, study_dir / RUNS)
    begun = [run for of_variant in trials.trials.values() for trial in of_variant.values() for run in trial.runs]
    StudyFolder(trials.folder, plan.study.model_copy(update={"runs": begun})).ready()
    rows = trials.rows()
    check_result(plan, rows, study_dir / TUNED)
    say(intro)
    runs = len(plan.study.variants) * plan.trials * plan.seeds
    with ProgressDisplay(f"{plan.study.name} tuning", runs) as display:
        display.skip([run for trial in trials.closed() for run in trial.runs])
        trials.drop = partial(display.skip, said=False)
        task = Task(study_dir / RUNS, study_dir / LOG, test=False, asks=True, most=trials.left)
        Driver(trials, engine, task, display, OBJECTIVE, tracker).run()
    rows = trials.rows()
    if all(map(best_trial, rows.values())):
        write_tuned(study_dir / TUNED, make_tuned(plan, rows))
    return rows


@dataclass(eq=False)
class TrialRuns:
    """A trial: its settings, and a run for each seed. The first run that does not finish ends it.

    `live`: Optuna's trial, once it is open. `answers`: step -> whether the trial was pruned there. `failed`: a run was
    given up.
    """

    label: str
    number: int
    settings: dict[str, Any] = field(default_factory=dict)
    runs: list[RunSpec] = field(default_factory=list)
    live: Trial | None = None
    answers: dict[int, bool] = field(default_factory=dict)
    failed: bool = False

    def ended(self, records: Ended) -> list[dict[str, Any]]:
        """The summaries of its runs with a record, up to the first that did not finish."""
        summaries = []
        for run in self.runs:
            if run.name not in records:
                break
            summaries.append(records[run.name])
            if summaries[-1]["status"] != "finished":
                break
        return summaries

    def status(self, ended: Sequence[dict[str, Any]]) -> str | None:
        """How it ended, by the summaries that `ended` returns; None while it has runs to train."""
        if self.failed:
            return "failed"
        if ended and ended[-1]["status"] != "finished":
            return str(ended[-1]["status"])
        return "finished" if len(ended) == len(self.runs) else None


class Trials:
    """The runs of the trials that have not ended. See `sweeps.driver.Source`.

    Each variant has an Optuna study, which holds the settings of its trials. The number of a trial and its settings
    determine its runs, so their records in `folder` tell what has become of it. The runs of a trial are trained one
    after another. Only the first is compared with other trials and may be pruned. `drop` gets the runs that nobody will
    train.
    """

    def __init__(self, plan: TuningPlan, folder: Path) -> None:
        self.plan, self.variants, self.folder = plan, plan.study.variants, folder
        self.drop: Callable[[list[RunSpec]], None] = lambda runs: None
        self.distributions = {path: optuna_studies.distribution(path, tried) for path, tried in plan.space.items()}
        self.storage = optuna_studies.open_journal(folder)
        self.studies: dict[str, optuna.Study] = {}  # once they are written to: a tuning that is refused leaves none
        self.trials: dict[str, dict[int, TrialRuns]] = {label: {} for label in self.variants}
        self.again: deque[TrialRuns] = deque()  # begun by an earlier driver, and not ended
        self.waiting: list[RunSpec] = []
        self._trial_of: dict[str, TrialRuns] = {}
        self.records: Ended = {}  # each is read once
        for label, variant in self.variants.items():
            for number, optuna_trial in optuna_studies.trials_in(self.storage, plan.name(variant)).items():
                trial = self._add(label, number, optuna_trial.params)
                read = ((run.name, record.read_ended(self.folder, run)) for run in trial.runs)
                self.records.update((name, summary) for name, summary in read if summary)
                if not (optuna_trial.state in optuna_studies.ENDED and trial.status(trial.ended(self.records))):
                    self.again.append(trial)
        if (made := max(map(len, self.trials.values()))) > plan.trials:
            raise UserError(f"--trials: {plan.trials} is not allowed: there are {made} trials of a variant already")

    def _add(self, label: str, number: int, settings: dict[str, Any]) -> TrialRuns:
        runs = self.plan.trial(self.variants[label], number, settings) if settings else []
        trial = self.trials[label][number] = TrialRuns(label, number, settings, runs)
        return trial

    @property
    def left(self) -> int:
        return len(self.waiting) + len(self.again) + sum(self.plan.trials - len(t) for t in self.trials.values())

    def next(self) -> list[RunSpec]:
        """See `Source`. Trials of earlier drivers go first, then the variant with the fewest gets another trial."""
        while not self.waiting:
            if self.again:
                trial = self.again.popleft()
            else:
                label = min(self.trials, key=lambda label: len(self.trials[label]))
                if len(self.trials[label]) >= self.plan.trials:
                    return []
                number = next(n for n in itertools.count() if n not in self.trials[label])
                trial = self._add(label, number, {})
            self._ask(trial)
            self._advance(trial)
        return [self.waiting.pop(0)]

    def _study(self, label: str) -> optuna.Study:
        """Optuna's study of a variant."""
        if label not in self.studies:
            variant = self.variants[label]
            pruner = optuna_studies.make_pruner(self.plan.pruner, variant.config.train.epochs)
            study = self.studies[label] = optuna_studies.open_study(self.storage, self.plan.name(variant), pruner)
            study.set_user_attr(optuna_studies.BUDGET, self.plan.trials)
        return self.studies[label]

    def _ask(self, trial: TrialRuns) -> None:
        """Open Optuna's trial. A new one gets its settings; one that goes on keeps them, and tells its epochs again."""
        study = self._study(trial.label)
        sampler = optuna.samplers.TPESampler if self.plan.sampler == "tpe" else optuna.samplers.RandomSampler
        study.sampler = sampler(seed=trial.number)  # interruptions do not change its values; all variants get the same
        if not trial.settings and self.plan.sampler == "qmc":
            trial.settings = optuna_studies.qmc_point(self.distributions, trial.number)
        if trial.settings:
            study.enqueue_trial(trial.settings)
        trial.live = study.ask(self.distributions)
        trial.settings = trial.live.params
        trial.runs = self.plan.trial(self.variants[trial.label], trial.number, trial.settings)
        first = trial.runs[0]
        said = {optuna_studies.NUMBER: trial.number, "variant": trial.label, "seed": first.seed}
        for name, value in {**said, optuna_studies.RUN: first.name}.items():  # RUN is last
            trial.live.set_user_attr(name, value)
        for place, run in enumerate(trial.runs):
            for row in _rows(self.folder / run.name):
                self._report(trial, place, row)

    def _advance(self, trial: TrialRuns) -> None:
        """Queue the first run of a trial that has no record. Where a run did not finish, or all did, end the trial."""
        ended = trial.ended(self.records)
        status = trial.status(ended)
        if status is None:
            run = trial.runs[len(ended)]
            self._trial_of[run.name] = trial
            self.waiting.append(run)
            return
        assert trial.live is not None
        state = {"finished": TrialState.COMPLETE, "failed": TrialState.FAIL}.get(status, TrialState.PRUNED)
        value = fmean(run[OBJECTIVE] for run in ended) if status == "finished" else None
        trial.live.set_user_attr("status", status)
        self._study(trial.label).tell(trial.live, value, state)  # a pruned one keeps the last value that it reported
        self.drop(trial.runs[len(ended) + (status == "failed") :])

    def give_back(self, runs: Sequence[RunSpec], last: bool = False, alone: bool = False) -> None:
        self.waiting = [*self.waiting, *runs] if last else [*runs, *self.waiting]

    def epoch(self, run: RunSpec, row: dict[str, float]) -> bool:
        trial = self._trial_of[run.name]
        return self._report(trial, [other.name for other in trial.runs].index(run.name), row)

    def _report(self, trial: TrialRuns, place: int, row: dict[str, float]) -> bool:
        """Tell Optuna the objective after an epoch, once. Returns whether the run is pruned: decided once, too."""
        epoch, epochs = int(row["epoch"]), trial.runs[place].config.train.epochs
        step = place * epochs + epoch
        if step not in trial.answers:
            assert trial.live is not None
            trial.live.report(row[OBJECTIVE], step)
            may_prune = place == 0 and epoch <= optuna_studies.LAST_RUNG * epochs
            trial.answers[step] = may_prune and trial.live.should_prune()
        return trial.answers[step]

    def ended(self, run: RunSpec, summary: dict[str, Any] | None) -> None:
        trial = self._trial_of.pop(run.name)
        trial.failed = summary is None
        if summary:
            self.records[run.name] = summary
        self._advance(trial)

    def closed(self) -> list[TrialRuns]:
        """The trials that have ended."""
        return [trial for trials in self.trials.values() for trial in trials.values() if trial not in self.again]

    def rows(self) -> dict[str, list[TunedTrial]]:
        """Variant -> its trials that have ended, by number."""
        rows: dict[str, list[TunedTrial]] = {}
        for label, trials in self.trials.items():
            results = (self._row(trial) for _, trial in sorted(trials.items()))
            rows[label] = [row for row in results if row]
        return rows

    def _row(self, trial: TrialRuns) -> TunedTrial | None:
        """The result of a trial, by the records of its runs; None while it has runs to train."""
        ended = trial.ended(self.records)
        status = trial.status(ended)
        if status is None:
            return None
        measured = [] if status == "failed" else [run for run in ended if run["status"] != "diverged"]
        means = {key: fmean(run[key] for run in measured) for key in MEANS if measured and status != "diverged"}
        values = [None if run["status"] == "diverged" else run[OBJECTIVE] for run in ended]
        accuracies = dict(zip((run.seed for run in trial.runs), values, strict=False))
        return TunedTrial(
            variant=trial.label,
            trial=trial.number,
            seed=trial.runs[0].seed,
            settings=rounded(trial.settings),
            status=status,
            epochs=max(trial.answers, default=0) if status == "failed" else sum(run["epochs"] for run in ended),
            val_acc=means.get("val/acc"),
            val_loss=means.get("val/loss"),
            accuracies=accuracies if self.plan.seeds > 1 else None,
        )


def _rows(run_dir: Path) -> list[dict[str, float]]:
    """The epochs of a run so far: of its record, or of its resume file."""
    if record.has_ended(run_dir):
        return record.read_rows(run_dir / record.METRICS)
    rows: list[dict[str, float]] = resume.noted(run_dir, "rows", [])
    return rows
