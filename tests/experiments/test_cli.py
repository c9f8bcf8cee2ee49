"""What every command shares: --version, shell completion, signals, and a standard output that cannot be written."""

import errno
import importlib.metadata
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from commands import MODULES, run, start
from tiny import flags

from experiments.cli import Parser, add_settings, run_command
from experiments.config import RunConfig, override


@pytest.mark.parametrize("name", MODULES)
def test_a_bare_command_prints_its_help_and_the_version_is_the_installed_one(name, tmp_path):
    bare, helped, version = (run(name, *words, cwd=tmp_path) for words in ([], ["--help"], ["--version"]))
    assert bare == (2, helped[1], "") and not list(tmp_path.iterdir())
    assert version[::2] == (0, "") and version[1].split()[:2] == [name, importlib.metadata.version("vit-ablation")]


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("vit-train --model.pos-e", {"--model.pos-embed"}),
        ("vit-train --optim.name ", {"adamw", "adam", "sgd"}),
        ("vit-train --model.pos-embed rope-m", {"rope-mixed"}),
        ("vit-train --preset tintn", {"tintn-cifar10"}),
        ("vit-train var", {"variants"}),
        ("vit-report --lower", {"--lower-is-better"}),
        ("vit-report runs --variance ", {"shared", "paired", "unpaired"}),
        ("vit-report runs.csv --metric ", {"method", "seed", "acc"}),
        ("vit-report runs.csv --factor m", {"method"}),
        ("vit-report runs --metric test/", {"test/acc", "test/loss"}),
    ],
)
def test_shell_completion(line, completions, tmp_path):
    """By the protocol of argcomplete, as the shell function of `register-python-argcomplete` calls the command."""
    name, _, rest = line.partition(" ")
    line = f"python -m {MODULES[name]} {rest}"
    (tmp_path / "runs.csv").write_text("method,seed,acc\na,0,1\n")
    env = {
        "_ARGCOMPLETE": "3",  # the words of `python -m MODULE`
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "completions"),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    assert run(name, cwd=tmp_path, **env)[0] == 0
    assert {word.strip() for word in (tmp_path / "completions").read_text().split()} == completions


def test_short_forms_of_settings():
    parser = Parser("x")
    add_settings(parser)
    given = vars(parser.parse_args(["--data.hflip", "--model.qkv_bias", "False", "--optim.lr=0.5"]))
    config = override(RunConfig(), given)
    assert (config.data.hflip, config.model.qkv_bias, config.optim.lr) == (True, False, 0.5)


@pytest.mark.parametrize(
    ("name", "words"), [("vit-train", []), ("vit-sweep", ["run", "head"]), ("vit-report", [b"study"])], ids=MODULES
)
def test_a_folder_that_is_not_utf8_is_refused(name, words, tmp_path):
    status, out, err = run(name, *words, b"--out", os.fsencode(tmp_path) + b"/\xff")
    assert (status, out, list(tmp_path.iterdir())) == (2, "", [])
    assert "/\\udcff': is not UTF-8" in err and err.count("\n") == 1


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


IN_A_CALLBACK = """
import signal, sys, time, weakref
from contextlib import suppress
from experiments.cli import run_command

def send(*_):
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0)  # a moment for Python to call the handler

class Dropped:
    __del__ = send

def drop(how):
    if how == "weakref":
        thing = type("Thing", (), {})()
        kept = weakref.ref(thing, send)
        del thing
    elif how == "finaliser":
        Dropped()
    else:
        with suppress(BaseException):
            send()

def body(argv):
    drop(argv[0])
    try:
        time.sleep(30)
    finally:
        for _ in range(3):  # as Slurm does
            signal.raise_signal(signal.SIGTERM)
        time.sleep(0.6)
        print("cleaned up", flush=True)

run_command(body, "x", resumes=True)
"""


@pytest.mark.parametrize("how", ["weakref", "finaliser", "suppressed"])
def test_a_signal_whose_exception_is_dropped_still_ends_the_command(how):
    status, out, err = run(IN_A_CALLBACK, how)
    assert (status, out) == (128 + signal.SIGTERM, "cleaned up\n")
    assert err.splitlines()[-1] == "x: interrupted; run the same command again to resume"


def test_a_file_of_another_user_is_named_in_one_line(capsys):
    def body(argv):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "runs/single/locks/a")

    with pytest.raises(SystemExit) as ended:
        run_command(body, "x", [])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "x: error: runs/single/locks/a: cannot be used: Permission denied\n"


def test_files_that_take_too_much_memory_are_one_line(capsys):
    def body(argv):
        raise MemoryError

    with pytest.raises(SystemExit, match="2"):
        run_command(body, "vit-report", ["runs"])
    assert capsys.readouterr().err.startswith("vit-report: error: the files take more memory than there is")


def test_sighup_is_ignored_under_nohup(tmp_path):
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    with start("vit-train", *flags(), *LONG, "--out", tmp_path, preexec_fn=ignore) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        lines = [process.stdout.readline() for _ in range(20)]
        process.kill()
    assert all(line.startswith("epoch ") for line in lines)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_standard_output_does_not_stop_the_training(tmp_path):
    for arguments in ([*flags(), "--tracking", "off", "--out", tmp_path], ["variants"]):
        with open("/dev/full", "w") as full:
            process = start("vit-train", *arguments, stdout=full)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert err == "vit-train: error: standard output cannot be written: No space left on device\n"
    assert len(list(tmp_path.glob("*/summary.json"))) == 1


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", r"r\xfcn\u2713"), ("latin-1", r"rün\u2713")])
def test_what_the_output_cannot_encode_is_escaped(encoding, shown, tmp_path):
    out = tmp_path / "rün✓"
    words = [*flags(train__epochs=1, optim__warmup_epochs=0), "--tracking", "off", "--out", out]
    process = start("vit-train", *words, env={"PYTHONIOENCODING": encoding}, text=False)
    printed, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, b"")
    (folder,) = (summary.parent for summary in out.glob("*/summary.json"))
    assert printed.decode(encoding).splitlines()[-1] == f"record: {tmp_path}/{shown}/{folder.name}"
