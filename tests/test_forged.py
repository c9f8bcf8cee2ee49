"""Folders that somebody else has made: every command on each entry that such a folder can hold, in forms that would
write, delete, send or run something. Nothing outside the folder changes, and no command ends with a traceback.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import study_file
import tiny

import sweeps.main
from experiments.errors import UserError
from experiments.files import open_own
from experiments.runs import record
from experiments.runs.history import Look, add_look
from experiments.runs.run import train
from experiments.runs.tracking import sender, server
from experiments.study import RunSpec, StudyPlan
from sweeps.study_folder import LOG, the_only_driver

SECRET = b"a line of the user's own\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A study of four tiny runs, of which two have ended, with all that commands leave in its folder."""
    folder = tmp_path_factory.mktemp("template") / "study"
    runs = [
        RunSpec.of(
            f"{head}-s{seed}", tiny.config(seed=seed, model__head=head, train__epochs=1), head, {"model.head": head}
        )
        for seed in (0, 1)
        for head in ("logits", "softmax")
    ]
    fields = {"factors": {"model.head": ["logits", "softmax"]}, "base": tiny.config(train__epochs=1).model_dump()}
    entries = [run.model_dump(by_alias=True) for run in runs]
    folder.mkdir()
    study_file.plan({"logits": {}, "softmax": {}}, runs=entries, **fields).write(folder)
    for run in runs[:3]:
        train([run], folder, device="cpu")
    return folder


@pytest.fixture
def user(tmp_path) -> Path:
    """The user's own files, beside the folder."""
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "file").write_bytes(SECRET)
    (home / "folder" / "file").write_bytes(SECRET)
    return home


@pytest.fixture
def study(template, tmp_path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "study"))


def tree(folder: Path) -> dict[str, Any]:
    """What lies in a folder: the bytes of files, the kind of everything else."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else path.is_dir()
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def sends(monkeypatch) -> list[str]:
    """`vit-sweep sync` without wandb: the runs of which W&B would get the whole record."""
    sent: list[str] = []

    class Opened:
        def __init__(self, run_dir: Path, study: str, planned: Any, sweep: Any, place: dict[str, Any]) -> None:
            self.run = SimpleNamespace(id=place["id"])

        def follow(self) -> None: ...
        def close(self) -> None: ...
        def complete(self, whole: record.RunRecord) -> None:
            sent.append(whole.name)

    monkeypatch.setattr(sender, "WandbRun", Opened)
    monkeypatch.setattr(server, "project", lambda name: "project")
    monkeypatch.setattr(server, "wandb_in_use", contextlib.nullcontext)
    return sent


def test_a_note_deletes_nothing_but_what_was_sent_of_its_run(study, user, sends, capfd):
    wandb, before = study / "wandb", tree(user)
    for id in ("x", "other-12345678", "logits-s0-12345678"):
        (wandb / f"offline-run-20260101_000000-{id}").mkdir(parents=True)
    (wandb / "sent").mkdir()
    (study / "wandb.json").write_text('{"token": "12345678"}')
    for run, id in {"logits-s0": "x/../../../home/folder", "softmax-s0": "other-12345678"}.items():
        (wandb / "sent" / f"{run}.json").write_text(json.dumps({"id": id, "where": "offline"}))
    assert vit_sweep("sync", study, "--tracking", "offline") == 0
    left = [path.name for path in wandb.glob("offline-run-*")]
    assert sorted(left) == ["offline-run-20260101_000000-other-12345678", "offline-run-20260101_000000-x"]
    assert len(sends) == 3 and tree(user) == before


@pytest.mark.parametrize(
    "entry", ["driver.lock", "locks", "locks/softmax-s1", "softmax-s1", "sweep.log", "looks.jsonl"]
)
@pytest.mark.parametrize("name", ["file", "folder", "missing"])
def test_nothing_is_written_through_a_link(study, user, entry, name, capfd):
    """Whatever it is, training and reports leave what it points to as it is, and say it in one line."""
    before, path = tree(user), study / entry
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(user / name)
    said = [str(error) for error in map(partial(_error, study), (_train, _look)) if error]
    assert tree(user) == before
    assert len(said) == 1 and str(path) in said[0] and "\n" not in said[0]


def _error(study: Path, command: Callable[[Path], object]) -> UserError | None:
    try:
        command(study)
    except UserError as error:
        return error
    return None


def _train(study: Path) -> None:
    """What a worker does with the run that is left."""
    os.close(open_own(study / LOG))
    with the_only_driver(study):
        train([run for run in StudyPlan.read(study).runs if run.name == "softmax-s1"], study, device="cpu")


def _look(study: Path) -> None:
    add_look(study, Look.now([2, 2], "test/acc", "vit-report"))


def vit_sweep(*words: object) -> int:
    """The exit status of a command in this process."""
    return sweeps.main._body([str(word) for word in words])
