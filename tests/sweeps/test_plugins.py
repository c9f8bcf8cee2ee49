"""The plug-ins of a study: files that its own file names, beside VIT_PLUGINS. Each command is a process of its own."""

import json
from pathlib import Path

import pytest
import tiny
from commands import PLUGIN, run
from study_file import read_study


@pytest.fixture
def project(tmp_path):
    """A user's folder with a plug-in and a study of all kinds, and another folder, from which commands are run."""
    (tmp_path / "there").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "mine.py").write_text(PLUGIN)
    study = {"name": "s", "factors": {"model.pos_embed": "all"}, "base": tiny.settings(train__epochs=1), "seeds": 1}
    (tmp_path / "project" / "s.yaml").write_text(json.dumps({**study, "plugins": ["mine.py"]}))
    (tmp_path / "project" / "bare.yaml").write_text(json.dumps(study))
    return tmp_path / "project"


def command(cwd: Path, *words: object, name: str = "vit-sweep", **env: str) -> tuple[int, str, str]:
    return run(name, *words, cwd=cwd, PYTHONSAFEPATH="1", **env)


def test_a_study_with_its_plugin_is_planned_anywhere_and_trained_where_it_was_moved(project):
    away = project.parent / "there"
    runs = {}
    for name, env in (
        ("s", {}),
        ("bare", {"VIT_PLUGINS": str(project / "mine.py")}),
        ("s", {"VIT_PLUGINS": "mine.py"}),
    ):
        cwd = project if "mine.py" in env.values() else away
        status, _, err = command(cwd, "plan", project / f"{name}.yaml", "--out", project / "runs", **env)
        assert status == 0, err
        runs[name, *env] = read_study(project / "runs" / "s")["runs"]
    assert runs["s",] == runs["bare", "VIT_PLUGINS"] == runs["s", "VIT_PLUGINS"]
    stated = read_study(project / "runs" / "s")
    assert stated["plugins"] == ["../../mine.py"]
    (mine,) = [run["run"] for run in runs["s",] if run["variant"] == "mine"]

    study = project.rename(project.parent / "moved") / "runs" / "s"
    status, out, err = command(away, "cell", study, mine, "--tracking", "off")
    assert (status, out) == (0, out) and f"{mine}: finished, test/acc" in out, err
    plugin = json.loads((study / mine / "summary.json").read_text())["provenance"]["plugin"]
    assert plugin["modules"] == "mine.py" and (study / mine / "plugin" / "mine.py").read_text() == PLUGIN


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"plugins": ["no.py"]}, "s.yaml: plugins: 'no.py' is not a file in {project}"),
        ({"plugins": ["mine"]}, "s.yaml: plugins: 'mine' is not a file in {project}"),
        ({"plugins": "mine.py"}, "s.yaml: plugins: 'mine.py' is not allowed: input should be a valid list"),
    ],
    ids=str,
)
def test_a_plugin_that_cannot_be_used_is_one_line_that_names_its_folder(fields, said, project):
    tree = {**json.loads((project / "s.yaml").read_text()), **fields}
    (project / "s.yaml").write_text(json.dumps(tree))
    status, out, err = command(project.parent / "there", "plan", project / "s.yaml")
    assert (status, out, err.count("\n")) == (2, "", 1) and said.format(project=project) in err


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("plan", "torch.zeros(cfg.", "torch.ones(cfg.nmu", "the class Mine raises AttributeError: 'ViTConfig' object"),
        ("run", "", "", "the class Mine cannot be used at 12 px: its class does not override `resized(self, cfg)`"),
    ],
)
def test_a_class_that_cannot_work_is_one_line_before_anything_is_written(name, old, new, said, project):
    (project / "mine.py").write_text(PLUGIN.replace(old, new))
    tree = json.loads((project / "s.yaml").read_text())
    tree["base"]["eval.img_sizes"] = [12]
    (project / "s.yaml").write_text(json.dumps(tree))
    status, out, err = command(project, name, "s.yaml")
    assert (status, out, err.count("\n")) == (2, "", 1) and f"variant 'mine': mine: {said}" in err, err
    assert not (project / "runs").exists()
