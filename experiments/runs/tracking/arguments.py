"""The flags of tracking, which the commands share."""

from __future__ import annotations

import argparse

from experiments.runs.tracking.settings import MODES, PROJECT


def add_tracking_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --tracking and where it mirrors runs to."""
    parser.add_argument(
        "--tracking",
        choices=MODES,
        default="auto",
        help="mirror runs to Weights & Biases; auto: online if an API key is configured, else offline (default: auto)",
    )
    add_place_arguments(parser)


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the project and the entity in W&B."""
    parser.add_argument(
        "--project", metavar="NAME", help=f"W&B project (default: that of your W&B settings, else {PROJECT})"
    )
    parser.add_argument(
        "--entity", metavar="NAME", help="W&B user or team that owns the project (default: that of your W&B settings)"
    )
