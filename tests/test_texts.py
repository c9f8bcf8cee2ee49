"""Texts of records in twenty places: what of them reaches the terminal, LaTeX and a shell does nothing there."""

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import study_file
import synthetic

import analysis
import analysis.main
import sweeps.main
from analysis.questions.provenance import commands
from analysis.runs.read import read
from experiments.errors import UserError, printable, say, shell_words
from experiments.files import canonical
from experiments.runs import record
from sweeps.study_folder import the_only_driver

TEXTS = {
    "escape": "\x1b[2J",
    "direction": "\u202e",
    "line": "\nOWN ",
    "nul": "\0",
    "write18": r"$\immediate\write18{touch X}$ \input{X} $^^5cinput{X}$",
    "backticks": "`: > X` $(: > X) '; : > X; \"",
}
PLACES = (
    *("description", "command", "variant", "factor-name", "label", "commit", "hardware", "version", "module"),
    *("class", "date", "unplanned-run", "error", "look-command", "look-metric"),
    *("file-of-a-record", "image-hash"),
)


@pytest.fixture(scope="module", params=TEXTS)
def hostile(request, tmp_path_factory) -> tuple[str, Path]:
    """A text, and a study with it in each of the places, after the name of the place."""
    text, folder = TEXTS[request.param], tmp_path_factory.mktemp("hostile")
    at = {place: f"{place}{text}." for place in PLACES}
    at["variant"] = at["variant"].replace("\0", "")  # a key of study.json
    study = synthetic.write_study(folder, accuracy={at["variant"]: 0.7, "other": 0.9}, seeds=3, levels=_levels)
    synthetic.add_predictions(study)
    plan = study_file.read_study(study)
    names = {"names": {"model.pos_embed": at["factor-name"]}, "labels": {"other": at["label"].replace("$", "")}}
    given = {"description": at["description"], "command": at["command"]}
    study_file.write_study(study, {**plan, **given, **names})
    origin = {
        "commit": at["commit"],
        "hardware": {"device": "cpu", "name": at["hardware"], "threads": 1},
        "versions": {"torch": at["version"]},
        "finished": at["date"],
        "plugin": {"modules": at["module"], "digest": None},
    }
    for run in study.glob("v*-s*"):
        fields = {"classes": [at["class"]] * 10, "files": at["image-hash"]}
        synthetic.change_summary(run, provenance=origin, data=fields)
    (study / "v0-s0" / record.SUMMARY).unlink()
    (study / "v0-s0" / record.ERROR).write_text(f"Traceback\n{at['error']}")
    bad = record.read_summary(study / "v1-s0") | {"files": {f"../{at['file-of-a-record']}": "x"}}
    del bad["digest"]
    bad["digest"] = hashlib.sha256(canonical(bad)).hexdigest()
    (study / "v1-s0" / record.SUMMARY).write_text(json.dumps(bad))
    look = {"time": "now", "fewest": 2, "most": 2, "metric": at["look-metric"], "command": at["look-command"]}
    (study / "looks.jsonl").write_text(json.dumps(look) + "\n")
    if "\0" not in text:
        shutil.copytree(study / "v1-s1", study / at["unplanned-run"].replace("/", ""))
    return text, study


def _levels(variant: str) -> dict[str, int]:
    return {"model.depth": 1 if variant.startswith("variant") else 2}


def printed(capsys, body, *words: object) -> str:
    """What a command prints, with its error, if there is one."""
    try:
        body([str(word) for word in words])
    except UserError as error:
        say(f"error: {error}", error=True)
    return "".join(capsys.readouterr())


def test_a_terminal_gets_lines_that_can_be_printed(hostile, capsys, tmp_path, monkeypatch):
    _, study = hostile
    monkeypatch.setattr("sweeps.study_folder.DRIVER_SECONDS", 0.0)
    whole = Path(shutil.copytree(study, tmp_path / "whole"))
    shutil.rmtree(whole / "v1-s0")
    with (study / "driver.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        seen = [
            printed(capsys, sweeps.main._body, "status", study, "--all"),
            printed(capsys, lambda words: the_only_driver(Path(words[0])).__enter__(), study),
        ]
    seen += [
        printed(capsys, sweeps.main._body, "run", whole, "--dry-run"),
        printed(capsys, sweeps.main._body, "status", study, "--json"),
        printed(capsys, sweeps.main._body, "run", study, "--dry-run"),
        printed(capsys, sweeps.main._body, "cell", study, "run=x"),
        printed(capsys, sweeps.main._body, "sync", study, "--tracking", "off"),
        printed(capsys, analysis.main.body, study, "--json", "--skip-unreadable"),
        printed(capsys, analysis.main.body, study, "--json"),
        printed(capsys, analysis.main.body, study, "--skip-unreadable", "--baseline", "x"),
        printed(capsys, analysis.main.body, study, "--skip-unreadable", "--out", tmp_path / "report"),
    ]
    for text in seen:
        assert text and all(line.isprintable() and not line.startswith("OWN") for line in text.splitlines())
    shown = ("variant", "label", "error", "file-of-a-record")
    assert [place for place in shown if place not in "".join(seen)] == []


def test_latex_gets_no_command_of_a_text(hostile, tmp_path, capsys):
    """Neither the command's table nor that of Python: a backslash starts a word that sets text, or an accent."""
    _, study = hostile
    file = tmp_path / "table.tex"
    printed(capsys, analysis.main.body, study, "--skip-unreadable", "--table", file)
    for body in (file.read_text(), analysis.read(study, skip_unreadable=True).to_latex()):
        assert body.isascii() and all(line.isprintable() for line in body.splitlines())
        assert not re.search(r"\\(input|write|immediate|openout|catcode|def|csname)|\^\^", body)


def test_a_shell_gets_the_words_of_our_commands_quoted(hostile, tmp_path):
    """The lines of Reproduce, in a shell whose commands do nothing: no file is made, and no line is another command."""
    _, study = hostile
    block = commands(read(str(study), skip_unreadable=True))
    for line in [*block.splitlines(), shell_words(f"vit-sweep run {TEXTS['backticks']}"), shell_words("rm -rf x")]:
        assert line.isprintable() and re.match(r"# |git checkout |vit-(sweep|report|train) ", line)
    stubs = "git() { :; }; vit-sweep() { :; }; vit-report() { :; }; vit-train() { :; };"
    done = subprocess.run(
        ["bash", "-c", f"{stubs}\n{block}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, [*tmp_path.iterdir()]) == (0, "", [])


@pytest.mark.parametrize("text", TEXTS.values())
def test_an_error_is_one_line(text):
    line = str(UserError(f"field: {text} is not allowed"))
    assert line.isprintable() and printable(line) == line
