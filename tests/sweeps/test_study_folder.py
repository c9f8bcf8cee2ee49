"""The plan in a study's folder is the plan that was written there."""

import json
import threading

import pytest
import study_file
from filelock import FileLock, Timeout
from PIL import Image
from stubbed import finish, tiny_plan

from experiments.data.folder import files_digest
from experiments.errors import UserError
from experiments.files import locked
from experiments.runs import record
from experiments.tuned import Tuned
from sweeps.builtin import FILES, load_study
from sweeps.plan import apply_tuned, make_plan
from sweeps.queue.connect import connect
from sweeps.queue.storage import open_storage
from sweeps.study import parse_study
from sweeps.study_folder import check_records, plan_of, write_plan
from sweeps.until_decided import _stop

OWN = [
    {
        "factors": {"data.train_limit": [None, 200], "optim.lr": ["1e-3", 1]},
        "baseline": {"data.train_limit": 200, "optim.lr": 1},
        "seeds": [3, 1],
    },
    {
        "factors": {"model.pos_embed+model.pos_site": [["none", "stem"], ["cpe", "stem"]]},
        "extra": [{"model.pos_embed+model.pos_site": ["learned-1d", "every-layer"]}],
        "names": {"model.pos_embed+model.pos_site": "position"},
        "looks": [5, 10],
        "margin": "2 points",
    },
    {"factors": {"train.epochs": [3, 4]}, "metric": "val/loss", "margin": 0.1, "base": "tintn-cifar10"},
]


def test_a_study_is_not_extended_on_changed_images(tmp_path):
    images = tmp_path / "images"
    for name in ("a", "b"):
        (images / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(images / name / "1.png")
    data = {"data.name": "imagefolder", "data.root": str(images), "data.num_classes": 2}
    plan = make_plan(parse_study({"name": "own", "factors": {"model.depth": [1, 2]}, "base": data, "seeds": 1}, "own"))
    write_plan(plan, tmp_path / "own", "here")
    check_records(plan, tmp_path / "own")
    folder = tmp_path / "own" / plan.runs[0].name
    finish(folder, plan.runs[0], data={"files": files_digest(str(images))})
    check_records(plan, tmp_path / "own")
    Image.new("RGB", (8, 8)).save(images / "b" / "2.png")
    with pytest.raises(UserError, match=f"data.root: the files of '{images}' were changed after the run in '{folder}'"):
        check_records(plan, tmp_path / "own")
    (images / "b" / "2.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=f"data.root: '{images}/b/2.png' cannot be read as an image"):
        check_records(plan, tmp_path / "new")


def test_images_of_finished_runs_may_be_gone(tmp_path):
    for root in ("one", "two"):
        for name in ("a", "b"):
            (tmp_path / root / name).mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / root / name / "1.png")
    roots = [str(tmp_path / "one"), str(tmp_path / "two")]
    data = {"data.name": "imagefolder", "data.num_classes": 2}
    plan = make_plan(parse_study({"name": "own", "factors": {"data.root": roots}, "base": data, "seeds": 1}, "own"))
    write_plan(plan, tmp_path / "own", "here")
    (first,) = (run for run in plan.runs if run.config.data.root == roots[0])
    finish(tmp_path / "own" / first.name, first, data={"files": files_digest(roots[0])})
    (tmp_path / "one").rename(tmp_path / "away")
    check_records(plan, tmp_path / "own")
    (tmp_path / "two").rename(tmp_path / "gone")
    with pytest.raises(UserError, match=f"data.root: '{tmp_path}/two'"):  # a run that is left needs these
        check_records(plan, tmp_path / "own")


@pytest.mark.parametrize(
    "study",
    [*map(load_study, FILES), *(parse_study({"name": "own", **fields}, "own") for fields in OWN)],
    ids=lambda study: study.name,
)
def test_the_plan_read_back_is_the_plan_that_was_written(study, tmp_path):
    plan = make_plan(study, changes={"train.batch_size": "17"})
    assert len({run.run_id for run in plan.runs}) == len(list(study.variants())) * len(study.seed_list)
    write_plan(plan, tmp_path, "here")
    assert plan_of(tmp_path) == plan.model_copy(update={"command": "here"})


def test_tuned_settings_are_part_of_the_plan(tmp_path):
    plan = make_plan(parse_study({"name": "own", "factors": {"model.pool": ["cls", "gap"]}}, "own"))
    levels = {pool: {"model.pool": pool} for pool in ("cls", "gap")}
    tree = study_file.tuned(levels, {"cls": {"optim.lr": 0.01}, "gap": {"optim.lr": 0.02}})
    tuned = apply_tuned(plan, Tuned.model_validate(tree))
    write_plan(tuned, tmp_path, "here")
    assert plan_of(tmp_path) == tuned.model_copy(update={"command": "here"})
    assert json.loads((tmp_path / "study.json").read_text())["tuned"] == tree
    assert {run.config.optim.lr for run in plan_of(tmp_path).runs} == {0.01, 0.02}
    with pytest.raises(UserError, match="holds another study: tuned.cls.optim.lr is 0.01 there and none here"):
        write_plan(plan, tmp_path, "untuned")


USES = {
    "plan": lambda folder: write_plan(tiny_plan(), folder, "here"),
    "connect": lambda folder: connect(tiny_plan(), folder),
    "queue": lambda folder: open_storage(folder),
    "stop": lambda folder: _stop({"look": 1, "undecided": {}}, folder),
}


@pytest.mark.parametrize("use", USES)
def test_a_lock_that_another_process_keeps_is_named_and_waited_for_in_bounded_time(tmp_path, monkeypatch, capfd, use):
    monkeypatch.setattr("experiments.files.LOCK_SAID_AFTER", 0.1)
    for module in ("queue.connect", "queue.storage", "study_folder", "until_decided"):
        monkeypatch.setattr(f"sweeps.{module}.locked", lambda path, *_: locked(path, 0.6))
    with FileLock(tmp_path / ".lock"), pytest.raises(UserError) as raised:
        USES[use](tmp_path)
    assert str(raised.value) == f"{tmp_path}/.lock: was locked by another process for 1 s; end it, or try again"
    assert capfd.readouterr().err == f"{tmp_path}/.lock: is locked by another process; waiting up to 1 s\n"
    assert not (tmp_path / record.STUDY).exists()


def test_a_lock_that_is_free_in_time_is_taken_and_given_back(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("experiments.files.LOCK_SAID_AFTER", 0.1)
    path, other = tmp_path / ".lock", FileLock(tmp_path / ".lock", thread_local=False)
    other.acquire()
    threading.Timer(0.3, other.release).start()
    with locked(path):
        assert capfd.readouterr().err == f"{path}: is locked by another process; waiting up to 600 s\n"
        with pytest.raises(Timeout):
            other.acquire(timeout=0)
    other.acquire(timeout=0)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"export": {}}, "holds an exported study"),
        ({"base": {"model": {"depth": "deep"}}}, "model.depth: 'deep'"),
        ({"base": {"model": {"depth": 7, "patch_size": 2}}}, "this version differs"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, change, said):
    plan = make_plan(parse_study({"name": "own", "factors": {"model.head": ["logits", "softmax"]}}, "own"))
    write_plan(plan, tmp_path, "here")
    path = tmp_path / record.STUDY
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=said):
        plan_of(tmp_path)
    if "export" in change:  # a sweep would rewrite study.json, and with it the digests of the exported tables
        with pytest.raises(UserError, match="holds an exported study, .*; choose another --out"):
            write_plan(plan, tmp_path, "again")
