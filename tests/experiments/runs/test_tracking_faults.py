"""Faults of W&B change no result, stop no run and are said in one line; afterwards `sync` completes the runs.

tests/support/wandb_faults.py measures more faults, and what they cost.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mirrored
import pytest
import tiny
from stubbed import until
from wandb_server import WandbServer

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import train
from experiments.runs.tracking import epoch_log, follow
from experiments.runs.tracking.follow import Follower
from experiments.runs.tracking.protocol import Options
from experiments.runs.tracking.settings import TOKEN, Tracking, token
from experiments.runs.tracking.sync import sync

ONLINE = Tracking("online")


def use(server: WandbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the user of this server."""
    for name, value in server.env().items():
        monkeypatch.setenv(name, value)


def synced(study: Path) -> tuple[list[str], list[str]]:
    """The runs that `sync` sends, and those that it finds complete."""
    done = sync(study, ONLINE, lambda name: None)
    return done.sent, done.complete


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "after", "said"),
    [("die", 0, "W&B cannot be used (http://127.0.0.1:"), ("hang", 20, "W&B did not take everything")],
)
def test_a_fault_costs_no_result_and_sync_completes_the_runs(
    fault: str, after: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"
    with WandbServer(fault=fault, after=after) as server:
        use(server, monkeypatch)
        lines = mirrored.trained(study, [mirrored.spec(0), mirrored.spec(1)])
    lines = [line for line in lines if not line.startswith("tracking: runs are mirrored")]
    assert len(lines) == 1
    assert said in lines[0]
    assert f"`vit-sweep sync {study}`" in lines[0]
    train([mirrored.spec(0), mirrored.spec(1)], tmp_path / "off", device="cpu")
    for seed in (0, 1):
        assert tiny.results(study / f"s{seed}") == tiny.results(tmp_path / "off" / f"s{seed}")
    with WandbServer() as healthy:
        use(healthy, monkeypatch)
        assert synced(study) == (["s0", "s1"], [])
        for seed in (0, 1):
            mirrored.check(healthy, study / f"s{seed}")
        calls = healthy.calls["file_stream"]
        assert synced(study) == ([], ["s0", "s1"])
        assert healthy.calls["file_stream"] == calls
    assert not mirrored.holds(study, server.key)


def test_records_made_without_tracking_are_sent_with_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, runs = tmp_path / "study", [mirrored.spec(0), mirrored.spec(1)]
    mirrored.write_plan(study, [*runs, mirrored.spec(2)])
    train(runs, study, device="cpu")
    with WandbServer(key="7" * 40) as server:
        use(server, monkeypatch)
        monkeypatch.setenv("WANDB_API_KEY", "8" * 40)
        with pytest.raises(UserError, match="W&B cannot be used .*; W&B has 0 of 2 runs; run the same command again"):
            sync(study, ONLINE, lambda name: None)
        monkeypatch.setenv("WANDB_API_KEY", server.key)
        done = sync(study, Tracking("online", project="other"), lambda name: None)
        assert (done.sent, done.unfinished) == (["s0", "s1"], ["s2"])
        found = mirrored.check(server, study / "s0")
        assert (found.project, found.fields["jobType"], found.summary["attention"]["count"]) == ("other", "study", 8)


def test_sync_refuses_a_folder_without_finished_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        sync(tmp_path / "none", ONLINE, lambda name: None)
    with pytest.raises(UserError, match="holds no finished runs"):
        sync(tmp_path, ONLINE, lambda name: None)


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="finds W&B's process in /proc")
@pytest.mark.slow
def test_wandbs_process_dying_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []

    def on_row(job: int, row: dict[str, float]) -> None:
        end = time.monotonic() + 60
        while row["epoch"] == 2 and not killed and time.monotonic() < end:
            if not server.runs:
                time.sleep(0.1)
                continue
            killed.extend(pid for child in children(os.getpid()) for pid in children(child))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with WandbServer() as server:
        use(server, monkeypatch)
        lines = mirrored.trained(tmp_path / "study", [mirrored.spec()], on_row=on_row)
        assert killed
        assert [line.partition(" at ")[0] for line in lines] == ["tracking: runs are mirrored to Weights & Biases"]
        mirrored.check(server, tmp_path / "study" / "s0")


def children(parent: int) -> list[int]:
    """The child processes of a process, beside zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended
            continue
        if above == str(parent) and state != "Z":
            found.append(int(path.parent.name))
    return found


def test_wandb_that_cannot_be_imported_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "wandb.py").write_text("raise ImportError('broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    lines = mirrored.trained(tmp_path / "study", [mirrored.spec()])
    assert lines == ["tracking: ImportError: broken; the records are complete without W&B"]
    assert record.is_finished(tmp_path / "study" / "s0")


class Unlike(Exception):
    """Of no family that anyone would think to catch."""


class FakeRun:
    """A W&B run that fails at one stage while online."""

    stage, error, made = "", Unlike, list[tuple[str, str]]()

    def __init__(self, info: Any, place: Any) -> None:
        self.info, self.place = info, place
        self._do("init")

    def _do(self, stage: str) -> None:
        FakeRun.made.append((self.place.mode, stage))
        if stage == FakeRun.stage and self.place.mode == "online":
            raise FakeRun.error("it\nbroke")

    def add(self, epochs: Any) -> None:
        self._do("add")

    def complete(self, run: Any, pictures: Any) -> None:
        self._do("complete")

    def stop(self) -> None:
        self._do("stop")


class Told:
    """What the user is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str, trouble: bool = True) -> None:
        self.lines.append(text)

    def limit(self, seconds: float) -> Any:
        return threading.Lock()  # a context manager that does nothing


