"""`vit-train`: train one run from the command line. Heavy imports wait until they are needed."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from experiments.cli import Parser, add_settings, folder, given_settings, positive, run_command
from experiments.errors import UserError, say
from experiments.tracking import add_tracking_arguments
from vit.registry import nearest

if TYPE_CHECKING:
    from experiments.compared import RunSpec
    from experiments.config import RunConfig
    from experiments.tracker import Tracker

PROG = "vit-train"
USAGE = f"""{PROG} [--preset NAME] [--SETTING VALUE ...] [--out DIR] [--device DEVICE] [--threads N] [--tracking MODE]
       {PROG} data [--SETTING VALUE ...] [--figure FILE]
       {PROG} presets
       {PROG} settings [WORD]
       {PROG} variants"""
EPILOG = f"""examples:
  {PROG} --preset digits                            train the preset digits: seconds on one core
  {PROG} --model.pos-embed rope-2d --seed 3         change settings
  {PROG} --preset tintn-cifar10 --data.root data    train another preset

as the command of a W&B sweep over settings:
  command: [{PROG}, --test, "false", "${{args}}"]     the metric: val/acc
The run is the agent's W&B run. Stopped early by the sweep, it ends after its epoch as pruned."""
COMMANDS = ("data", "presets", "settings", "variants")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point. Exit status: 0; 1 if the run diverged; 2 for bad input."""
    run_command(_body, PROG, argv, resumes=True)


def _parser() -> Parser:
    parser = Parser(PROG, usage=USAGE, description="Train one Vision Transformer and record the run.", epilog=EPILOG)
    about = "show the images, or list presets, settings or positional embeddings (variants), instead of training"
    parser.add_argument("command", nargs="?", type=_command, metavar=f"{{{','.join(COMMANDS)}}}", help=about)
    parser.add_argument("word", nargs="?", metavar="WORD", help="list only the settings with this word")
    about = f"configuration; see `{PROG} presets` (default: digits)"
    parser.add_argument("--preset", metavar="NAME", default="digits", help=about)
    about = "create the run's folder in this folder (default: runs/single)"
    parser.add_argument("--out", metavar="DIR", type=folder, default="runs/single", help=about)
    about = "cpu, cuda, cuda:1, ...; auto is the first GPU, the CPU if there is none (default: auto)"
    parser.add_argument("--device", default="auto", help=about)
    about = "CPU threads; changes floating-point rounding (default: PyTorch's choice)"
    threads = partial(positive, most=1024)  # torch crashes where the system refuses a thread
    parser.add_argument("--threads", type=threads, metavar="N", help=about)
    about = "evaluate the test images at the end; false for a search, which must not use them (default: true)"
    parser.add_argument("--test", choices=("true", "false"), default="true", help=about)
    about = "with data: a new PNG file for a row of training images of each class"
    parser.add_argument("--figure", metavar="FILE", default="", help=about)
    add_tracking_arguments(parser)
    add_settings(parser)
    return parser


def _command(text: str) -> str:
    if text not in COMMANDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no command; {nearest(text, COMMANDS)}")
    return text


def _body(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    from experiments import listing
    from experiments.config import override
    from experiments.presets import preset

    if arguments.figure and arguments.command != "data":
        raise UserError(f"--figure: {arguments.figure!r} is allowed only after `{PROG} data`")
    if arguments.word and arguments.command != "settings":
        raise UserError(f"WORD: {arguments.word!r} is allowed only after `{PROG} settings`")
    if arguments.command in ("presets", "variants"):
        return listing.presets() if arguments.command == "presets" else listing.variants()
    config = override(preset(arguments.preset), given_settings(arguments))
    if arguments.command == "settings":
        return listing.settings(config, arguments.word or "")
    return listing.data(config, arguments.figure) if arguments.command else _train(arguments, config)


def _train(arguments: argparse.Namespace, config: RunConfig) -> int:
    import torch

    from experiments.compared import RunSpec
    from experiments.runs.record import has_ended
    from experiments.runs.run import train
    from experiments.tracker import Tracker
    from experiments.tracking import Tracking, agent_run

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    kind, out = config.model.pos_embed, Path(arguments.out)
    run = RunSpec.of(f"{config.data.name.replace(':', '-')}-{kind}-s{config.seed}-{{}}", config, kind)
    name = run.name
    agent = agent_run()
    trained_before, said = has_ended(out / name), list[str]()
    is_mirrored = agent or not trained_before
    tracking = Tracking(arguments.tracking if is_mirrored else "off", arguments.project, arguments.entity, agent=agent)
    test = arguments.test == "true"
    with Tracker(tracking, out, show=said.append) as tracker:
        on_row = _on_row(run, tracker, agent is not None)
        (summary,) = train([run], out, device=arguments.device, on_row=on_row, test=test)
        if summary:
            tracker.ended(run)
    if summary is None:
        raise UserError(f"out: {str(out / name)!r} is trained by another process")
    if trained_before:
        say("This run is already finished; nothing was trained.")
    for line in said:
        say(line)
    return _print_result(summary, out / name)


def _print_result(summary: dict[str, Any], folder: Path) -> int:
    """Print how the run ended, and where its record is. Returns 1 if it diverged."""
    if summary["status"] == "diverged":
        say(f"diverged in epoch {summary['epochs']}: the loss is not finite", f"record: {folder}")
        return 1
    accuracies = {
        part: "undefined" if (acc := summary[f"{part}/acc"]) is None else f"{acc:.2%}" for part in ("test", "val")
    }
    test_text = "" if summary["test/loss"] is None else f"test accuracy {accuracies['test']}, "
    pruned = f" after {summary['epochs']} epochs, pruned" if summary["status"] == "pruned" else ""
    say(f"{test_text}validation accuracy {accuracies['val']}{pruned}")
    say(f"record: {folder}")
    return 0


def _on_row(run: RunSpec, tracker: Tracker, by_agent: bool) -> Callable[[int, dict[str, float]], bool]:
    """An `on_row` that prints and tracks the metrics of each epoch, and prunes the run of an agent after SIGTERM.

    The agent sends it where its sweep stops the run early. The sweep does not start this run again, so it is not left
    to be resumed.
    """
    heard: list[int] = []
    if by_agent:
        signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))

    def on_row(_: int, row: dict[str, float]) -> bool:
        tracker.epoch(run, row)
        metrics = (f"{part} loss {row[f'{part}/loss']:.4f}, acc {row[f'{part}/acc']:.2%}" for part in ("train", "val"))
        say(f"epoch {row['epoch']}/{run.config.train.epochs}  {'; '.join(metrics)}")
        return bool(heard)

    return on_row


if __name__ == "__main__":
    main()
