"""`vit-train`: one run from the command line. Heavy imports wait until they are needed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from experiments.cli import Parser, add_settings, positive, run_command, settings
from experiments.errors import UserError
from experiments.runs.tracking import MODES

PROG = "vit-train"
EPILOG = """commands:
  vit-train                     train one run; without settings, the preset digits
  vit-train presets             the named starting points, with parameters, FLOPs and published figures
  vit-train variants            the positional embeddings and where each may enter"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point; exits 0, 2 for bad input, 1 where the run diverged, 130 on Ctrl-C."""
    run_command(_body, PROG, argv, resumes=True)


def _parser() -> Parser:
    usage = f"{PROG} [presets|variants] [--preset NAME] [--out DIR] [--device D] [--threads N]\n       [--tracking MODE] [--SETTING VALUE ...]"
    parser = Parser(PROG, usage=usage, description="Train one Vision Transformer and leave its record.", epilog=EPILOG)
    parser.add_argument(
        "command", nargs="?", choices=["run", "presets", "variants"], default="run", help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--preset", default="digits", help="named starting point; `vit-train presets` lists them [digits]"
    )
    parser.add_argument("--out", default="runs/single", help="folder that the run's folder is made in [runs/single]")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... [auto]")
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="CPU threads; their number changes the last digits, and vit-sweep's workers have 1 [PyTorch's]",
    )
    parser.add_argument(
        "--tracking",
        choices=MODES,
        default="auto",
        help="W&B: auto is online where a key is configured, else offline [auto]",
    )
    add_settings(parser)
    return parser


def _body(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    from experiments import listing

    if arguments.command == "presets":
        return listing.presets()
    if arguments.command == "variants":
        return listing.variants()
    return _train(arguments)


def _train(arguments: argparse.Namespace) -> int:
    from experiments.config import override, run_id
    from experiments.presets import PRESETS, preset

    config = override(preset(arguments.preset), settings(arguments))
    import torch

    from experiments.progress import EpochPrinter
    from experiments.runs.run import train
    from experiments.runs.spec import RunSpec
    from experiments.runs.tracking import Tracking

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    name = f"{config.data.name}-{config.model.pos_embed}-s{config.seed}-{run_id(config)[:8]}"
    run, out = RunSpec(name, config, config.model.pos_embed), Path(arguments.out)
    try:
        with EpochPrinter(config.train.epochs) as printer:
            (summary,) = train(
                [run], out, device=arguments.device, tracking=Tracking(arguments.tracking), on_row=printer
            )
    except torch.OutOfMemoryError as error:
        size = f"{config.train.batch_size} images of {config.data.image_shape[1]} px a step"
        raise UserError(
            f"train.batch_size: {size} are too many for the GPU's memory with this model: {error}"
        ) from error
    if summary["status"] == "diverged":
        print(f"diverged in epoch {summary['epochs']}: the loss is not finite. Record: {out / name}")
        return 1
    print(f"test accuracy {summary['test/acc']:.2%}, validation {summary['val/acc']:.2%}. Record: {out / name}")
    claim = PRESETS[arguments.preset].claim
    if claim is not None and run_id(config) == run_id(override(preset(arguments.preset), {"seed": config.seed})):
        print(f"published: {claim:.2%}; to compare: vit-sweep run {arguments.preset}, which takes several seeds")
    return 0
