"""The engine of Ray: what it refuses, and what it proves before a node trains."""

import subprocess
import sys

import pytest
import tiny
from driving import Driving, runs
from PIL import Image

from experiments.errors import UserError
from experiments.runs import record
from sweeps.engines.contract import Done
from sweeps.study_folder import DRIVER_LOCK, the_only_driver

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
                assert driving.to_end()[-1] == Done({})
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
    (line,) = said
    assert line.startswith(f"{name} has ") and line.endswith(
        ", others H100: a comparison is confounded with the device"
    )


def test_a_relative_path_starts_where_the_driver_is(ray_driving, monkeypatch, tmp_path):
    for label in "ab":
        (tmp_path / "mine" / label).mkdir(parents=True)
        for grey in range(10):
            Image.new("RGB", (8, 8), (grey, 0, 0)).save(tmp_path / "mine" / label / f"{grey}.png")
    monkeypatch.chdir(tmp_path)
    ray_driving.begin()
    data = {"data__name": "imagefolder", "data__root": "mine", "data__img_size": 8, "data__train_limit": None}
    ray_driving.worker().train(runs(1, **data, data__val_fraction=0.2))
    assert ray_driving.to_end()[-1] == Done({})


@pytest.mark.parametrize(
    "words, line",
    [
        (["--ray", "ray://host:10001"], "--ray: 'ray://host:10001' is not allowed: expected auto or HOST:PORT"),
        (["--ray", "127.0.0.1:1"], "--ray: no Ray cluster can be used at 127.0.0.1:1"),
        (["--ray", "auto", "--device", "cuda:1"], "--device: 'cuda:1' is not allowed with --ray"),
    ],
)
def test_what_cannot_work_is_one_line(words, line, tmp_path, monkeypatch):
    script = "import sweeps.engines.ray as engine; engine.CONNECT_SECONDS = 3; from sweeps.main import main; main()"
    assert _error(script, "run", "digits", "--out", tmp_path, *words).startswith(f"vit-sweep: error: {line}")


def test_without_ray_the_line_names_the_extra(tmp_path):
    script = "import sys; sys.modules['ray'] = None; from sweeps.main import main; main()"
    line = _error(script, "run", "digits", "--out", tmp_path, "--ray", "auto")
    assert line == 'vit-sweep: error: --ray: Ray is not installed; pip install -e ".[ray]"\n'


def _error(script: str, *words: object) -> str:
    """What `vit-sweep WORDS` writes on stderr, which is one line, with status 2."""
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr
