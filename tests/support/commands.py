"""The commands of this checkout, in this process and in processes of their own, and plug-ins for them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = """
import torch
from vit.pos_embed import Additive, register


@register("mine")
class Mine(Additive):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.table = torch.nn.Parameter(torch.zeros(cfg.num_tokens, cfg.embed_dim))

    def add(self, x):
        return x + self.table
"""
MODULES = {"vit-train": "experiments.main", "vit-sweep": "sweeps.main", "vit-report": "analysis.main"}


def in_process(main: Callable[[list[str]], Any], captured: Any) -> Callable[..., tuple[int, str, str]]:
    """A function that runs a command in this process: exit status, stdout and stderr."""

    def command(*words: object) -> tuple[int, str, str]:
        captured.readouterr()
        with pytest.raises(SystemExit) as exited:
            main([str(word) for word in words])
        return exited.value.code or 0, *captured.readouterr()

    return command


def one_line(command: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """A function that runs a command on bad input: status 2, nothing on stdout and one line on stderr: that line."""

    def line(*words: object) -> str:
        status, out, err = command(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        return err

    return line


def refusal(call: Callable[..., Any], *given: Any, **asked: Any) -> str:
    """The line of the `UserError` of a call."""
    with pytest.raises(UserError) as raised:
        call(*given, **asked)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def start(name: str, *words: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """Start a command, or Python on a text, with the code of this checkout. `env`: more variables."""
    options = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    code = ["-m", MODULES[name]] if name in MODULES else ["-c", name]
    command = [sys.executable, *code, *map(str, words)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}, **options)


def run(name: str, *words: object, cwd: Path | None = None, **env: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command. `env`: more variables."""
    process = start(name, *words, cwd=cwd, env=env)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err
