"""The runs that have ended according to the queue, and the folder that each record lies in, on this or another machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from experiments.study import StudyPlan
from sweeps.queue.connect import FOLDER
from sweeps.queue.folder_note import read_note
from sweeps.queue.storage import open_storage
from sweeps.queue.trials import PROCESS, RECORD, RUN, RUN_ID, has_record
from sweeps.queue.url import DATABASE


@dataclass(frozen=True)
class Ended:
    """A run that has ended, the digest of its record (None: not known), and where the record lies."""

    run: str
    digest: str | None
    host: str
    path: str


def ended_runs(study_dir: Path) -> dict[str, Ended]:
    """The runs of a study that have ended, by run id. Raises `UserError` where the queue cannot be read."""
    if read_note(study_dir) is None and not (study_dir / DATABASE).exists():
        return {}
    storage = open_storage(None, study_dir)
    name = storage.study_name(StudyPlan.read(study_dir).name)
    with storage.lock():
        if name not in optuna.get_all_study_names(storage.rdb):
            return {}
        study = optuna.load_study(study_name=name, storage=storage.rdb)
        places, trials = study.user_attrs, study.get_trials(deepcopy=False)
    return {t.user_attrs[RUN_ID]: _ended(t.user_attrs, places, study_dir) for t in trials if has_record(t)}


def _ended(attrs: Mapping[str, Any], places: Mapping[str, Any], study_dir: Path) -> Ended:
    own = {"host": attrs.get(PROCESS, {}).get("host", "this machine"), "path": str(study_dir)}
    known = attrs.get(RECORD, {})
    place = places.get(f"{FOLDER}{known.get('folder')}", own)
    return Ended(attrs[RUN], known.get("digest"), place["host"], place["path"])
