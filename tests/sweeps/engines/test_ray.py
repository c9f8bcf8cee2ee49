"""The engine of Ray: what it refuses, and that its runs are those of the local engine."""

import tempfile

import pytest
import tiny
from commands import run
from driving import Driving, runs
from pictures import paint

from experiments.runs import record
from sweeps.engines.contract import Done
from sweeps.study_folder import the_only_driver

rayengine = pytest.importorskip("sweeps.engines.ray")


@pytest.fixture
def ray_driving(ray_engine, tmp_path):
    """A driver of the engine of Ray."""
    return Driving(ray_engine, tmp_path)


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


def test_a_node_with_another_version_is_one_line(ray_driving, monkeypatch):
    monkeypatch.setattr(rayengine, "versions", lambda: {"Python": "3.0", "vit-ablation source": "0"})
    ray_driving.begin()
    ray_driving.worker().train(runs(1))
    failed = ray_driving.next()
    assert failed.users and failed.reason.startswith("--ray: node ") and failed.reason.endswith(", the driver 3.0")


def test_a_node_without_the_folder_fails_the_run(ray_driving, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(rayengine.Path, "cwd", lambda: gone)
    ray_driving.begin()
    ray_driving.worker().train(runs(1))
    failed = ray_driving.next()
    assert not failed.users and str(gone) in failed.reason


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
        (("--ray", "127.0.0.1:1"), {}, "--ray: no Ray cluster can be used at 127.0.0.1:1: [Errno 111] "),
        (AUTO, {"RAY_ADDRESS": "http://h:1"}, "RAY_ADDRESS: 'http://h:1' is not allowed: expected HOST:PORT"),
        (AUTO, {"RAY_ADDRESS": "127.0.0.1:1"}, "RAY_ADDRESS: no Ray cluster can be used at 127.0.0.1:1: [Errno 111]"),
        ((*AUTO, "--device", "cuda:1"), {}, "--device: 'cuda:1' is not allowed with --ray"),
    ],
)
def test_what_cannot_work_is_one_line(words, variables, line, tmp_path):
    error = _error("from sweeps.main import main; main()", "run", "digits", "--out", tmp_path, *words, **variables)
    assert error.startswith(f"vit-sweep: error: {line}")


def test_auto_is_a_new_cluster_that_ends_with_the_command(tmp_path):
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as home:
        words = ("run", "digits", "--seeds", 1, "--train.epochs", 1, "--out", tmp_path, "--tracking", "off", *AUTO)
        status, out, err = run("from sweeps.main import main; main()", *words, HOME=home, RAY_TMPDIR=home)
    assert status == 0 and " on the CPUs of the Ray cluster " in out and "1 run: 1 finished" in out, err


def test_without_ray_the_line_names_the_extra(tmp_path):
    script = "import sys; sys.modules['ray'] = None; from sweeps.main import main; main()"
    line = _error(script, "run", "digits", "--out", tmp_path, "--ray", "auto")
    assert line == 'vit-sweep: error: --ray: Ray is not installed; pip install -e ".[ray]"\n'


def _error(script: str, *words: object, **variables: str) -> str:
    """What `vit-sweep WORDS` writes on stderr, with status 2."""
    status, out, err = run(script, *words, **variables)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err
