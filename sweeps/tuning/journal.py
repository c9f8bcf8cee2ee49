"""Optuna's journal of a tuning, JSON lines in the folder of its trials. One process writes it, the only driver."""

import os
from collections.abc import Iterator
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from experiments.errors import UserError
from experiments.files import UNUSABLE, open_own
from experiments.runs.record import CONFIG
from sweeps.tuning.tuning_plan import JOURNAL

NUMBER = "number"  # user attribute of Optuna's trial: the trial of the tuning, which an interrupted one shares
RUN = "run"  # user attribute: its first run. It is set last, so a trial that has it has all settings
BUDGET = "trials"  # user attribute of Optuna's study: the trials that its variant gets
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


def open_journal(folder: Path) -> JournalStorage:
    """The journal in this folder, of which the caller is the only driver. What a dead one has left is removed: its
    lock, and half a line. Raises `UserError` where the file cannot be used, or is missing beside trained trials.
    """
    path = folder / JOURNAL
    with os.fdopen(open_own(path), "r+b") as file:
        body = file.read()
        if not body and any(folder.glob(f"*/{CONFIG}")):
            raise UserError(f"{path}: is missing, and there are trials beside it; restore it, or give another --out")
        file.truncate(body.rfind(b"\n") + 1)
    path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    return read_journal(path)


def read_journal(path: Path) -> JournalStorage:
    """The journal, to be read. Raises `UserError` where it is none."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (*UNUSABLE, AttributeError, AssertionError, optuna.exceptions.OptunaError) as error:
        raise UserError(f"{path}: is no journal of Optuna: {error!r}") from error


def trials_in(storage: JournalStorage, name: str) -> dict[int, FrozenTrial]:
    """The trials of Optuna's study of this name by their numbers in the tuning; none where there is no such study."""
    if name not in optuna.get_all_study_names(storage):
        return {}
    study = optuna.load_study(storage=storage, study_name=name)
    return dict(sorted((trial.user_attrs[NUMBER], trial) for trial in _known(study)))


def _known(study: optuna.Study) -> Iterator[FrozenTrial]:
    return (trial for trial in study.get_trials(deepcopy=False) if RUN in trial.user_attrs)


def open_study(storage: JournalStorage, name: str, pruner: optuna.pruners.BasePruner) -> optuna.Study:
    """Optuna's study of a name, which is made if it does not exist. Its trials that a driver left open are ended.

    A trial that waits would be handed out for another run; one that is running has lost its driver.
    """
    study = optuna.create_study(
        storage=storage, study_name=name, direction=StudyDirection.MAXIMIZE, pruner=pruner, load_if_exists=True
    )
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
    while study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
        study.tell(study.ask(), state=TrialState.FAIL)
    return study


def tuning_status(path: Path) -> list[dict[str, object]]:
    """For each variant of the tunings in a journal: its trials that are done, pruned and left, and the best accuracy.

    Raises `UserError` where it is no journal.
    """
    storage, rows = read_journal(path), []
    for name in optuna.get_all_study_names(storage):
        study = optuna.load_study(storage=storage, study_name=name)
        ended = {trial.user_attrs[NUMBER]: trial for trial in _known(study) if trial.state in ENDED}
        done = [trial.value or 0.0 for trial in ended.values() if trial.state == TrialState.COMPLETE]
        left, best = int(study.user_attrs.get(BUDGET, 0)) - len(ended), f"{100 * max(done):.1f} %" if done else ""
        shown = {"tuning": name, "trials done": len(done), "pruned": len(ended) - len(done), "left": left}
        rows.append({**shown, "best val/acc": best})
    return rows
