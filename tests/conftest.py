"""The environment of every test: one thread, no network, no W&B account. Fixtures of single tests belong elsewhere."""

import os
import tempfile
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests start
os.environ["WANDB_MODE"] = "disabled"  # the meaning of `--tracking auto`; tests of W&B override it
os.environ["WANDB_SILENT"] = "true"
os.environ["WANDB_ERROR_REPORTING"] = "false"
CACHE = tempfile.TemporaryDirectory()  # nothing that tests cache stays, but for the fonts of matplotlib
os.environ.setdefault("MPLCONFIGDIR", os.path.expanduser("~/.cache/matplotlib"))
os.environ["XDG_CACHE_HOME"] = CACHE.name
os.environ["NETRC"] = os.devnull  # no API key is found, whoever runs the tests
for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_DIR", "WANDB_DATA_DIR", "WANDB_PROJECT", "WANDB_ENTITY"):
    os.environ.pop(name, None)

import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def search_path(monkeypatch):
    """A command that a test calls in its own process sets this variable, which is not for the next test."""
    monkeypatch.setenv("PYTHONSAFEPATH", "")


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real datasets next to the checkout. A test that needs it is skipped if it does not exist."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder of real datasets next to the checkout")
    return folder


@pytest.fixture
def server(monkeypatch):
    """A server of W&B, used by this process and its children."""
    from wandb_server import WandbServer

    with WandbServer().used_here(monkeypatch) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that take a minute or more, unless SLOW_TESTS is set: the whole suite has to end in minutes."""
    if not os.environ.get("SLOW_TESTS"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="takes a minute or more; SLOW_TESTS=1 runs it"))
