"""Runs what the README shows: its commands, study file and variant, with fewer epochs and seeds."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = {"vit-train": "experiments", "vit-sweep": "sweeps", "vit-report": "analysis"}


def block(language: str, containing: str) -> str:
    """The only code block of the README in this language that contains this text."""
    blocks = [b for b in re.findall(rf"```{language}\n(.*?)```", README, re.S) if containing in b]
    assert len(blocks) == 1, containing
    return blocks[0]


def run(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run a console command with the code of this checkout, whatever is installed."""
    name, *arguments = command.split()
    path = os.pathsep.join([str(ROOT), *filter(None, [environment.pop("PYTHONPATH", "")])])
    code = f"import sys; sys.argv[0] = {name!r}; from {COMMANDS[name]}.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path, "WANDB_MODE": "offline", **environment},
    )


def test_the_first_command_writes_a_report(tmp_path):
    written = block("bash", "vit-report runs/position")
    sweep, report = (re.search(rf"{name} .*?(?= &&|\n|$)", written)[0] for name in ("vit-sweep", "vit-report"))
    done = run(sweep.replace("--seeds 5", "--seeds 2") + " --tracking off --set train.epochs=2", tmp_path)
    assert done.returncode == 0, done.stderr
    summaries = [json.loads(p.read_text()) for p in tmp_path.glob("runs/position/*/summary.json")]
    assert len(summaries) == 8 and {s["status"] for s in summaries} == {"finished"}
    done = run(report, tmp_path)
    assert done.returncode == 0, done.stderr
    html = tmp_path / "runs/position/report/report.html"
    assert str(html.relative_to(tmp_path)) in done.stdout
    page = html.read_text(encoding="utf-8")
    assert all(name in page for name in ("none", "sinusoidal", "learned-1d", "learned-2d"))
    accuracies = pd.Series([s["test/acc"] for s in summaries])
    assert accuracies.between(0, 1).all()


@pytest.mark.slow
def test_a_study_in_a_yaml_file(tmp_path):
    (tmp_path / "patches.yaml").write_text(block("yaml", "name: patches"))
    shown = run("vit-sweep show patches.yaml", tmp_path)
    assert shown.returncode == 0 and "20 runs" in shown.stdout
    done = run("vit-sweep run patches.yaml --seeds 1 --tracking off --set train.epochs=1", tmp_path)
    assert done.returncode == 0, done.stderr
    configs = [json.loads(p.read_text())["model"] for p in tmp_path.glob("runs/patches/*/config.json")]
    assert {(c["patch_size"], c["embed_dim"]) for c in configs} == {(p, d) for p in (2, 4) for d in (32, 64)}
    assert run("vit-report runs/patches", tmp_path).returncode == 0


@pytest.mark.slow
def test_a_plug_in_variant_needs_no_other_file(tmp_path):
    code = block("python", '@register("row-only")')
    assert len(code.strip().splitlines()) < 15 + 2  # the class and its imports
    (tmp_path / "row_only.py").write_text(code)
    environment = {"VIT_PLUGINS": "row_only", "PYTHONPATH": str(tmp_path)}
    done = run(
        "vit-train --model.pos-embed row-only --train.epochs 1 --tracking off --out out", tmp_path, **environment
    )
    assert done.returncode == 0, done.stderr
    (config,) = tmp_path.glob("out/*/config.json")
    assert json.loads(config.read_text())["model"]["pos_embed"] == "row-only"
    refused = run("vit-train --model.pos-embed row-only --train.epochs 1 --tracking off --out other", tmp_path)
    assert refused.returncode == 2 and "'row-only' is not known" in refused.stderr and not (tmp_path / "other").exists()
    listed = run("vit-train variants", tmp_path, **environment)
    assert "row-only" in listed.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_no_heavy_library(command, tmp_path):
    code = (
        f"import sys; sys.argv = [{command!r}, '--help']\nfrom {COMMANDS[command]}.main import main\n"
        "try: main()\nexcept SystemExit as e: assert not e.code\n"
        "print('heavy:', sorted({'torch', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'wandb', 'optuna'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.splitlines()[-1] == "heavy: []", done.stdout + done.stderr


def test_the_table_of_runs_has_the_answer_that_the_page_shows(tmp_path):
    (tmp_path / "runs.csv").write_text(block("csv", "method,seed,acc"))
    done = run(block("bash", "csv:runs.csv").strip(), tmp_path)
    answer = block("text", "Higher acc than sgd").split()
    assert done.returncode == 0 and " ".join(answer) in " ".join(done.stdout.split()), done.stderr
    assert (tmp_path / "runs-report" / "report.html").is_file()
    code = [sys.executable, "-c", block("python", "analysis.compare")]
    done = subprocess.run(
        code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.stdout == "better\n", done.stderr


@pytest.mark.parametrize("page", ["README.md", ".github/CONTRIBUTING.md", "analysis/reference/README.md"])
def test_commands_on_a_page_have_known_flags(page, tmp_path):
    lines = (ROOT / page).read_text(encoding="utf-8").replace("`", "\n").splitlines()
    found = [line.split(" #")[0] for line in lines if re.search(r"\bvit-(train|sweep|report) .*--", line)]
    assert found
    for line in found:
        name, verb = re.search(r"\b(vit-train|vit-sweep|vit-report)(?: ([a-z]+)(?= |$))?", line).groups()
        flags = set(re.findall(r"--[a-z][a-z.-]*", line[line.index(name) :]))
        known = set(re.findall(r"--[a-z][a-z._-]*", help_text(name, verb)))
        assert flags <= known, line


@cache
def help_text(name: str, verb: str | None) -> str:
    """The help of a command."""
    return run(f"{name} {verb or ''} --help", ROOT).stdout


@pytest.mark.parametrize("page", ["README.md", ".github/CONTRIBUTING.md", "analysis/reference/README.md"])
def test_links_and_paths_on_a_page_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert all(((ROOT / page).parent / link).exists() for link in links), links
    paths = re.findall(r"`((?:vit|experiments|sweeps|analysis|tests|\.ci)/[\w./-]*)`", text)
    assert all((ROOT / path).exists() for path in paths), paths
