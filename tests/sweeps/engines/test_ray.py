"""The engine of Ray: what it refuses, and what it proves before a node trains."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import tiny
from commands import run
from driving import Driving, runs
from pictures import paint

from experiments.errors import UserError
from experiments.locks import DRIVER_LOCK
from experiments.runs import record
from sweeps.engines.contract import Done
from sweeps.study_folder import the_only_driver

rayengine = pytest.importorskip("sweeps.engines.ray")


@pytest.fixture
def ray_driving(ray_engine, tmp_path):
    """A driver of the engine of Ray, on whose nodes runs may be trained again at the end."""
    yield Driving(ray_engine, tmp_path)
    ray_engine.refused.clear()


def test_two_runs_have_the_weights_and_metrics_of_the_local_engine(ray_engine, local_engine, tmp_path):
    for engine in (ray_engine, local_engine):
        folder = tmp_path / type(engine).__name__
        folder.mkdir()
        driving = Driving(engine, folder)
        with the_only_driver(folder):
            driving.begin()
            worker = driving.worker()
            for run in runs(2):
                worker.train([run])
                assert driving.to_end()[-1] == Done([])
    for run in runs(2):
        there, here = (tmp_path / name / run.name for name in ("RayEngine", "LocalEngine"))
        assert tiny.results(there) == tiny.results(here)
        assert (there / record.PREDICTIONS).read_bytes() == (here / record.PREDICTIONS).read_bytes()
        commands = {record.read_summary(folder, run.run_id)["provenance"]["command"] for folder in (there, here)}
        assert len(commands) == 1


def test_a_node_with_another_folder_under_the_path_gets_no_worker(ray_driving):
    with the_only_driver(ray_driving.folder):
        ray_driving.begin()
        (ray_driving.folder / DRIVER_LOCK).write_text("of another driver")
        with pytest.raises(UserError, match="gets no worker: .* is another folder there"):
            ray_driving.worker()


def test_a_node_that_locks_do_not_reach_gets_no_worker(ray_driving):
    (ray_driving.folder / DRIVER_LOCK).write_text("held by nobody")
    ray_driving.begin()
    with pytest.raises(UserError, match="gets no worker: locks in .* do not reach it"):
        ray_driving.worker()


def test_a_node_with_another_version_gets_no_worker(ray_driving, monkeypatch):
    monkeypatch.setattr(rayengine, "versions", lambda: {"Python": "3.0"})
    ray_driving.begin()
    with pytest.raises(UserError, match=r"gets no worker: it has Python .*, the driver 3\.0"):
        ray_driving.worker()


def test_different_hardware_is_one_line(ray_driving, monkeypatch):
    said = []
    monkeypatch.setattr(ray_driving.engine, "say", said.append)
    monkeypatch.setattr(ray_driving.engine, "hardware", "H100")
    ray_driving.begin()
    name = ray_driving.worker().name
    (line,) = (line for line in said if not line.startswith("waiting for "))
    assert line.startswith(f"{name} has ") and line.endswith(
        ", others H100: a comparison is confounded with the device"
    )


def test_a_relative_path_starts_where_the_driver_is(ray_driving, monkeypatch, tmp_path):
    paint(tmp_path / "mine", 10)
    monkeypatch.chdir(tmp_path)
    ray_driving.begin()
    data = {"data__name": "imagefolder", "data__root": "mine", "data__img_size": 8, "data__train_limit": None}
    ray_driving.worker().train(runs(1, **data, data__val_fraction=0.2))
    assert ray_driving.to_end()[-1] == Done([])


AUTO = ("--ray", "auto")


@pytest.mark.parametrize(
    "words, variables, line",
    [
        (("--ray", "ray://h:1"), {}, "--ray: 'ray://h:1' is not allowed: expected auto or HOST:PORT"),
        (
            ("--ray", "127.0.0.1:1"),
            {},
            "--ray: no Ray cluster can be used at 127.0.0.1:1: [Errno 111] Connection refused\n",
        ),
        (("--ray", "no.invalid:1"), {}, "--ray: no Ray cluster can be used at no.invalid:1: [Errno "),
        (AUTO, {"RAY_ADDRESS": "http://h:1"}, "RAY_ADDRESS: 'http://h:1' is not allowed: expected HOST:PORT"),
        (AUTO, {"RAY_ADDRESS": "127.0.0.1:1"}, "RAY_ADDRESS: no Ray cluster can be used at 127.0.0.1:1: [Errno 111]"),
        (AUTO, {"owner": "root"}, "--ray: FOLDER belongs to root; set RAY_TMPDIR to a folder with a short path"),
        ((*AUTO, "--device", "cuda:1"), {}, "--device: 'cuda:1' is not allowed with --ray"),
    ],
)
def test_what_cannot_work_is_one_line(words, variables, line, tmp_path):
    script = "from sweeps.main import main; main()"
    if owner := variables.get("owner"):  # of a folder that this process cannot write to
        (tmp_path / "ray").mkdir()
        change = f"engine.Path.owner = lambda _: {owner!r}; engine.os.access = lambda path, _: path.name != 'ray'"
        script = f"import sweeps.engines.ray as engine; {change}; {script}"
    words = ("run", "digits", "--out", tmp_path, *words)
    error = _error(script, *words, RAY_TMPDIR=str(tmp_path), **variables)
    assert error.startswith(f"vit-sweep: error: {line.replace('FOLDER', str(tmp_path / 'ray'))}")


@pytest.mark.parametrize("source", ["--ray", "RAY_ADDRESS", "FOLDER/ray_current_cluster"])
def test_a_cluster_that_does_not_answer_is_named_and_no_other_one_is_started(source, tmp_path):
    change = "import sweeps.engines.ray as engine; engine.SAID_AFTER, engine.CONNECT_SECONDS = 1, 3"
    script = f"{change}; from sweeps.main import main; main()"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and says nothing
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        variables = {"RAY_TMPDIR": str(tmp_path), **({source: address} if source == "RAY_ADDRESS" else {})}
        words = ("--out", tmp_path, "--ray", address if source == "--ray" else "auto")
        error = _error(script, "run", "digits", *words, lines=2, **variables)
    source = source.replace("FOLDER", str(tmp_path / "ray"))
    assert error.splitlines() == [
        f"waiting for an answer of the Ray cluster {address} ({source})",
        f"vit-sweep: error: {source}: no Ray cluster can be used at {address}: it did not answer in 3 s",
    ]


def test_auto_is_no_cluster_of_another_user(monkeypatch, tmp_path):
    note = tmp_path / "ray_current_cluster"
    note.write_text("192.0.2.1:6379")
    monkeypatch.setattr(rayengine, "NOTE", note)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert rayengine._named("auto") == ("192.0.2.1:6379", str(note))
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert rayengine._named("auto") == ("", f"there is no RAY_ADDRESS, and no {note} of this user")


def test_auto_is_no_cluster_on_whose_port_another_user_listens_now(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as mine:
        here, elsewhere = (f"{host}:{mine.getsockname()[1]}" for host in ("127.0.0.1", "203.0.113.1"))
        assert not rayengine._is_of_another_user(here)
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        assert rayengine._is_of_another_user(here) and not rayengine._is_of_another_user(elsewhere)


def test_a_busy_cluster_is_one_line(monkeypatch):
    monkeypatch.setattr(rayengine, "_problem", lambda *_: "")
    monkeypatch.setattr(rayengine.ray, "init", Mock(side_effect=TimeoutError("no answer\nin time")))
    with pytest.raises(UserError, match="--ray: no Ray cluster can be used at h:1: TimeoutError: no answer in time"):
        rayengine.RayEngine("h:1", "auto", None)


def test_a_token_for_a_cluster_without_one_is_one_line(monkeypatch):
    monkeypatch.setattr(rayengine, "_ask", lambda *_, **variables: "")
    assert rayengine._problem("h:1", "--ray") == ""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert rayengine._problem("h:1", "--ray") == "it has no token; unset RAY_AUTH_MODE"


def test_modules_of_the_current_folder_are_none_of_the_actors(ray_engine):
    def first_of_search_path():
        return sys.path[0], os.environ["PYTHONSAFEPATH"]

    folder, variable = rayengine.ray.get(rayengine.ray.remote(first_of_search_path).remote())
    assert folder != os.getcwd() and variable == "1"


def test_a_new_cluster_has_a_token_that_only_its_user_can_read():
    """And it takes the place of one that has ended."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as home:
        current = Path(home, "ray", "ray_current_cluster")
        current.parent.mkdir()
        current.write_text("127.0.0.1:1")
        token = Path(home, ".ray", "auth_token")
        variables = {**os.environ, "HOME": home, "RAY_TMPDIR": home}
        del variables["RAY_AUTH_MODE"]
        script = "from sweeps.engines.ray import RayEngine; RayEngine('auto', 'cpu', None)"
        done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True)
        made, new = done.stderr.splitlines()
        assert made == f"made {token}, which `ray start` of this user needs from now on"
        assert new.startswith("--ray auto: a new Ray cluster ")
        assert new.endswith(f" ({current} names 127.0.0.1:1, where none answers)")
        assert (token.stat().st_mode & 0o777, len(token.read_text())) == (0o600, 64)


def test_without_ray_the_line_names_the_extra(tmp_path):
    script = "import sys; sys.modules['ray'] = None; from sweeps.main import main; main()"
    line = _error(script, "run", "digits", "--out", tmp_path, "--ray", "auto")
    assert line == 'vit-sweep: error: --ray: Ray is not installed; pip install -e ".[ray]"\n'


def _error(script: str, *words: object, lines: int = 1, **variables: str) -> str:
    """What `vit-sweep WORDS` writes on stderr, with status 2."""
    status, out, err = run(script, *words, **variables)
    assert (status, out, err.count("\n")) == (2, "", lines), err
    return err
