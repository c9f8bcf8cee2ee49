"""What every command shares: --version, shell completion, signals, and a standard output that cannot be written."""

import importlib.metadata
import signal
from functools import partial

import pytest
from commands import MODULES, run, start
from tiny import flags

from experiments.cli import Parser, add_settings
from experiments.config import RunConfig, override


@pytest.mark.parametrize("name", MODULES)
def test_a_bare_command_prints_its_help_and_the_version_is_the_installed_one(name, tmp_path):
    bare, helped, version = (run(name, *words, cwd=tmp_path) for words in ([], ["--help"], ["--version"]))
    assert bare == (2, helped[1], "") and not list(tmp_path.iterdir())
    assert version[::2] == (0, "") and version[1].split()[:2] == [name, importlib.metadata.version("vit-ablation")]


def test_short_forms_of_settings():
    parser = Parser("x")
    add_settings(parser)
    given = vars(parser.parse_args(["--data.hflip", "--model.qkv_bias", "False", "--optim.lr=0.5"]))
    config = override(RunConfig(), given)
    assert (config.data.hflip, config.model.qkv_bias, config.optim.lr) == (True, False, 0.5)


LONG = ["--train.epochs", "100000", "--optim.schedule", "constant", "--optim.warmup-epochs", "0", "--tracking", "off"]


def hear_signals() -> None:
    """Undo what nohup and a shell's `&` do: a process that they start ignores SIGHUP and SIGINT, and so do its
    children.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGHUP, signal.SIGINT))]
)
def test_signal_saves_the_run_and_prints_how_to_resume(number, tmp_path):
    for _ in range(2):
        with start("vit-train", *flags(), *LONG, "--out", tmp_path, preexec_fn=hear_signals) as process:
            first = process.stdout.readline()
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert error == "vit-train: interrupted; run the same command again to resume\n"
    assert int(first.split()[1].partition("/")[0]) > 1  # the second process resumed


SEVERAL = """
import signal, time
from experiments.cli import run_command

def body(argv):
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        for _ in range(3):  # as Slurm does
            signal.raise_signal(signal.SIGTERM)
        print("cleaned up", flush=True)

run_command(body, "x", ["a"], resumes=True)
"""


def test_signals_during_the_clean_up_are_ignored():
    status, out, err = run(SEVERAL)
    assert (status, out) == (128 + signal.SIGTERM, "cleaned up\n")
    assert err.splitlines()[-1] == "x: interrupted; run the same command again to resume"


def test_sighup_is_ignored_under_nohup(tmp_path):
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    with start("vit-train", *flags(), *LONG, "--out", tmp_path, preexec_fn=ignore) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        lines = [process.stdout.readline() for _ in range(20)]
        process.kill()
    assert all(line.startswith("epoch ") for line in lines)
