"""Folders that somebody else has made: every command on each entry that such a folder can hold, in forms that would
write, delete, send or run something. Nothing outside the folder changes, and no command ends with a traceback.
"""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import study_file
import tiny
import torch

import analysis
import analysis.main
import experiments.main
import sweeps.main
from analysis.write import files
from experiments.compared import RunSpec
from experiments.data.folder import read_folder
from experiments.errors import UserError, writing
from experiments.files import open_own
from experiments.runs import record, resume
from experiments.runs.run import train
from experiments.runs.trained import load_model
from experiments.sections import DataConfig
from experiments.study import Study
from sweeps.commands.status import read_states
from sweeps.study_folder import LOG, the_only_driver
from sweeps.tuning.optuna_studies import open_journal
from sweeps.tuning.tuning_plan import JOURNAL
from vit.plugins import PluginError

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
    fields = {
        "preset": "digits",
        "factors": {"model.head": ["logits", "softmax"]},
        "base": tiny.config(train__epochs=1).model_dump(),
    }
    entries = [run.model_dump(by_alias=True) for run in runs]
    folder.mkdir()
    study_file.plan({"logits": {}, "softmax": {}}, runs=entries, **fields).write(folder)
    for run in runs[:3]:
        train([run], folder, device="cpu")
    analysis.main.body([str(folder), "--json"])  # a look
    analysis.main.body(["export", str(folder), str(folder.with_name("export"))])
    (folder / "softmax-s1").mkdir()
    record.write_json(folder / "softmax-s1" / record.CONFIG, runs[3].config.model_dump())
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
    """`vit-sweep sync` without a process of wandb: the runs of which W&B would get the whole record."""
    sent: list[str] = []

    class Opened(SimpleNamespace):
        def __init__(self, config: dict[str, Any], **_: object) -> None:
            super().__init__(summary={}, define_metric=Mock(), log=Mock(), config=Mock())
            self.finish = lambda exit_code: sent.append(config["run"])

    monkeypatch.setattr("wandb.init", Opened)
    monkeypatch.setattr("sweeps.commands.wandb_sweep.wandb_in_use", contextlib.nullcontext)
    return sent


def test_a_note_deletes_nothing_but_what_was_sent_of_its_run(study, user, sends, capfd):
    wandb, before = study / "wandb", tree(user)
    mine = f"{Study.read(study).runs[0].run_id}-12345678"
    for id in ("x", "other-12345678", mine):
        (wandb / f"offline-run-20260101_000000-{id}").mkdir(parents=True)
    (wandb / "sent").mkdir()
    (study / "wandb.json").write_text('{"token": "12345678"}')
    for run, id in {"logits-s0": "x/../../../home/folder", "softmax-s0": "other-12345678"}.items():
        (wandb / "sent" / f"{run}.json").write_text(json.dumps({"id": id, "where": "offline"}))
    assert vit_sweep("sync", study, "--tracking", "offline") == 0
    left = [path.name for path in wandb.glob("offline-run-*")]
    assert sorted(left) == ["offline-run-20260101_000000-other-12345678", "offline-run-20260101_000000-x"]
    assert len(sends) == 3 and tree(user) == before


RUN, LEFT = "logits-s0", "softmax-s1"
ENTRIES = [
    *("study.json", "looks.jsonl", "driver.lock", "sweep.log", "wandb.json", "tuned.yaml"),
    *("locks", "report", "tuning", "wandb", RUN, LEFT, f"locks/{RUN}", f"locks/{LEFT}"),
    *(f"wandb/{name}" for name in ("sent", "locks", f"sent/{RUN}.json", f"locks/{RUN}", "artifacts")),
    *(
        f"{RUN}/{name}"
        for name in ("config.json", "metrics.csv", "summary.json", record.CHECKPOINT, record.PREDICTIONS)
    ),
    *(f"{LEFT}/{name}" for name in ("config.json", "metrics.csv", "error.txt", "resume.safetensors", "plugin")),
]
EXPORTED = ["study.json", "runs.csv", "curves.csv"]
FORMS = ("moved", "missing", "within", "fifo", "type", "text", "second")
TEXT = "\x1b[2J\u202e $(touch X) `touch X`\n\\input{X}"


