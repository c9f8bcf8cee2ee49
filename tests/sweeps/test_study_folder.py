"""The plan in a study's folder is the plan that was written there."""

import json
import shutil

import pandas as pd
import pytest
import study_file
from pictures import paint
from PIL import Image
from stubbed import finish

from analysis.runs.folder import read_folder
from analysis.runs.held_fixed import changed_images, not_held_fixed, plan_changes
from experiments.data.folder import files_digest
from experiments.errors import UserError
from experiments.runs.exports import take
from experiments.study import STUDY
from experiments.tuned import Tuned
from sweeps.plan import FILES, apply_tuned, load_study, make_plan, parse_study, read_study_file
from sweeps.study_folder import StudyFolder, read_study
from sweeps.tuning.trials import Trials
from sweeps.tuning.tuning_plan import TuningPlan, make_space


def test_a_study_is_not_extended_on_changed_images(tmp_path):
    images = paint(tmp_path / "images", 1)
    data = {"data.name": "imagefolder", "data.root": str(images), "data.num_classes": 2}
    plan = make_plan(parse_study({"name": "own", "factors": {"model.depth": [1, 2]}, "base": data, "seeds": 1}, "own"))
    StudyFolder(tmp_path / "own", plan).write("here")
    StudyFolder(tmp_path / "own", plan).ready()
    folder = tmp_path / "own" / plan.runs[0].name
    finish(folder, plan.runs[0], data={"files": files_digest(str(images))})
    StudyFolder(tmp_path / "own", plan).ready()
    Image.new("RGB", (8, 8)).save(images / "b" / "2.png")
    with pytest.raises(UserError, match=f"data.root: the files of '{images}' are not those of the run in '{folder}'"):
        StudyFolder(tmp_path / "own", plan).ready()
    (images / "b" / "2.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=f"data.root: '{images}/b/2.png' cannot be read as an image"):
        StudyFolder(tmp_path / "new", plan).ready()


def test_runs_of_other_images_are_not_reused(tmp_path):
    images = paint(tmp_path / "images", 1)
    data = {"data.name": "imagefolder", "data.root": str(images), "data.num_classes": 2}
    plan = make_plan(parse_study({"name": "own", "factors": {"model.depth": [1, 2]}, "base": data, "seeds": 1}, "own"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "study.json").write_text('{"export": {}}')
    for files in (files_digest(str(images)), "of other images"):
        run = plan.runs[0]
        row = {"run_id": run.run_id, "status": "finished", "seed": 0, "test/acc": 0.5, "image_files": files}
        pd.DataFrame([row | plan.settings(run)]).to_csv(tmp_path / "other" / "runs.csv")
        sources = take([str(tmp_path / "other")])
        folder = StudyFolder.read(plan.changed(sources=sources), tmp_path / "own")
        assert len(folder.left) == 1
        if files != "of other images":
            folder.ready()
    with pytest.raises(UserError, match=f"the files of '{images}' are not those of the run in '{tmp_path}/other'"):
        folder.ready()


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Images in `names`, and a study on them, in the current folder."""
    monkeypatch.chdir(tmp_path)
    paint(tmp_path / "names", 9)
    base = {"data.name": "imagefolder", "data.img_size": 8, "train.epochs": 1, "optim.warmup_epochs": 0}
    base |= {"model.depth": 1, "data.root": "names"}
    study = {"name": "own", "factors": {"model.pos_embed": ["none", "learned-1d"]}, "base": base, "seeds": 1}
    (tmp_path / "own.yaml").write_text(json.dumps(study))
    return tmp_path / "names"


def test_a_study_goes_on_where_its_images_are_now(names, tmp_path, scripted, vit_sweep):
    """Under other spellings, through a link, and on another disk."""
    scripted()
    assert vit_sweep("run", "own.yaml")[0] == 0
    runs = {path.name for path in tmp_path.glob("runs/own/*-s0-*")}
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "names").symlink_to("../names")
    shutil.copytree(names, tmp_path / "disk" / "names")
    for number, path in enumerate(("names/", "./names", names, "link/names", "disk/names"), 2):
        status, out, err = vit_sweep("run", "own.yaml", "--seeds", number, "--data.root", path)
        assert status == 0 and f"{2 * number} runs: {2 * number} finished" in out, err
    names.rename(tmp_path / "gone")
    assert vit_sweep("run", "runs/own")[0] == 0  # its plan says where its images were last
    assert runs < {path.name for path in tmp_path.glob("runs/own/*-s*-*")}
    configs = [json.loads(path.read_text()) for path in tmp_path.glob("runs/own/*/config.json")]
    assert len(configs) == 12 and len({config["data"]["root"] for config in configs}) == 6
    study = read_folder(tmp_path / "runs" / "own")
    assert list(plan_changes(study)) == ["seeds"] and not not_held_fixed(study) and not changed_images(study)


@pytest.mark.parametrize(
    "command",
    ["run own.yaml --seeds 2,", "cell runs/own --index 1", "wandb own.yaml", "tune own.yaml --trials 2 --params LR"],
)
def test_every_command_that_trains_refuses_changed_images(command, names, tmp_path, vit_sweep):
    plan, lr = make_plan(read_study_file(tmp_path / "own.yaml")), "optim.lr=0.001..0.1"
    StudyFolder(tmp_path / "runs" / "own", plan).write("here")
    folder, run = tmp_path / "runs" / "own", plan.runs[0]
    if "tune" in command:
        tuning = TuningPlan(plan, make_space(lr, run.config, [run]), 2, "qmc", "halving")
        folder = folder / "tuning"
        folder.mkdir()
        (run,) = Trials(tuning, folder).next()
    finish(folder / run.name, run, data={"files": files_digest("names")})
    (names / "a" / "0.png").unlink()
    status, _, err = vit_sweep(*command.replace("LR", lr).split(), "--tracking", "off")
    (line,) = [line for line in err.splitlines() if "error" in line]
    assert status == 2 and "data.root: the files of 'names' are not those of the run in 'runs/own/" in line


@pytest.mark.parametrize("name", FILES)
def test_the_plan_read_back_is_the_plan_that_was_written(name, tmp_path):
    plan = make_plan(load_study(name), changes={"train.batch_size": "17"})
    assert len({run.run_id for run in plan.runs}) == len(plan.variants) * len(plan.seeds)
    StudyFolder(tmp_path, plan).write("here")
    assert read_study(tmp_path) == plan.model_copy(update={"command": "here"})


def test_tuned_settings_are_part_of_the_plan(tmp_path):
    plan = make_plan(parse_study({"name": "own", "factors": {"model.pool": ["cls", "gap"]}}, "own"))
    levels = {pool: {"model.pool": pool} for pool in ("cls", "gap")}
    tree = study_file.tuned(levels, {"cls": {"optim.lr": 0.01}, "gap": {"optim.lr": 0.02}})
    tuned = apply_tuned(plan, Tuned.model_validate(tree))
    StudyFolder(tmp_path, tuned).write("here")
    assert read_study(tmp_path) == tuned.model_copy(update={"command": "here"})
    assert json.loads((tmp_path / "study.json").read_text())["tuning"] == tree
    assert {run.config.optim.lr for run in read_study(tmp_path).runs} == {0.01, 0.02}
    with pytest.raises(UserError, match="holds another study: tuning.cls.optim.lr is 0.01 there and none here"):
        StudyFolder(tmp_path, plan).write("untuned")


@pytest.mark.parametrize(
    "change, said",
    [
        ({"export": {}}, "holds an exported study"),
        ({"base": {"model": {"depth": "deep"}}}, "model.depth: 'deep'"),
        ({"base": {"model": {"depth": 7, "patch_size": 2}}}, "another version trained it"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, change, said):
    plan = make_plan(parse_study({"name": "own", "factors": {"model.head": ["logits", "softmax"]}}, "own"))
    StudyFolder(tmp_path, plan).write("here")
    path = tmp_path / STUDY
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=said):
        read_study(tmp_path)
    if "export" in change:  # a sweep would rewrite study.json, and with it the digests of the exported tables
        with pytest.raises(UserError, match="holds an exported study, .*; choose another --out"):
            StudyFolder(tmp_path, plan).write("again")
