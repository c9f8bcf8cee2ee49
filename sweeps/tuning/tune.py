"""Tune every variant of a study: the pool trains the trials, and each variant gets the same number of them."""

from collections.abc import Sequence
from pathlib import Path

from experiments.errors import writing
from experiments.runs import record
from experiments.tuned import TunedTrial, best_trial
from sweeps.queue.connect import connect
from sweeps.queue.process import current_process
from sweeps.tuning.tuned import TUNED, check_result, make_tuned, write_tuned
from sweeps.tuning.tuning_plan import OBJECTIVE, RUNS, TuningPlan
from sweeps.tuning.tuning_queue import TuningQueue
from sweeps.workers.pool import WorkerPool
from sweeps.workers.progress import ProgressDisplay
from sweeps.workers.worker import WorkerConfig

NOTE = (
    "The folders here are trials of `vit-sweep tune`. No report uses them. tuned.yaml beside this folder lists them.\n"
)


def tune(
    plan: TuningPlan, study_dir: Path, configs: Sequence[WorkerConfig], storage: str | None = None, intro: str = ""
) -> dict[str, list[TunedTrial]]:
    """Train the trials that are left, with one worker for each configuration. Returns variant -> its trials.

    If each variant has a finished trial, it writes STUDY/tuned.yaml. Raises `UserError` for bad input, and where
    STUDY/tuned.yaml is of another tuning.
    """
    with writing(study_dir):
        (study_dir / RUNS).mkdir(parents=True, exist_ok=True)
    record.write_text(study_dir / RUNS / record.TRIALS, NOTE)
    store = connect(plan.study, study_dir, storage)
    queue = TuningQueue(plan, study_dir, current_process(), store)
    check_result(plan, queue.rows(), study_dir / TUNED)
    print(intro, flush=True)
    epochs = [variant.config.train.epochs for variant in plan.study.variants.values()] * plan.trials * plan.seeds
    with (
        ProgressDisplay(f"{plan.study.name} tuning", [], epochs) as display,
        WorkerPool(queue, configs, display, 1, OBJECTIVE) as pool,
    ):
        pool.run()
    trials = queue.rows()
    if all(map(best_trial, trials.values())):
        write_tuned(study_dir / TUNED, make_tuned(plan, trials))
    return trials
