"""Tune every variant of a study: a driver trains the trials, and each variant gets the same number of them."""

from functools import partial
from pathlib import Path

from experiments.errors import say
from experiments.files import own_folder, write_text
from experiments.runs import record
from experiments.tracker import Tracker
from experiments.tuned import TunedTrial, best_trial
from sweeps.driver import Driver
from sweeps.engines.contract import Engine, Task
from sweeps.progress import ProgressDisplay
from sweeps.study_folder import LOG, StudyFolder
from sweeps.tuning.trials import Trials
from sweeps.tuning.tuned import TUNED, check_result, make_tuned, write_tuned
from sweeps.tuning.tuning_plan import OBJECTIVE, RUNS, TuningPlan

NOTE = (
    "The folders here are trials of `vit-sweep tune`. No report uses them. tuned.yaml beside this folder lists them.\n"
)


def tune(
    plan: TuningPlan, study_dir: Path, engine: Engine, intro: str = "", tracker: Tracker | None = None
) -> dict[str, list[TunedTrial]]:
    """Train the trials that are left. Returns variant -> its trials.

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
    epochs = [variant.config.train.epochs for variant in plan.study.variants.values()] * plan.trials * plan.seeds
    with ProgressDisplay(f"{plan.study.name} tuning", epochs) as display:
        display.skip([run for trial in trials.closed() for run in trial.runs])
        trials.drop = partial(display.skip, said=False)
        task = Task(study_dir / RUNS, study_dir / LOG, test=False, asks=True, most=trials.left)
        Driver(trials, engine, task, display, OBJECTIVE, tracker).run()
    rows = trials.rows()
    if all(map(best_trial, rows.values())):
        write_tuned(study_dir / TUNED, make_tuned(plan, rows))
    return rows
