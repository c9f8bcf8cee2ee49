"""Fixtures of the tests of sweeps."""

import pytest
import torch
from stubbed import Stubbed

from sweeps.main import main


@pytest.fixture
def stubbed(tmp_path):
    """`vit-sweep run` on a study of two heads, three seeds each."""
    return Stubbed(tmp_path)


@pytest.fixture(autouse=True)
def every_gpu_is_free(monkeypatch):
    """Also one that a test makes up."""
    for module in ("sweeps.engines.local", "experiments.runs.run"):
        monkeypatch.setattr(f"{module}.free_gpus", lambda: [f"cuda:{i}" for i in range(torch.cuda.device_count())])


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
