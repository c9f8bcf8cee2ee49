"""Runs that are sent to W&B by the real client, to a server of ours: what it gets is what the records hold."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import commands
import mirrored
import pytest
from stubbed import until

from experiments.runs import record
from experiments.runs.run import train
from experiments.tracker import Tracker
from experiments.tracking import TOKEN, Tracking, Unreachable, token
from experiments.version import code


def test_a_cohort_is_sent_as_separate_runs_equal_to_their_records(server, tmp_path):
    study = tmp_path / "position"
    said = mirrored.trained(study, [mirrored.spec(0), mirrored.spec(1)])
    assert said == [f"tracking: runs are mirrored to Weights & Biases: {server.url}/tester/vit-ablation"]
    assert len(server.runs) == 2
    for seed in (0, 1):
        folder = study / f"s{seed}"
        found = mirrored.check(server, folder)
        summary = record.read_summary(folder)
        named = {key: found.fields[key] for key in ("groupName", "jobType", "displayName", "commit")}
        assert list(named.values()) == ["learned-1d", "run", f"learned-1d s{seed}", code()["commit"]]
        assert set(found.fields["tags"]) == {"position", "digits", "learned-1d"}
        assert found.settings["variant"] == "learned-1d"
        assert found.settings["study"] == f"position-{json.loads((study / TOKEN).read_text())['token']}"
        assert found.settings["levels"] == {"model.pos_embed": "learned-1d"}
        assert found.settings["params"] == summary["cost"]["params"]
        (artifact,) = (a for a in server.artifacts.values() if a.name == f"record-{found.name}")
        assert artifact.aliases == sorted(["finished", "latest", "position", f"s{seed}"])
    assert not mirrored.holds(study, server.key)
    assert server.unknown.count("OrganizationCoreWeaveOrganizationID") == len(server.unknown)


def test_only_runs_of_the_command_are_sent(server, tmp_path):
    study = tmp_path / "study"
    train([mirrored.spec(0)], study, device="cpu")
    mirrored.trained(study, [mirrored.spec(1)])
    assert len(server.runs) == 1
    mirrored.check(server, study / "s1")


def test_an_interrupted_run_goes_on_as_the_same_wandb_run(server, tmp_path):
    """Its epochs arrive while it is trained; the second command sends those again that the first one may have lost."""

    def stop(job, row):
        if row["epoch"] == 2:
            until(lambda: server.runs)
            raise KeyboardInterrupt

    study, run = tmp_path / "study", mirrored.spec(train__epochs=5)
    with pytest.raises(KeyboardInterrupt):
        mirrored.trained(study, [run], on_row=stop)
    (first,) = server.runs.values()
    assert [row["epoch"] for row in first.rows] == [1, 2] and first.state == "failed"
    first.history, first.summary = first.history[:1], {"_step": 1}  # the second epoch was lost on its way
    moved = tmp_path / "moved"
    study.rename(moved)
    mirrored.trained(moved, [run])
    assert len(server.runs) == 1
    assert [row["epoch"] for row in mirrored.check(server, moved / "s0").rows] == [1, 2, 3, 4, 5]


SCRIPT = """
import os, sys
from pathlib import Path
import mirrored
def stop(job, row):
    if row["epoch"] == int(sys.argv[2]):
        os._exit(9)
mirrored.trained(Path(sys.argv[1]), [mirrored.spec(train__epochs=6)], "offline", on_row=stop)
"""


def test_a_run_killed_offline_is_one_wandb_run_with_each_epoch_once(server, tmp_path):
    study, path = tmp_path / "study", os.pathsep.join([str(commands.ROOT), str(commands.ROOT / "tests" / "support")])
    for epoch, status in ((3, 9), (0, 0)):
        words = [sys.executable, "-c", SCRIPT, str(study), str(epoch)]
        assert subprocess.run(words, env={**os.environ, "PYTHONPATH": path}).returncode == status
        until(lambda: not mirrored.users(server))  # what a killed command has started ends by itself
    history = [entry["item"] for entry in wandb_records(study)["history"]]
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5, 6]
    assert mirrored.synced(study) == "W&B has 1 of 1 finished run"
    assert [row["epoch"] for row in mirrored.check(server, study / "s0").rows] == [1, 2, 3, 4, 5, 6]


def test_the_users_wandb_environment_is_respected(server, tmp_path, monkeypatch):
    for name, value in {"PROJECT": "mine", "TAGS": "x,y", "NOTES": "hello", "RUN_ID": "r", "SWEEP_ID": "s"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    mirrored.trained(tmp_path / "study", [mirrored.spec(optim__lr=1e30, optim__name="sgd", optim__schedule="constant")])
    found = mirrored.check(server, tmp_path / "study" / "s0")
    assert found.project == "mine"
    assert {"x", "y"} <= set(found.fields["tags"])
    assert found.fields["notes"] == "hello"
    assert found.summary["status"] == "diverged"  # and `check`: shown as failed


def wandb_records(study: Path) -> dict[str, list[dict[str, Any]]]:
    """Everything in the only offline run beside the records, by type, as W&B's own command reads it."""
    (path,) = study.glob("wandb/offline-run-*/*.wandb")
    words = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    found: dict[str, list[dict[str, Any]]] = {}
    for line in subprocess.check_output(words, text=True).splitlines():
        entry = json.loads(line)
        found.setdefault(entry["type"], []).append(entry[entry["type"]])
    return found


