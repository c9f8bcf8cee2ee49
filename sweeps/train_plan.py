"""Train the runs of a plan with the workers of an engine."""

import math
from collections.abc import Container

from sweeps.driver import Driver
from sweeps.engines.contract import Engine, Task
from sweeps.plan_runs import PlanRuns
from sweeps.progress import ProgressDisplay
from sweeps.study_folder import LOG, StudyFolder

CPU_COHORT = 1  # measured on digits: a stack of 4 takes 4.0 times as long as a single run; on CIFAR-10 it takes longer


def train_plan(
    folder: StudyFolder, engine: Engine, *, cohort: int | None = None, only: Container[str] | None = None
) -> dict[str, str]:
    """Train the runs of a plan that are left, or only some of them. Returns the runs that were given up, and why.

    `cohort` is the largest number of runs that a worker trains as one stacked model. None: on a GPU a worker gets its
    part of a variant's runs and stacks as many as fit; on a CPU it is 1 (see `CPU_COHORT`). A study of a validation
    metric leaves the test images out: it makes a choice. Raises as `Driver.run` does.
    """
    plan = folder.plan
    planned = [run for run in plan.runs if only is None or run.name in only]
    if cohort is None:
        cohort = math.ceil(len(planned) / max(engine.places, 1)) if engine.on_gpu else CPU_COHORT
    with ProgressDisplay(plan.name, planned) as display:
        display.skip([run.name for run in planned if run.name in folder.ended])
        runs = PlanRuns(planned, folder, cohort)
        task = Task(folder.dir, folder.dir / LOG, test=not plan.metric.startswith("val/"), most=runs.left)
        driver = Driver(runs, engine, task, display, plan.metric)
        driver.run()
    return driver.failed