def followed(study: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: Any, mode: str = "online") -> list[str]:
    """Follow a finished run whose W&B run fails at a stage; what the user is told of it."""
    FakeRun.stage, FakeRun.error, FakeRun.made = stage, error, []
    monkeypatch.setattr(follow, "WandbRun", FakeRun)
    monkeypatch.setattr(follow.server, "probe", lambda entity: "me")
    monkeypatch.setattr("wandb.teardown", lambda: None)
    tracking = Tracking(mode, "study")
    if not record.is_finished(study / "s0"):
        train([mirrored.spec()], study, device="cpu", tracking=tracking)
    path = epoch_log.path_of(study, "s0")
    header, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps({**json.loads(header), "session": tracking.session}) + "\n" + rest)
    told, closing = Told(), threading.Event()
    follower = Follower(Options(study, tracking), told, told, closing)
    command = threading.Thread(
        target=lambda: (until(lambda: follower.done or follower.mode == "stopped"), closing.set())
    )
    command.start()  # a command ends when its runs have ended; here that waits until they are sent
    follower.work()
    command.join()
    return [line for line in told.lines if "runs are mirrored to" not in line]


@pytest.mark.parametrize("error", [Unlike, TypeError])
@pytest.mark.parametrize("stage", ["init", "add", "complete"])
def test_a_failure_at_any_stage_is_said_once_and_the_run_is_mirrored_offline(
    stage: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = followed(tmp_path, monkeypatch, stage, error)
    assert said.startswith(
        f"tracking: W&B failed ({error.__name__}: it broke); from here on runs are mirrored offline;"
    )
    assert FakeRun.made[-3:] == [("offline", "init"), ("offline", "add"), ("offline", "complete")]


def test_a_full_disk_ends_the_mirror_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MIN_FREE", 2**80)
    (said,) = followed(tmp_path, monkeypatch, "", Unlike)
    assert said.startswith(f"tracking: stopped: the disk of {tmp_path / 'wandb'} is full; the records are complete;")
    assert FakeRun.made == []


def test_wandbs_own_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "large-disk"))
    (tmp_path / "large-disk").mkdir()
    asked: list[Path] = []
    free = shutil.disk_usage(tmp_path)

    def disk_usage(path: Path) -> Any:
        asked.append(path)
        return free._replace(free=0)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    (said,) = followed(tmp_path / "study", monkeypatch, "", Unlike)
    assert said.startswith(f"tracking: stopped: the disk of {tmp_path / 'large-disk' / 'wandb'} is full;")
    assert asked == [tmp_path / "large-disk"]


def test_a_damaged_epoch_log_of_an_earlier_command_stops_no_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("torn", '{"row": {"epo\n'), ("other-version", '{"session": "x", "info": {"unknown": 1}}\n')):
        path = epoch_log.path_of(tmp_path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        with pytest.raises(ValueError, match=f"{name}.jsonl: is damaged"):
            epoch_log.read(path)
    assert followed(tmp_path, monkeypatch, "", Unlike, mode="offline") == []
    assert FakeRun.made == [("offline", "init"), ("offline", "add"), ("offline", "complete")]
    spec = mirrored.spec()
    path = epoch_log.path_of(tmp_path, spec.name)
    path.write_text('{"session": "x", "info": {"unknown": 1}}\n')
    shutil.rmtree(tmp_path / "s0")
    train([spec], tmp_path, device="cpu", tracking=Tracking("online", "study"))
    assert record.is_finished(tmp_path / "s0")


def test_the_token_is_made_once(tmp_path: Path) -> None:
    first = token(tmp_path)
    assert token(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN]
    (tmp_path / TOKEN).write_text('{"token": "a/b"}')
    with pytest.raises(ValueError, match="token: 'a/b' is not allowed"):
        token(tmp_path)
    for damaged in ("[]", "{", "{}", "3"):
        (tmp_path / TOKEN).write_text(damaged)
        with pytest.raises(ValueError, match=f"{TOKEN}: is damaged; restore it, or move it away"):
            token(tmp_path)


def test_an_epoch_log_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    train([mirrored.spec()], tmp_path, device="cpu", tracking=Tracking("online", "study"))
    path = epoch_log.path_of(tmp_path, "s0")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    found = epoch_log.read(path)
    assert [row["epoch"] for row in found.rows] == [1]
    with path.open("ab") as file:
        file.write(whole[found.offset + 20 :])
    found = epoch_log.read(path, found)
    assert [row["epoch"] for row in found.rows] == [1, 2, 3]
    assert found.ended
    rows = record.read_run(tmp_path / "s0").rows
    assert [{key: row[key] for key in rows[0]} for row in found.rows] == rows


@pytest.mark.slow
def test_the_command_prints_what_it_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train([mirrored.spec()], tmp_path / "single", device="cpu")
    root = Path(__file__).resolve().parents[3]
    words = [sys.executable, "-m", "sweeps.main", "sync"]
    with WandbServer() as server:
        use(server, monkeypatch)
        done = subprocess.run([*words, tmp_path / "single"], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"1 run sent, 0 already complete; {server.url}/tester/vit-ablation\n"
    done = subprocess.run([*words, tmp_path / "none"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        done.stderr == f"vit-sweep: error: {tmp_path / 'none'}: no such folder; give the folder of a study, OUT/STUDY\n"
    )