def test_an_offline_run_holds_what_the_record_holds_and_can_be_read_while_it_is_trained(tmp_path):
    study = tmp_path / "study"

    def until_written(_: int, row: dict[str, float]) -> None:
        until(lambda: row["epoch"] < 3 or list(study.glob("wandb/offline-run-*/*.wandb")))
        until(lambda: row["epoch"] < 3 or len(wandb_records(study).get("history", [])) >= 2)

    said = mirrored.trained(study, [mirrored.spec(train__epochs=4)], "offline", on_row=until_written)
    assert said == ["tracking: runs are mirrored to Weights & Biases: offline"]
    found = wandb_records(study)
    run, own = found["run"][0], record.read_run(study / "s0")
    named = {key: run[key] for key in ("run_group", "job_type", "display_name", "project")}
    assert list(named.values()) == ["learned-1d", "run", "learned-1d s0", "vit-ablation"]
    assert {key: run["config"]["update"][key] for key in own.config} == own.config
    history = [entry["item"] for entry in found["history"]]
    assert [{key: row[key] for key in own.rows[0]} for row in history] == own.rows
    told: dict[str, Any] = {}
    for entry in found["summary"]:
        told |= entry.get("update", {})
    assert (told["status"], told["test/acc"]) == ("finished", own.summary["test/acc"])
    assert found["exit"][0].get("exit_code", 0) == 0
    assert {path.name for path in study.iterdir()} == {"s0", "locks", "study.json", "wandb", TOKEN}


def test_a_command_that_trains_nothing_leaves_nothing_and_asks_no_server(server, tmp_path):
    with Tracker(Tracking("online"), tmp_path / "out", show=pytest.fail):
        pass
    assert not list(tmp_path.iterdir()) and not server.calls


@pytest.mark.parametrize("mode", ["off", "auto"])
def test_off_and_without_a_key_nothing_but_the_record_is_left(mode, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    said = mirrored.trained(tmp_path, [mirrored.spec()], mode)
    assert said == [] and {path.name for path in tmp_path.iterdir()} == {"s0", "locks", "study.json"}


@pytest.mark.parametrize(
    ("mode", "environment", "expected"),
    [
        ("auto", {"WANDB_API_KEY": "a" * 40}, "online"),
        ("auto", {"WANDB_API_KEY": "a" * 40, "WANDB_MODE": "offline"}, "offline"),
        ("auto", {"WANDB_MODE": "dryrun"}, "offline"),
        ("online", {"WANDB_MODE": "offline"}, "online"),
        ("offline", {"WANDB_API_KEY": "a" * 40}, "offline"),
        ("auto", {"WANDB_MODE": "disabled"}, "off"),
        ("auto", {}, "off"),
        ("auto", {"NETRC": "netrc"}, "online"),  # as `wandb login` writes it
        ("auto", {"NETRC": "netrc", "WANDB_BASE_URL": "https://other"}, "off"),
        ("auto", {"NETRC": "netrc", "WANDB_CONFIG_DIR": "."}, "off"),  # where the settings name another server
    ],
)
def test_what_a_mode_means(mode, environment, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("netrc").write_text("machine api.wandb.ai\n  login user\n  password key\n")
    Path("settings").write_text("[default]\nbase_url = https://third\n")
    monkeypatch.delenv("WANDB_MODE")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Tracking(mode).wandb_mode == expected


def test_an_error_never_shows_the_key(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "secret-key")
    assert str(Unreachable("ValueError: bad\nsecret-key")) == "W&B cannot be used (ValueError: bad [API key])"


def test_the_token_is_made_once(tmp_path):
    first = token(tmp_path)
    assert token(tmp_path) == first