def forge(path: Path, form: str, home: Path) -> None:
    """Give an entry a form. moved, missing: a link to what it was, or to nothing; within: a link to another entry."""
    if form == "moved":
        kept = home / "moved"
        path.rename(kept) if path.exists() else (kept.mkdir() if "." not in path.name else kept.write_bytes(SECRET))
    elif path.is_dir():
        shutil.rmtree(path)
    was_file = path.is_file() or "." in path.name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True, parents=True)
    if form == "fifo":
        os.mkfifo(path)
    elif form == "second":  # a second name of the user's file
        os.link(home / "file", path)
    elif form == "type":
        path.mkdir() if was_file else path.write_bytes(b"")
    elif form == "text":
        path.write_text(json.dumps(dict.fromkeys(("name", "id", "token", "host", "where", "status", "schema"), TEXT)))
    else:
        within = path.parent / ("softmax-s0" if path.parent.name == "study" else "study.json")
        path.symlink_to({"moved": home / "moved", "missing": home / "missing", "within": within}[form])


def on_study(study: Path) -> Iterator[Callable[[], object]]:
    """What commands do with the folder of a study."""
    yield lambda: vit_sweep("status", study)
    yield lambda: vit_sweep("run", study, "--dry-run")
    yield lambda: vit_sweep("sync", study, "--tracking", "offline")
    yield lambda: analysis.main.body([str(study), "--json", "--skip-unreadable"])
    yield lambda: load_model(study / RUN)
    yield lambda: files.write({"report.html": b""}, study / "report")
    yield lambda: _train(study)


def on_export(folder: Path) -> Iterator[Callable[[], object]]:
    """What commands do with an export."""
    yield lambda: analysis.main.body([str(folder), "--json"])
    yield lambda: analysis.read(folder)
    yield lambda: analysis.main.body(["export", str(folder), str(folder)])


def _train(study: Path) -> None:
    """What `run` does with the run that is left, in this process."""
    with writing(study / LOG):
        os.close(open_own(study / LOG))
    with the_only_driver(study):
        train([run for run in Study.read(study).configured().runs if run.name == LEFT], study, device="cpu")


