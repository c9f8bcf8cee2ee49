"""W&B mirrors a run and never stops it: offline runs read back by W&B's own reader, failures said once, no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny

from experiments.runs import record
from experiments.runs.run import train
from experiments.runs.spec import RunSpec
from experiments.runs.tracking import Tracking

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tracking may set in the environment is gone again after each test."""
    for name in ("WANDB_MODE", "WANDB_DATA_DIR", "WANDB_API_KEY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def mirrored(folder: Path, mode: str, **changes: Any) -> dict[str, Any]:
    """Train a tiny run under a tracking mode; its summary."""
    run = RunSpec(folder.name, tiny.config(**changes), "learned-1d")
    (summary,) = train([run], folder.parent, device="cpu", tracking=Tracking(mode, "position"))
    return summary


def wandb_records(study: Path) -> dict[str, list[dict[str, Any]]]:
    """Everything in the only offline run beside the records, by type, as W&B's own command reads it."""
    (path,) = study.glob("wandb/offline-run-*/*.wandb")
    done = subprocess.run(
        [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        found.setdefault(entry["type"], []).append(entry[entry["type"]])
    return found


@pytest.mark.parametrize(
    ("mode", "in_thread"),
    [("offline", False), ("auto", False), ("offline", True)],  # auto is offline where no key is configured
)
def test_an_offline_run_holds_what_the_record_holds(
    mode: str, in_thread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.runs.run.uses_thread", lambda device: in_thread)
    monkeypatch.setattr("builtins.input", lambda *prompt: pytest.fail("asked a question"))
    summary = mirrored(tmp_path / "study" / "the-run", mode)
    found = wandb_records(tmp_path / "study")
    run = found["run"][0]
    named = {key: run[key] for key in ("run_group", "job_type", "display_name", "project")}
    assert named == {
        "run_group": "learned-1d",
        "job_type": "position",
        "display_name": "the-run",
        "project": "vit-ablation",
    }
    assert run["run_id"].startswith(summary["run_id"])
    config = tiny.config().model_dump()
    assert {key: run["config"]["update"][key] for key in config} == config

    rows = record.read_run(tmp_path / "study" / "the-run").rows
    history = [{key: entry["item"][key] for key in rows[0]} for entry in found["history"]]
    assert history == rows
    told: dict[str, Any] = {}
    for entry in found["summary"]:
        told |= entry.get("update", {})
    assert {key: told[key] for key in ("status", "test/acc", "val/acc")} == {
        key: summary[key] for key in ("status", "test/acc", "val/acc")
    }
    assert found["exit"][0].get("exit_code", 0) == 0
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"the-run", "wandb"}


SCRIPT = """
import contextlib, os, signal, sys
from pathlib import Path
import tiny
from experiments.runs import tracking
from experiments.runs.run import train
from experiments.runs.spec import RunSpec
tracking.INIT_SECONDS = 1

def on_row(job, row):
    if "kill" in sys.argv and row["epoch"] == 1:
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                text = status.read_text()
            if f"PPid:\\t{os.getpid()}\\n" in text and "wandb" in text.splitlines()[0]:
                os.kill(int(status.parent.name), signal.SIGKILL)
                print("killed", status.parent.name)

study = Path(sys.argv[1])
for seed in (0, 1):
    run = RunSpec(f"s{seed}", tiny.config(seed=seed), "v")
    train([run], study, device="cpu", tracking=tracking.Tracking("auto", "study"), on_row=on_row)
"""


def run_script(study: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    inherited = {
        name: value for name, value in os.environ.items() if "WANDB_SERVICE" not in name
    }  # else it would share ours
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(study), *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**inherited, "PYTHONPATH": path, **environment},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_server_that_does_not_answer_stops_nothing(tmp_path: Path) -> None:
    """A key is configured, and nobody listens: the first run says so and goes on offline, the next waits no more."""
    done = run_script(tmp_path / "out", WANDB_API_KEY="a" * 40, WANDB_BASE_URL="http://127.0.0.1:9")
    said = [line for line in done.stderr.splitlines() if line.startswith("tracking: ")]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("tracking: W&B did not answer")
    assert "s0 is tracked offline" in said[0]
    tiny.run(tmp_path / "alone")
    assert tiny.results(tmp_path / "out" / "s0") == tiny.results(tmp_path / "alone")
    assert record.is_finished(tmp_path / "out" / "s1")
    assert len(list((tmp_path / "out").glob("wandb/offline-run-*/*.wandb"))) == 2


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="finds W&B's process in /proc")
def test_wandbs_process_dying_stops_nothing(tmp_path: Path) -> None:
    done = run_script(tmp_path / "out", "kill")
    assert "killed" in done.stdout
    said = [line for line in done.stderr.splitlines() if line.startswith("tracking: ")]
    assert all("; the local record is complete" in line for line in said)
    assert 1 <= len(said) <= 2  # once a run
    tiny.run(tmp_path / "alone")
    assert tiny.results(tmp_path / "out" / "s0") == tiny.results(tmp_path / "alone")
    assert record.is_finished(tmp_path / "out" / "s1")


class Unlike(Exception):
    """Of no family that anyone would think to catch."""


class FakeRun:
    """A W&B run that remembers, and fails at one stage."""

    def __init__(self, stage: str, error: type[Exception]) -> None:
        self.stage, self.error, self.rows, self.summary, self.exit_code = stage, error, [], {}, None

    def _do(self, stage: str) -> None:
        if stage == self.stage:
            raise self.error("it\nbroke")

    def define_metric(self, *arguments: Any, **options: Any) -> None:
        self._do("define_metric")

    def log(self, row: dict[str, float]) -> None:
        self._do("log")
        self.rows.append(row)

    def finish(self, exit_code: int) -> None:
        self._do("finish")
        self.exit_code = exit_code


def fake_wandb(
    monkeypatch: pytest.MonkeyPatch, stage: str = "", error: type[Exception] = Unlike
) -> tuple[FakeRun, list[dict[str, Any]]]:
    """Put a stand-in for wandb in place: (the run it gives, what it was started with)."""
    run, started = FakeRun(stage, error), []

    def init(**options: Any) -> FakeRun:
        started.append(options)
        run._do("init")
        return run

    class Error(Exception):
        """The base of W&B's own errors."""

    module = SimpleNamespace(init=init, Settings=lambda **options: options, errors=SimpleNamespace(Error=Error))
    monkeypatch.setitem(sys.modules, "wandb", module)
    return run, started


@pytest.mark.parametrize("error", [Unlike, OSError, TypeError])
@pytest.mark.parametrize("stage", ["init", "define_metric", "log", "finish"])
def test_a_failure_at_any_stage_is_said_once_and_stops_nothing(
    stage: str,
    error: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_wandb(monkeypatch, stage, error)
    assert mirrored(tmp_path / "a", "offline")["status"] == "finished"
    said = capsys.readouterr().err.splitlines()
    assert said == [f"tracking: stopped for this run: {error.__name__}: it; the local record is complete"]
    tiny.run(tmp_path / "alone")
    assert tiny.results(tmp_path / "a") == tiny.results(tmp_path / "alone")


def test_wandb_that_cannot_be_imported_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert mirrored(tmp_path / "a", "auto")["status"] == "finished"
    assert capsys.readouterr().err.count("tracking: ") == 1


@pytest.mark.parametrize(
    ("mode", "environment", "expected"),
    [
        ("auto", {"WANDB_API_KEY": "a" * 40}, "online"),
        ("auto", {"WANDB_API_KEY": "a" * 40, "WANDB_MODE": "offline"}, "offline"),
        ("auto", {"WANDB_MODE": "offline"}, "offline"),
        ("online", {"WANDB_MODE": "offline"}, "online"),
        ("offline", {"WANDB_API_KEY": "a" * 40}, "offline"),
        ("auto", {"WANDB_MODE": "disabled"}, None),
        ("off", {"WANDB_API_KEY": "a" * 40}, None),
    ],
)
def test_what_a_mode_means(
    mode: str, environment: dict[str, str], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    _, started = fake_wandb(monkeypatch)
    mirrored(tmp_path / "a", mode)
    assert [options["mode"] for options in started] == ([expected] if expected else [])


def test_a_diverged_run_is_mirrored_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = fake_wandb(monkeypatch)
    mirrored(tmp_path / "a", "offline", optim__lr=1e30, optim__name="sgd", optim__schedule="constant")
    assert run.summary["status"] == "diverged"
    assert run.exit_code == 1


def test_a_resumed_run_is_the_same_wandb_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, started = fake_wandb(monkeypatch)

    def stop(job: int, row: dict[str, float]) -> None:
        raise KeyboardInterrupt

    spec = RunSpec("a", tiny.config(), "v")
    with pytest.raises(KeyboardInterrupt):
        train([spec], tmp_path, device="cpu", tracking=Tracking("offline", "s"), on_row=stop)
    train([spec], tmp_path, device="cpu", tracking=Tracking("offline", "s"))
    assert started[0]["id"] == started[1]["id"]
    assert started[1]["resume"] == "allow"
    assert [row["epoch"] for row in run.rows] == [1, 2, 3]


def test_off_does_not_even_import_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # an import would fail, and tracking would say so
    mirrored(tmp_path / "a", "off")
    assert capsys.readouterr().err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
