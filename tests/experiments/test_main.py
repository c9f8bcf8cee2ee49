"""`vit-train`: bad input gives one line, status 2 and no files; help imports nothing heavy; runs, listings,
plug-ins.
"""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import PLUGIN, ROOT, run
from PIL import Image
from tiny import flags

from experiments.config import SETTINGS, RunConfig, override
from experiments.data.loading import load
from experiments.files import lock
from experiments.main import main
from experiments.presets import PRESETS
from vit.registry import REGISTRY


def vit_train(*arguments: str | Path) -> int:
    """The command's exit status."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0


BAD = {  # test_config has the settings
    "unknown flag": (["--model.depht", "3"], ["--model.depht: no such flag", "did you mean '--model.depth'?"]),
    "flag without its section": (["--lr", "0.1"], ["--lr: no such flag; did you mean '--optim.lr'?"]),
    "flag of two sections": (["--name", "sgd"], ["did you mean '--data.name' or '--optim.name'?"]),
    "unknown preset": (["--preset", "digit"], ["preset", "'digit'", "did you mean 'digits'?"]),
    "bad setting": (["--optim.lr=-1e-3"], ["optim.lr: '-1e-3'", "greater than 0"]),
    "a command": (["settigns"], ["'settigns' is no command; did you mean 'settings'?"]),
    "no value": (["--model.depth"], ["--model.depth", "expected one argument"]),
    "no threads": (["--threads", "0"], ["--threads", "'0'", "an integer from 1"]),
    "no folder": (["--out", ""], ["--out", "'' is not allowed"]),
    "a model of too many layers": (["--model.depth", "1000000"], ["model.depth: '1000000'", "equal to 10000"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_one_line_and_leaves_nothing(name, tmp_path, capsys):
    arguments, words = BAD[name]
    out = [] if "--out" in arguments else ["--out", tmp_path / "out"]
    assert vit_train(*flags(), *out, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("vit-train: error: ")
    assert [word for word in words if word not in line] == []
    assert list(tmp_path.iterdir()) == []


def test_unwritable_out_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        assert vit_train(*flags(), "--out", out) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"vit-train: error: out: '{out}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_run_prints_epochs_accuracy_and_record(tmp_path, capsys):
    assert vit_train(*flags(), "--out", tmp_path / "out") == 0
    printed = capsys.readouterr()
    *epochs, accuracy, last = printed.out.splitlines()
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]
    (folder,) = (tmp_path / "out").glob("digits-*")
    assert re.fullmatch(r"digits-learned-1d-s0-[0-9a-f]{8}", folder.name)
    assert re.fullmatch(r"test accuracy \d+\.\d\d%, validation accuracy \d+\.\d\d%", accuracy)
    assert last == f"record: {folder}"
    assert printed.err == ""

    assert vit_train(*flags(), "--out", tmp_path / "out") == 0  # again: only reads the record
    assert capsys.readouterr().out.splitlines() == [
        "This run is already finished; nothing was trained.",
        accuracy,
        last,
    ]


def test_a_run_that_another_process_trains_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.runs.run.LOCK_SECONDS", 0.1)
    assert vit_train(*flags(), "--out", tmp_path) == 0
    (folder,) = tmp_path.glob("digits-*")
    shutil.rmtree(folder)
    capsys.readouterr()
    with lock(tmp_path / "locks" / folder.name):
        assert vit_train(*flags(), "--out", tmp_path) == 2
    line = f"vit-train: error: out: '{folder}' is trained by another process\n"
    assert capsys.readouterr().err == line and not folder.exists()


def test_diverged_run_exits_with_status_1(tmp_path, capsys):
    arguments = flags(optim__lr=1e30, optim__name="sgd", optim__schedule="constant")
    for _ in range(2):  # the second time from the record
        assert vit_train(*arguments, "--out", tmp_path / "out") == 1
        assert "diverged in epoch" in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("*/summary.json"))) == 1


def test_settings_are_listed_once_with_their_defaults_and_what_is_allowed(capsys):
    assert vit_train("settings") == 0
    text = capsys.readouterr().out
    assert [path for path in SETTINGS if len(re.findall(rf"^{path} ", text, re.M)) != 1] == []
    assert [choice for setting in SETTINGS.values() for choice in setting.choices if choice not in text] == []
    assert vit_train("settings", "MOMENTUM", "--preset", "digits", "--optim.momentum", "0.5") == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["setting", "default", "allowed", "description"]
    assert re.split("  +", row.strip()) == ["optim.momentum", "0.5", "number >= 0 and < 1", "momentum of sgd"]
    assert vit_train("settings", "momentun") == 2
    assert "did you mean 'optim.momentum'?" in capsys.readouterr().err


def test_presets_are_listed_with_size_and_published_accuracy(capsys):
    assert vit_train("presets") == 0
    text = capsys.readouterr().out
    rows = {line.split()[0]: line for line in reversed(text.splitlines()) if line.split()}  # numbers come first
    assert [name for name in PRESETS if name not in rows] == []
    assert "119,098" in rows["tintn-cifar10"]  # as its author counts them
    assert "75.50%" in rows["tintn-cifar10"]
    assert "1,642" in rows["pulfer-mnist"]
    assert "400" in rows["pulfer-mnist"]
    assert "86,567,656" in rows["vit-b16"]


def test_variants_are_listed(capsys):
    assert vit_train("variants") == 0
    text = capsys.readouterr().out
    assert [name for name in REGISTRY if not re.search(rf"^{name} ", text, re.MULTILINE)] == []
    assert "an embedding r for each binned offset." in " ".join(text.split())  # a summary of two lines


def test_data_shows_what_a_run_gets(tmp_path, capsys):
    """By hand: of 10 training images of each class 1 is for validation; the second test image of a cat is in train."""
    for part, size in (("train", (20, 10)), ("test", (30, 20))):
        for label, name in enumerate(("cat", "[b]dog")):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            for i in range(10 if part == "train" else 2):
                Image.new("RGB", size, (9 * i + 1, 100 * label, 9 if part == "train" else 99)).save(folder / f"{i}.png")
    data = ["--data.name", "imagefolder", "--data.root", tmp_path, "--data.img-size", "8", "--model.patch-size", "4"]
    in_train = load(override(RunConfig(), {str(k)[2:]: str(v) for k, v in zip(data[::2], data[1::2])})).train.x[
        0, :, 0, 0
    ]
    Image.new("RGB", (20, 10), tuple(in_train.tolist())).save(tmp_path / "test" / "cat" / "1.png")
    assert vit_train("data", *data) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert ["class", "train", "val", "test"] in rows and ["also", "in", "train", "-", "0", "1"] in rows
    assert [row for row in rows if row[:1] in (["cat"], ["[b]dog"], ["all"])] == [
        ["[b]dog", "9", "1", "2"],
        ["cat", "9", "1", "2"],
        ["all", "18", "2", "4"],
    ]
    assert "2 classes. Images for the model: 8 x 8 pixels, 3 channel(s)." in printed
    figure = tmp_path / "samples.png"
    assert vit_train("data", *data, "--figure", figure) == 0
    drawn = np.array(Image.open(figure))  # a row for each class, with lines of 2 pixels between
    assert drawn.shape == (2 * 10 + 2, 8 * 10 + 2, 3)
    of_dogs = drawn[2:10, 2:10].reshape(64, 3)
    assert (of_dogs == of_dogs[0]).all() and of_dogs[0].tolist() != drawn[12, 2].tolist()
    body = figure.read_bytes()
    assert vit_train("data", *data, "--figure", figure) == 2 and figure.read_bytes() == body
    assert vit_train("--figure", figure) == 2 and not (tmp_path / "runs").exists()


def run_plugin(folder, name, path=""):
    """Train a run of the plug-in; `path` goes before the project in the search path."""
    folder.mkdir(exist_ok=True)
    if not (folder / "mine.py").exists():
        (folder / "mine.py").write_text(PLUGIN)
    env = {"VIT_PLUGINS": name, "PYTHONPATH": os.pathsep.join(filter(None, [str(path), str(ROOT)]))}
    words = [*flags(), "--model.pos-embed", "mine", "--out", "out", "--tracking", "off"]
    return run("vit-train", *words, cwd=folder, PYTHONSAFEPATH="1", **env)  # without the current folder, as its script


def test_a_plugin_by_its_path_is_the_run_of_the_plugin_by_its_name(tmp_path):
    """Also where its folder holds files with names of this project and of Python, which hide nothing."""
    for name in ("vit.py", "analysis.py", "random.py"):
        (tmp_path / name).write_text("raise RuntimeError('imported')\n")
    done = [run_plugin(tmp_path, "mine.py"), run_plugin(tmp_path / "named", "mine", tmp_path / "named")]
    assert [(status, err) for status, _, err in done] == [(0, "")] * 2
    runs = [json.loads(path.read_text()) for path in sorted(tmp_path.rglob("out/*/summary.json"))]
    assert len(runs) == 2 and len({run["run_id"] for run in runs}) == 1
    assert len({run["provenance"]["plugin"]["digest"] for run in runs}) == 1
    for run_dir in (path.parent for path in tmp_path.rglob("out/*/summary.json")):
        assert {path.name: path.read_text() for path in (run_dir / "plugin").iterdir()} == {"mine.py": PLUGIN}


PLUGINS = {  # mine.py, VIT_PLUGINS, and what the line names
    "broken": ("def broken(:\n", "mine", "'mine' cannot be imported: SyntaxError: .*mine.py, line 1"),
    "taken": (
        "from vit.pos_embed import PosEmbed, register\n@register('none')\nclass Mine(PosEmbed):\n    pass\n",
        "mine",
        "'mine' cannot be imported: ValueError: .*the name 'none' is already registered",
    ),
    "no module": ("", "missing", "'missing' cannot be imported: .*; its folder must be in PYTHONPATH"),
    "no file": ("", "nowhere.py", "'nowhere.py' is not a file"),
    "the name of a module": ("", "json.py", "'json.py' cannot be imported: .*json.* has its name"),
}


@pytest.mark.parametrize(("source", "name", "said"), PLUGINS.values(), ids=PLUGINS)
def test_a_plugin_that_cannot_be_used_is_one_line(source, name, said, tmp_path):
    for file in ("mine.py", name) if name == "json.py" else ("mine.py",):
        (tmp_path / file).write_text(source)
    status, out, err = run_plugin(tmp_path, name, "" if name == "json.py" else tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1) and not (tmp_path / "out").exists(), err
    assert re.match(f"vit-train: error: VIT_PLUGINS: {said}", err), err
