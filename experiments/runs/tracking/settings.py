"""Where and how the runs of a command are mirrored to W&B, and the flags that say so. It imports no wandb."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from experiments.errors import UserError
from experiments.files import read_json, write_json

Mode = Literal["auto", "online", "offline", "off"]
SYNC = "vit-sweep sync"
PROJECT = "vit-ablation"
FOLDER = "wandb"  # in the study's folder: what wandb writes, and notes of what it was sent
TOKEN = "wandb.json"  # in the study's folder: the random part of the ids of its W&B runs, and the URLs of its pages
FIGURES_OF = "figures_of"  # in the configuration of a W&B run that only holds the figures of a report
TRIAL = "trial"  # the job type of a W&B run that is a trial of a tuning
STUDY_KEY = "study"  # in the configuration of a W&B run: the `study_key`; a project may hold studies of one name
MAX_NAME = 128  # characters of the name of a project or an entity
LEFT = "left"  # after a run's name and a tab, in what a command tells its sender: send the run no more
OF_AGENT = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")  # an agent sets them for its command


@dataclass(frozen=True)
class AgentRun:
    """The W&B run of a sweep for which an agent has started this command. `sweep`: the id of the sweep."""

    id: str
    sweep: str

    @classmethod
    def asked_for(cls) -> AgentRun | None:
        """None without an agent."""
        run, sweep, _ = map(os.environ.get, OF_AGENT)
        return cls(run, sweep) if run and sweep else None


@dataclass(frozen=True)
class Tracking:
    """How the runs of one command are mirrored. `auto` is online if an API key is configured, else offline.

    Without `project` or `entity`, the user's W&B settings decide, then `PROJECT` and the user's default entity.
    `agent`: the W&B run that gets the only run of this command.
    """

    mode: Mode = "auto"
    project: str | None = None
    entity: str | None = None
    agent: AgentRun | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for flag, name in (("--project", self.project), ("--entity", self.entity)):
            if name is not None and not (
                name.strip() and len(name) <= MAX_NAME and re.fullmatch(r"[^/\\#?%:\0]+", name)
            ):
                raise UserError(
                    f"{flag}: {name!r} is not allowed: expected a name of at most {MAX_NAME} characters without / \\ # "
                    "? % :"
                )

    @property
    def is_on(self) -> bool:
        """Whether runs are mirrored at all."""
        return self.mode != "off" and not (self.mode == "auto" and os.environ.get("WANDB_MODE") == "disabled")


def add_tracking_arguments(parser: argparse.ArgumentParser, default: Mode = "auto") -> None:
    """Add --tracking and where it mirrors runs to."""
    parser.add_argument(
        "--tracking",
        choices=get_args(Mode),
        default=default,
        help="mirror runs to Weights & Biases; auto: online if an API key is configured, else offline "
        "(default: %(default)s)",
    )
    add_place_arguments(parser)


def add_alert_argument(parser: argparse.ArgumentParser) -> None:
    """Add --alert."""
    about = "have W&B alert you when the command ends; without effect if it trains nothing, or W&B is not online"
    parser.add_argument("--alert", action="store_true", help=about)


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the project and the entity in W&B."""
    parser.add_argument(
        "--project", metavar="NAME", help=f"W&B project (default: that of your W&B settings, else {PROJECT})"
    )
    parser.add_argument(
        "--entity", metavar="NAME", help="W&B user or team that owns the project (default: that of your W&B settings)"
    )


def token(folder: Path) -> str:
    """The random part of the W&B ids of the runs in a folder. It is made once and moves with the folder."""
    path, digits = folder / TOKEN, secrets.token_hex(4)
    if not path.exists():
        draft = path.with_name(f"{TOKEN}.{digits}")
        write_json(draft, {"token": digits})
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(draft, path)  # made whole and once, unlike a file that is written in place
        draft.unlink()
    return str(read_json(path)["token"])


def study_key(name: str, folder: Path) -> str:
    """What tells a study in W&B from every other one: its name, and the token of its folder."""
    return f"{name}-{token(folder)}"
