"""`vit-sweep wandb`, and real W&B agents that train its sweep, on a server of ours."""

import json
import signal
import subprocess
from pathlib import Path

import agents_storm
import mirrored
import pytest
import study_file
import tiny
import yaml
from agents import Shell
from stubbed import until
from wandb_sweeps import SweepServer

from experiments.runs import record

STUDY = {"name": "heads", "factors": {"model.head": ["logits", "mlp"]}, "base": tiny.settings(train__epochs=2)}


@pytest.fixture
def server(monkeypatch):
    with SweepServer().used_here(monkeypatch) as running:
        yield running


@pytest.fixture
def study(tmp_path):
    """The file of a study of two variants. Its folder is "heads" beside it."""
    path = tmp_path / "heads.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


@pytest.fixture
def called(vit_sweep):
    """Run `vit-sweep WORDS`: the lines that it prints."""

    def lines(*words):
        status, out, err = vit_sweep(*words)
        assert (status, err) == (0, "")
        return out.splitlines()

    return lines


def test_without_a_key_it_writes_the_files_and_says_how_to_register_them(study, called, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    out = called("wandb", study, "--seeds", 2, "--out", study.parent, "--device", "cpu", "--entity", "us")
    folder = study.parent / "heads"
    file = folder / "wandb-sweep.yaml"
    assert out == [
        "heads: 4 runs, 4 to train",
        f"specification: {file}",
        "W&B cannot be used (no API key is configured; see `wandb login`); register the sweep later with the same "
        f"command, or with: wandb sweep {file}",
        f"next: vit-sweep status {folder}",
    ]
    planned = [entry["run"] for entry in study_file.read_study(folder)["runs"]]
    assert yaml.safe_load(file.read_text()) == {
        "name": "heads",
        "project": "vit-ablation",
        "entity": "us",
        "program": "vit-sweep",
        "method": "grid",
        "parameters": {"run": {"values": planned}},
        "command": ["vit-sweep", "cell", str(folder), "${args_no_hyphens}", "--device", "cpu"],
    }
    assert called("wandb", folder)[0] == "heads: 4 runs, 4 to train"  # the folder of a started study


def test_a_server_that_fails_costs_one_line(server, study, called):
    server.fault = "die"
    out = called("wandb", study, "--out", study.parent)
    assert f"W&B cannot be used ({server.url} did not answer); register the sweep later with the same command" in out[2]
    assert not mirrored.holds(study.parent, server.key)


def check_sweep(server: SweepServer, folder: Path) -> None:
    """Every W&B run of the sweeps has the numbers of the record of the run that it was started for."""
    for sweep in server.sweeps.values():
        for name, point in sweep.sent.items():
            found = mirrored.check(server, folder / point["run"], name)
            assert found.fields["sweep"] == sweep.name
            assert found.settings["run"] == point["run"]


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=1200)
    assert process.returncode == 0, said
    return said


@pytest.mark.slow
def test_a_storm_over_three_agents_trains_each_run_once_and_wandb_has_every_row():
    agents_storm.main(0)


def epochs(folder: Path) -> int:
    """The epochs that a run in this folder has recorded so far."""
    return max((path.read_text().count("\n") - 1 for path in folder.glob("*/metrics.csv")), default=0)


@pytest.mark.slow
def test_a_stopped_agent_leaves_its_run_to_a_sweep_and_a_run_that_has_ended_is_only_mirrored(server, study, tmp_path):
    shell = Shell(tmp_path / "shell", server.env())
    words = ("--seeds", 1, "--train.epochs", 60, "--data.train-limit", 700, "--out", tmp_path)
    shell("vit-sweep", "wandb", study, *words)
    folder = tmp_path / "heads"
    stopped = shell.agent("tester/vit-ablation/sweep0")
    until(lambda: epochs(folder) >= 1, 600)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=600)
    (run,) = server.runs.values()
    assert run.state == "failed" and 1 <= len(run.rows) < 60
    states = json.loads(shell("vit-sweep", "status", folder, "--json"))["counts"]
    assert states["interrupted"] == states["waiting"] == 1
    shell("vit-sweep", "run", study, *words)
    assert len(server.runs) == 2
    first = server.sweeps["sweep0"].sent["sweep0run0"]["run"]
    found = mirrored.check(server, folder / first, "sweep0run0")  # goes on where the agent began
    assert [row["epoch"] for row in found.rows] == list(range(1, 61))
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*") if path.parent.name != "wandb"}
    ended(shell.agent("tester/vit-ablation/sweep0"))
    assert {path: path.stat().st_mtime_ns for path in before} == before, "a run was trained again"
    check_sweep(server, folder)
    shell("vit-sweep", "sync", folder)
    assert len(server.runs) == 3, "sync sent a run again as another W&B run"


@pytest.mark.slow
def test_a_trial_that_its_sweep_stops_ends_as_pruned(server, tmp_path):
    """A sweep of one's own, with null among its values.

    After SIGTERM the run is sealed; it is not left to be resumed.
    """
    spec = {
        "method": "grid",
        "metric": {"name": "val/acc", "goal": "maximize"},
        "parameters": {"data.train_limit": {"values": [None, 80]}, "train.epochs": {"value": 200}},
        "command": ["vit-train", "--model.depth", "1", "--out", "trials", "--test", "false", "${args}"],
    }
    server.op_UpsertSweep({"projectName": "mine", "config": yaml.safe_dump(spec)})
    shell = Shell(tmp_path / "shell", server.env())
    agent = shell.agent("tester/mine/sweep0", "--count", "1")
    until(lambda: epochs(shell.folder / "trials") >= 1, 600)
    server.stop.update(server.runs)
    ended(agent)
    (run,) = server.runs.values()
    (summary,) = (record.read_summary(path.parent) for path in shell.folder.glob("trials/*/summary.json"))
    assert (summary["status"], run.summary["status"], run.state) == ("pruned", "pruned", "finished")
    assert 1 <= summary["epochs"] == len(run.rows) < 200
    assert run.summary["val/acc"] == summary["val/acc"]
    (config,) = (record.read_json(path.parent / record.CONFIG) for path in shell.folder.glob("trials/*/summary.json"))
    assert config["data"]["train_limit"] is None
