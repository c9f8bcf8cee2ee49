"""Fixtures of the tests of sweeps."""

import pytest
from commands import in_process, one_line
from scripted import Scripted
from stubbed import Stubbed

from sweeps.main import main


@pytest.fixture
def stubbed(tmp_path):
    """`vit-sweep run` on a study of two heads, three seeds each."""
    return Stubbed(tmp_path)


@pytest.fixture
def scripted(monkeypatch):
    """Let `vit-sweep` in this process use an engine with a script; see `scripted.Scripted`."""

    def use(**options):
        engine = Scripted(**options)
        monkeypatch.setattr("sweeps.engines.local.LocalEngine", lambda slots: engine)
        return engine

    return use


@pytest.fixture
def vit_sweep(capfd):
    """Run `vit-sweep WORDS` in this process: exit status, stdout and stderr."""
    return in_process(main, capfd)


@pytest.fixture
def refused(vit_sweep):
    """Run `vit-sweep WORDS` on bad input; the line on stderr."""
    return one_line(vit_sweep)
