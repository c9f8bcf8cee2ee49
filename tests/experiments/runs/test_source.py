"""The source of a plug-in is part of a run: of its id, of its folder, of the report. So are uncommitted changes."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import tiny
from commands import PLUGIN, ROOT, run

from analysis.findings import analyze
from analysis.report import study_document
from analysis.runs.exported import export
from analysis.runs.read import read
from analysis.write import files as write
from experiments import version
from experiments.runs import record

STUDY = "name: s\nfactors:\n  model.pos_embed: [none, mine]\nbase: {}\n"


@pytest.fixture
def workplace(tmp_path):
    """A user's folder with a plug-in and a study."""
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    (tmp_path / "s.yaml").write_text(STUDY.replace("{}", json.dumps(tiny.settings(train__epochs=1))))
    return tmp_path


def sweep(seeds: str, folder: Path) -> tuple[int, str, str]:
    """Run the study in the user's folder."""
    words = ("run", "s.yaml", "--seeds", seeds, "--workers", "1", "--tracking", "off")
    return run("vit-sweep", *words, cwd=folder, VIT_PLUGINS="my_plugin", PYTHONPATH=f"{ROOT}{os.pathsep}{folder}")


@pytest.mark.slow
def test_changed_plugin_is_another_run(workplace):
    status, _, err = sweep("1", workplace)
    assert status == 0, err
    (mine,) = workplace.glob("runs/s/mine-*")
    assert {path.name: path.read_text() for path in (mine / "plugin").iterdir()} == {"my_plugin.py": PLUGIN}
    (none,) = workplace.glob("runs/s/none-*")
    assert not (none / "plugin").exists()
    assert "plugin" not in json.loads((none / record.SUMMARY).read_text())["provenance"]

    study = read(str(workplace / "runs/s"))
    report = write.make(study_document(analyze(study)))["report.md"].decode()
    assert "export VIT_PLUGINS=my_plugin" in report and "return x + self.table" in report
    assert "not committed to git" in report
    assert read(str(export(study, workplace / "kept"))).sources == study.sources

    (workplace / "my_plugin.py").write_text(PLUGIN.replace("x + self", "x + 3 * self"))  # the same parameters
    status, _, err = sweep("2", workplace)
    assert status == 2 and "the source of its plug-in was changed" in err.splitlines()[-1]
    assert len(list(workplace.glob("runs/s/mine-*"))) == 1

    (mine / "plugin" / "my_plugin.py").write_text("")
    with pytest.raises(record.RecordError, match="my_plugin.py: does not match the digest"):
        read(str(workplace / "runs/s"))


def test_uncommitted_changes_are_kept_beside_the_record(tmp_path, monkeypatch):
    checkout = tmp_path / "project"
    (checkout / "experiments").mkdir(parents=True)
    file = checkout / "experiments" / "version.py"
    file.write_text("one\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(version, "__file__", str(file))
    version._git.cache_clear()
    tiny.run(tmp_path / "clean")
    assert not (tmp_path / "clean" / record.DIFF).exists()

    file.write_text("two\n")
    version._git.cache_clear()
    tiny.run(tmp_path / "changed")
    diff = (tmp_path / "changed" / record.DIFF).read_text()
    assert "-one\n+two\n" in diff
    applied = subprocess.run([*git, "apply", "--reverse"], input=diff, text=True, cwd=checkout)
    assert applied.returncode == 0 and file.read_text() == "one\n"
    assert record.DIFF in record.read_run(tmp_path / "changed").summary["files"]

    file.write_text("x" * (version.MAX_DIFF + 1))
    version._git.cache_clear()
    tiny.run(tmp_path / "large", seed=1)
    body = (tmp_path / "large" / record.DIFF).read_bytes()
    assert len(body) == version.MAX_DIFF and b"[cut: the diff has" in body[-100:]
    version._git.cache_clear()
