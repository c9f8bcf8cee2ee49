"""The wheel works without the repository: it installs into an empty environment and runs the first study."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_wheel_runs_the_first_study_and_its_report(tmp_path):
    def call(*arguments: str | Path, **environment: str) -> str:
        done = subprocess.run(
            arguments, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    copy = tmp_path / "copy"  # a build leaves files beside the source
    for package in ("vit", "experiments", "sweeps", "analysis"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "reference"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    call(*pip, "wheel", "--no-deps", "-w", tmp_path, copy)
    shutil.rmtree(copy)
    (wheel,) = tmp_path.glob("vit_ablation-*.whl")
    call(sys.executable, "-m", "venv", "--without-pip", "empty")
    own = call("empty/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    call(*pip, "--python", "empty/bin/python", "install", "--no-deps", wheel)
    # its dependencies, without what an editable install adds to the path
    environment = {"PYTHONPATH": sysconfig.get_path("purelib"), "WANDB_MODE": "offline"}
    where = call("empty/bin/python", "-c", "import sweeps; print(sweeps.__file__)", **environment)
    assert own in where
    study = ("position", "--preset", "digits", "--seeds", "2", "--train.epochs", "1", "--tracking", "off")
    call("empty/bin/vit-sweep", "run", *study, **environment)
    assert "runs/position/report/report.html" in call("empty/bin/vit-report", "runs/position", **environment)