def errors(commands: Iterator[Callable[[], object]]) -> list[str]:
    """Carry them out. The lines of those that cannot be; anything but such a line is a failure of the test."""
    lines = []
    for command in commands:
        try:
            command()
        except (UserError, PluginError) as error:
            lines.append(str(error))
    return lines


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_nothing_outside_a_forged_study_changes_and_errors_are_lines(entry, form, study, user, sends, capsys):
    forge(study / entry, form, user)
    before = tree(user)
    said = errors(on_study(study))
    assert tree(user) == before
    assert all(line.isprintable() and len(line) < 2000 for line in said)
    assert "".join(capsys.readouterr()).replace("\n", "").isprintable()
    if entry != "study.json":  # the other runs are shown
        runs = read_states(Study.read(study), study)
        assert {"logits-s1", "softmax-s0"} <= {run["run"] for run in runs if run["state"] == "finished"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", EXPORTED)
def test_nothing_outside_a_forged_export_changes_and_errors_are_lines(entry, form, template, tmp_path, user):
    folder = Path(shutil.copytree(template.with_name("export"), tmp_path / "export"))
    forge(folder / entry, form, user)
    before = tree(user)
    said = errors(on_export(folder))
    assert tree(user) == before and all(line.isprintable() for line in said)
    assert bool(said) == (form != "moved")


def test_an_export_of_links_to_a_cache_and_a_study_behind_links_work(template, study, tmp_path, user, sends):
    """As a download cache makes the former, and a group the latter: only entries of a study's folder are held to it."""
    cache = Path(shutil.copytree(template.with_name("export"), tmp_path / "cache"))
    (folder := tmp_path / "linked").mkdir()
    for file in cache.iterdir():
        (folder / file.name).symlink_to(file)
    assert not errors(on_export(folder))
    (tmp_path / "runs").symlink_to(tmp_path)
    assert not errors(on_study(tmp_path / "runs" / "study"))
    assert record.has_ended(study / LEFT) and len(sends) == 3


def test_only_commands_that_train_import_the_plug_ins_of_a_study(study, user, sends, capsys, monkeypatch):
    monkeypatch.setenv("VIT_PLUGINS", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    (study / "forged_plugin.py").write_text(f"open({str(user / 'ran')!r}, 'w').close()")
    study_file.write_study(study, {**study_file.read_study(study), "plugins": ["forged_plugin.py"]})
    status, dry_run, *others, _ = on_study(study)
    assert not errors(iter([status, *others, lambda: analysis.read(study)])) and not (user / "ran").exists()
    assert not errors(iter([dry_run])) and (user / "ran").exists()


@pytest.mark.parametrize("note", [{"rows": 1}, {"rows": [[]]}, {"rows": [{"epoch": "x"}]}])
def test_a_resume_file_with_impossible_values_is_one_line(note, study):
    resume.write(study / LEFT, note, {"weights/x": torch.zeros(1)})
    (line,) = errors(iter([lambda: _train(study)]))
    assert line.startswith(f"{study / LEFT / resume.NAME}: ")


def test_a_journal_behind_a_link_is_not_opened_and_the_link_of_its_lock_is_no_harm(study, user):
    before, folder = tree(user), study / "tuning"
    folder.mkdir()
    (folder / f"{JOURNAL}.lock").symlink_to(user / "file")
    open_journal(folder)
    (folder / JOURNAL).unlink()
    (folder / JOURNAL).symlink_to(user / "file")
    with pytest.raises(UserError, match="is a link"):
        open_journal(folder)
    assert tree(user) == before


@pytest.mark.parametrize("name", ["wandb/settings", ".wandb/settings"])
def test_settings_of_the_current_folder_name_no_server_of_wandb(name, study, tmp_path, server, monkeypatch):
    """No command sends the API key there: the first request would be the stand-in's, or one of this server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_BASE_URL")
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"[default]\nproject = mine\nbase_url = {server.url}\n")
    plan = ("run", "position", "--preset", "digits", "--out", tmp_path / "out")
    commands = iter(
        [
            lambda: vit_sweep("sync", study),
            lambda: vit_sweep(*plan, "--tracking", "online"),
            lambda: vit_sweep("wandb", *plan[1:]),
            lambda: analysis.read("wandb:tester/vit-ablation"),
            lambda: experiments.main._body(["--out", str(tmp_path / "out"), "--tracking", "online"]),
        ]
    )
    said = errors(commands)
    assert len(said) == 5 and all(line.startswith(f"{name}: base_url: ") for line in said), said
    assert not server.calls


def test_an_image_that_is_postscript_starts_no_program(tmp_path, user, monkeypatch):
    monkeypatch.setenv("PATH", str(user))
    (program := user / "gs").write_text(f"#!/bin/sh\n/usr/bin/touch {user / 'ran'}\n")
    program.chmod(0o755)
    for label in "ab":
        (tmp_path / "images" / label).mkdir(parents=True)
        body = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n%%EOF\n"
        (tmp_path / "images" / label / "x.png").write_bytes(body)
    data = DataConfig(name="imagefolder", root=str(tmp_path / "images"), img_size=8, num_classes=2)
    with pytest.raises(UserError, match="cannot be read as an image"):
        read_folder(data)
    assert not (user / "ran").exists()


def test_a_device_in_place_of_a_lock_is_not_opened(study, monkeypatch):
    (study / "locks").exists() and shutil.rmtree(study / "locks")
    (study / "locks").mkdir()
    os.mkfifo(study / "locks" / LEFT)  # as a device: to open it is an event that the other end sees
    opened, os_open = list[str](), os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **more: opened.append(str(path)) or os_open(path, *rest, **more)
    )
    assert vit_sweep("status", study) == 0
    assert str(study / "locks" / LEFT) not in opened


def vit_sweep(*words: object) -> int:
    """The exit status of a command in this process."""
    return sweeps.main._body([str(word) for word in words])
