"""What the commands share: the parser, a flag for every setting, exit statuses. It imports nothing heavy."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

from experiments.errors import UserError, printable, say
from vit.registry import PluginError, did_you_mean

MAX_NAME = 255  # characters of a folder's name, in most file systems
INTERRUPTS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")  # signals that end a command as Ctrl-C does
HELP = partial(argparse.RawDescriptionHelpFormatter, max_help_position=32)


class _Version(argparse.Action):
    """Print name, version and commit, and exit. They are looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from experiments.version import describe

        say(f"{parser.prog.split()[0]} {describe()}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """An argument parser with --version.

    An error is one line, `PROG: error: MESSAGE`, with exit status 2. A flag may contain `_` for `-`.
    """

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **{"allow_abbrev": False, "formatter_class": HELP, **kwargs})
        self.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="show the version")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As in argparse, but report an unknown flag before its value can be read as something else."""
        words = list(sys.argv[1:] if args is None else args)
        if not self._subparsers:  # otherwise the flags may belong to a subcommand, which checks them itself
            words = [self._known_flag(word) if word.startswith("--") else word for word in words]
        return super().parse_known_args(words, namespace)

    def _known_flag(self, word: str) -> str:
        """A flag with `-` for `_`. An unknown one is an error."""
        name, equals, value = word.partition("=")
        flag, flags = name.replace("_", "-"), list(self._option_string_actions)
        if flag not in ("--", *flags):
            self.error(f"{flag}: no such flag; {did_you_mean(flag, flags, f'{self.prog} --help lists all flags')}")
        return flag + equals + value

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {printable(' '.join(message.split()))}\n")


def positive(text: str, most: float = math.inf) -> int:
    """The type of a flag that takes a number of things."""
    if not text.isdecimal() or not 1 <= int(text) <= most:
        up_to = "up" if most == math.inf else f"to {most}"
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected an integer from 1 {up_to}")
    return int(text)


def folder(text: str) -> str:
    """The type of a flag that takes a folder. An empty text, as from an unset shell variable, is not one."""
    if not text.strip() or "\0" in text or max(map(len, text.split("/"))) > MAX_NAME:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected the path of a folder")
    return os.path.expanduser(text)  # a shell does not, after "="


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting of `RunConfig`. The help leaves them out: `vit-train settings` lists them."""
    from experiments.config import SETTINGS

    about = (
        "Every setting is a flag that overrides the preset, such as --optim.lr 0.01. `vit-train settings` lists them."
    )
    parser.add_argument_group("settings", about)
    for path, setting in SETTINGS.items():
        flag, hidden = f"--{path.replace('_', '-')}", argparse.SUPPRESS
        action = parser.add_argument(flag, dest=path, default=hidden, help=hidden)
        if setting.annotation is bool:  # --data.hflip alone means true
            action.nargs, action.const = "?", "true"


def given_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings given on the command line, in the form that `override` takes."""
    from experiments.config import SETTINGS

    return {path: value for path, value in vars(arguments).items() if path in SETTINGS}


def run_command(
    body: Callable[[Sequence[str]], int | None], prog: str, argv: Sequence[str] | None = None, resumes: bool = False
) -> NoReturn:
    """Run the body of a command and exit with its status.

    Status 2 with one line for a `UserError`, a plug-in or a file that cannot be used, and with the help for a command
    without arguments; 128 + N after signal N (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2), with one line; 141 if the
    reader of standard output is gone, as with `| head`.
    `resumes`: the same command, run again, continues the work.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # modules of the current folder are none of the processes that it starts
    try:
        with _signals_as_interrupts():
            status = _run(prog, body, sys.argv[1:] if argv is None else argv)
    except (UserError, PluginError) as error:
        say(f"{prog}: error: {error}", error=True)
        status = 2
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError):  # after SIGHUP the terminal is gone
            say(f"{prog}: interrupted{'; run the same command again to resume' if resumes else ''}", error=True)
        status = 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at exit
        status = 141
    sys.exit(status)


def _run(prog: str, body: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> Any:
    if not argv:  # as with a variable of a script that is not set
        _run(prog, body, ["--help"])
        return 2
    status: int | str | None
    try:
        status = body(argv)
    except SystemExit as end:  # from argparse; or from rich, after a `BrokenPipeError`
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        status = end.code
    sys.stdout.flush()
    return status or 0


@contextlib.contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for the first of `INTERRUPTS`, unless it is ignored, as under nohup.

    Slurm sends some of them several times. While the exception is handled, and from then on, they are ignored, so that
    the command can clean up and its exit status names the first. Python drops an exception in a weakref callback or a
    finaliser; the next signal raises it again.
    """
    replaced: dict[int, Any] = {}
    first: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        first.append(number)
        if not any(isinstance(error, KeyboardInterrupt) for error in _handled()):
            raise KeyboardInterrupt(first[0])

    if threading.current_thread() is threading.main_thread():
        for name in INTERRUPTS:
            number = getattr(signal, name)
            if signal.getsignal(number) == signal.SIG_DFL:
                replaced[number] = signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt as error:  # Ray raises one without the number
        raise KeyboardInterrupt(*first[:1]) from error
    finally:
        for number, handler in replaced.items():
            signal.signal(number, signal.SIG_IGN if first else handler)


def _handled() -> Iterator[BaseException]:
    """The exceptions that `except` or `finally` handle at this moment."""
    error = sys.exception()
    while error is not None:
        yield error
        error = error.__context__
