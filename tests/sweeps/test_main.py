"""vit-sweep as a user meets it: what it prints, its exit statuses, and one line for every kind of bad input."""

import json
import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from commands import start
from stubbed import tiny_plan

from sweeps.plan import FILES
from sweeps.study_folder import StudyFolder

ROOT = Path(__file__).resolve().parents[2]


def study(folder: Path, **fields) -> Path:
    path = folder / "mine.yaml"
    path.write_text(json.dumps({"name": "mine", "factors": {"model.depth": [1, 2]}, **fields}))  # JSON is YAML
    return path


def test_list_names_every_study(vit_sweep):
    status, out, _ = vit_sweep("list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == [*FILES, "Each"]


def test_a_dry_run_gives_the_grid_and_counts_what_is_done(vit_sweep, tmp_path):
    factors = {"model.patch_size": [2, 4], "model.embed_dim": [16, 32]}
    path = study(tmp_path, factors=factors, seeds=3, looks=[3, 6])
    changes = ("--train.epochs", "7", "--optim.lr", "0.25")
    status, out, _ = vit_sweep("run", path, "--out", tmp_path, "--dry-run", *changes)
    assert status == 0
    assert "patch_size=4, embed_dim=32      3     0" in out
    assert "12 runs, 0 done" in out
    assert "looks     tests at 3 (level 0.62%), 6 (level 4.38%) seeds\n" in out  # an eighth of 5 %, and the rest
    assert "train.epochs=7" in out
    assert "optim.lr=0.25" in out
    assert not (tmp_path / "mine").exists()


def test_a_dry_run_counts_runs_and_epochs_without_data_or_a_gpu(vit_sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = {"data.name": "cifar10", "data.root": "nowhere", "model.patch_size": 8, "train.epochs": 7}
    status, out, err = vit_sweep("run", study(tmp_path, base=base, seeds=3), "--dry-run", "--device", "cuda:7")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "To train: 6 runs, 42 epochs"
    assert os.listdir(tmp_path) == ["mine.yaml"]


BAD = [
    (["run", "positoin"], "did you mean 'position'"),
    (
        ["run", "mien.yaml"],
        "study: 'mien.yaml' is missing; did you mean 'mine.yaml'? files here: mine.yaml, tiny.yaml; ",
    ),
    (["run", "mine.yaml", "--out", ""], "--out: '' is not allowed: expected the path of a folder"),
    (["run", "mine.yaml", "--seeds", "few"], "--seeds: 'few' is not allowed"),
    (["run", "mine.yaml", "--workers", "0"], "--workers"),
    (["run", "mine.yaml", "--device", "tpu9"], "device: 'tpu9'"),
    (["run", "mine.yaml", "--model.depth", "3"], "is a factor"),
    (["run", "mine.yaml", "--seed", "3"], "--seeds"),
    (["run", "mine.yaml", "--out", "mine.yaml"], "cannot be written"),
    (["run", "tiny.yaml", "--out", "runs", "--dry-run"], "holds another study"),
    (["run", "tiny.yaml", "--out", "folders", "--dry-run"], "study.json: cannot be read: Is a directory"),
    (["run", "mine.yaml", "--out", "link"], "out: 'link' cannot be written"),
    (
        ["tune", "runs/tiny", "--trials", "1"],
        "'runs/tiny' is the folder of a study; to train what is left: vit-sweep run runs/tiny",
    ),
    (["run", "runs/tiny", "--seeds", "0"], "seeds: 0 is not allowed: expected a number of seeds from 1"),
    (["run", "runs/tiny", "--model.depth", "3"], "--model.depth: is not allowed with the folder"),
    (["run", "pulfer-mnist", "--preset", "digits"], "--preset: 'digits' is not allowed"),
    (["run"], "STUDY"),
    (["rnu", "mine.yaml"], "invalid choice: 'rnu' (choose from "),
    (["wandb", "mine.yaml", "--project", "a/b"], "--project: 'a/b' is not allowed"),
    (["status", "nowhere"], "STUDY_DIR: 'nowhere' holds no study.json; `vit-sweep run` makes such a folder"),
    (["status", "tiny"], "did you mean runs/tiny?"),
    (["sync", "folders/tiny"], "folders/tiny: holds no finished runs"),
    (["status", "runs/broken"], "study.json: is not JSON"),
    (["status", ROOT / "analysis/reference/digits/position"], "holds an exported study, which has no run folders"),
    *[
        ([command, "runs/table", *more], "holds a table, which has no run folders")
        for command, *more in (["status"], ["run"], ["wandb"], ["cell", "../../EVIL"])
    ],
    (["run", "mine.yaml", "--out", "foreign"], "holds a table, which has no run folders"),
    (["cell", "runs/tiny"], "RUN: expected either run=NAME or --index N"),
    (["cell", "runs/tiny", ""], "RUN: '' is not a run of tiny; `vit-sweep status runs/tiny --all` lists them"),
    (["run", "mine.yaml", "--ray", ""], "--ray: '' is not allowed: expected auto or HOST:PORT"),
    (["cell", "runs/tiny", "--index", "6"], "RUN: '--index 6' is not a run of tiny; expected 0 to 5"),
    (["run", "runs/tiny", "--only", "sofmax"], "--only: 'sofmax' is not a variant of tiny; did you mean 'softmax'?"),
    (["tune", "mine.yaml", "--trials", "2", "--out", "mine.yaml"], "'mine.yaml/mine' cannot be written: Not a"),
    (["cell", "runs/tiny", "run=logits-s1"], "RUN: 'run=logits-s1' is not a run of tiny; did you mean 'run=logits-s1-"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=lambda value: str(value)[:60])
def test_bad_input_gives_one_line_and_status_2_and_leaves_nothing(refused, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    StudyFolder(tmp_path / "runs" / "tiny", tiny_plan()).write("vit-sweep run tiny")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "study.json").write_text("{")
    run = tiny_plan().runs[0].model_copy(update={"name": "../../EVIL"})
    evil = tiny_plan().changed(source="csv:t.csv", runs=[run], seeds=[run.seed])
    for folder in ("runs/table", "foreign/mine"):
        (tmp_path / folder).mkdir(parents=True)
        evil.write(tmp_path / folder)
    (tmp_path / "folders" / "tiny" / "study.json").mkdir(parents=True)
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "tiny.yaml").write_text('{"name": "tiny", "factors": {"model.depth": [1, 2]}}')
    study(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    line = refused(*words)
    assert line.startswith("vit-sweep") and ": error: " in line and said in line
    assert sorted(tmp_path.rglob("*")) == before


def test_a_sweep_leaves_its_engine_before_it_waits_for_wandb(tmp_path, monkeypatch, vit_sweep):
    """Ray ends the process a minute after the head of its cluster, which may die when all runs have ended."""
    left = []
    for name in ("engine_of", "Tracker"):
        context = MagicMock(**{"__exit__.side_effect": lambda *_, name=name: left.append(name)})
        monkeypatch.setattr(f"sweeps.commands.run.{name}", lambda *_, context=context, **options: context)
    monkeypatch.setattr("sweeps.train_plan.train_plan", lambda *_, **options: {})
    assert vit_sweep("run", study(tmp_path), "--out", tmp_path)[0] == 0
    assert left == ["engine_of", "Tracker"]


def test_status_ends_quietly_when_its_reader_has_gone(tmp_path):
    StudyFolder(tmp_path, tiny_plan()).write("vit-sweep run tiny")
    reader, writer = os.pipe()
    os.close(reader)
    process = start("vit-sweep", "status", tmp_path, stdout=writer)
    os.close(writer)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 141)
