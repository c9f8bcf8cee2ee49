"""The runs that have ended according to the queue, and the folder that each record lies in, on this or another machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.study import StudyPlan
from sweeps.queue.connect import FOLDER
from sweeps.queue.optuna_study import read_queue
from sweeps.queue.trials import PROCESS, RECORD, RUN, RUN_ID, has_record, record_folder, worker_of


@dataclass(frozen=True)
class Ended:
    """A run that has ended, the digest of its record (None: not known), and where the record lies."""

    run: str
    digest: str | None
    host: str
    path: str


def ended_runs(study_dir: Path) -> dict[str, Ended]:
    """The runs of a study that have ended, by run id. Raises `UserError` where the queue cannot be read."""
    queue, ended = read_queue(study_dir, StudyPlan.read(study_dir).name), {}
    for trial in filter(has_record, queue.trials):
        attributes = trial.user_attrs
        host = worker_of(trial).host if PROCESS in attributes else "this machine"
        place = queue.attributes.get(f"{FOLDER}{record_folder(trial)}", {"host": host, "path": str(study_dir)})
        digest = attributes.get(RECORD, {}).get("digest")
        ended[attributes[RUN_ID]] = Ended(attributes[RUN], digest, place["host"], place["path"])
    return ended
