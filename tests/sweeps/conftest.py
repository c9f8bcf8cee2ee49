"""Fixtures of the tests of sweeps."""

import pytest
from postgres import Server
from stubbed import Stubbed, tiny_plan

from sweeps.main import main
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
from sweeps.study_folder import write_plan


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL server."""
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def stubbed(tmp_path):
    """`vit-sweep run` on a study of two heads, three seeds each."""
    return Stubbed(tmp_path)


@pytest.fixture
def queue(tmp_path):
    """The queue of that study, with six runs; this process is its sweep."""
    plan = tiny_plan()
    write_plan(plan, tmp_path, "here")
    return Queue(plan, tmp_path, current_process())


@pytest.fixture
def vit_sweep(capfd):
    """Run `vit-sweep WORDS` in this process: exit status, stdout and stderr."""

    def command(*words):
        with pytest.raises(SystemExit) as exited:
            main(list(map(str, words)))
        return exited.value.code, *capfd.readouterr()

    return command


@pytest.fixture
def refused(vit_sweep):
    """Run `vit-sweep WORDS` on bad input: status 2, nothing on stdout and one line on stderr, which it returns."""

    def line(*words):
        status, out, err = vit_sweep(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        return err

    return line
