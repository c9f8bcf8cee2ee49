"""What the three commands share: one-line errors with exit status 2, and every setting as a dotted flag. No heavy imports."""

from __future__ import annotations

import argparse
import difflib
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from experiments.errors import UserError
from vit.registry import REGISTRY, PluginError


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose lines never end inside a name such as rel-bias-2d."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line: `PROG: error: MESSAGE`, status 2."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, formatter_class=_Help, **kwargs)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse's, but an unknown flag is named before its value can be taken for something else."""
        if not self._subparsers:  # else the flags are a subcommand's, which looks for itself
            known = list(self._option_string_actions)
            for word in sys.argv[1:] if args is None else args:
                flag = word.partition("=")[0]
                if flag.startswith("--") and flag not in ("--", *known):
                    close = difflib.get_close_matches(flag, known, n=1)
                    self.error(
                        f"{flag}: no such flag; "
                        + (f"did you mean {close[0]}?" if close else f"{self.prog} --help lists them")
                    )
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def positive(text: str) -> int:
    """The type of a flag that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: a number from 1 up")
    return int(text)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Give the parser a flag for every setting of `RunConfig`, with its own help and default."""
    from experiments.config import leaves

    group = parser.add_argument_group("settings", "Each overrides the preset. true and false are written out.")
    for path, field, default in leaves():
        flags = [f"--{path.replace('_', '-')}"] + ([f"--{path}"] if "_" in path else [])
        text = f"{field.description} [{default}]".replace("%", "%%")
        if path == "model.pos_embed":
            text += ": " + ", ".join(REGISTRY)
        group.add_argument(
            *flags, dest=path, metavar=path.rpartition(".")[2].upper(), default=argparse.SUPPRESS, help=text
        )


def settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings that were given, as `override` takes them."""
    from experiments.config import LEAVES

    return {path: value for path, value in vars(arguments).items() if path in LEAVES}


def run_command(
    body: Callable[[Sequence[str]], int | None], prog: str, argv: Sequence[str] | None = None, resumes: bool = False
) -> NoReturn:
    """Run a command's body and exit: 0, or 2 with one line for a `UserError`, 130 for Ctrl-C, 141 for a closed pipe."""
    try:
        REGISTRY.import_plugins()
        status = body(sys.argv[1:] if argv is None else argv)
    except (UserError, PluginError) as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        print(f"{prog}: stopped{'; the same command goes on from here' if resumes else ''}", file=sys.stderr)
        status = 130
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stderr.close()
        status = 141
    sys.exit(status or 0)
