"""Where and how the runs of a command are mirrored to W&B. It imports no wandb."""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from experiments.errors import UserError
from experiments.runs.tracking.agent import AgentRun

Mode = Literal["auto", "online", "offline", "off"]
MODES: tuple[str, ...] = get_args(Mode)
PROJECT = "vit-ablation"
FOLDER = "wandb"  # in the study's folder: what wandb writes, and what it is to get
TOKEN = "wandb.json"  # in the study's folder: the random part of the ids of its W&B runs, and the URLs of its pages
FIGURES_OF = "figures_of"  # in the configuration of a W&B run that only holds the figures of a report
MAX_NAME = 128  # characters of the name of a project or an entity


@dataclass(frozen=True)
class Tracking:
    """How the runs of one command are mirrored. `auto` is online if an API key is configured, else offline.

    Without `project` or `entity`, the user's W&B settings decide, then `PROJECT` and the user's default entity.
    `session` tells the runs of this command from those that another command trains in the same folder. `agent`: the W&B
    run of a sweep that gets the only run of this command.
    """

    mode: Mode = "auto"
    study: str = ""
    project: str | None = None
    entity: str | None = None
    session: str = field(default_factory=lambda: secrets.token_hex(8))
    agent: AgentRun | None = None

    def __post_init__(self) -> None:
        for flag, name in (("--project", self.project), ("--entity", self.entity)):
            if name is not None and not (
                name.strip() and len(name) <= MAX_NAME and re.fullmatch(r"[^/\\#?%:\0]+", name)
            ):
                raise UserError(
                    f"{flag}: {name!r} is not allowed: expected a name of at most {MAX_NAME} characters without / \\ # ? % :"
                )

    @property
    def is_on(self) -> bool:
        """Whether runs are mirrored at all."""
        return self.mode != "off" and not (self.mode == "auto" and os.environ.get("WANDB_MODE") == "disabled")


def token(folder: Path) -> str:
    """The random part of the W&B ids of the runs in a folder. It is made once and moves with the folder.

    Raises `ValueError` where the file that holds it is damaged.
    """
    path = folder / TOKEN
    if not path.exists():
        new = folder / f"{TOKEN}.{secrets.token_hex(4)}"
        new.write_text(json.dumps({"token": secrets.token_hex(4)}) + "\n")
        try:
            os.link(new, path)  # unlike a rename, this keeps the token of another command that was faster
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["token"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is damaged; restore it, or move it away to send the runs as new ones") from error
    if not isinstance(found, str) or not re.fullmatch(r"[A-Za-z0-9]{1,64}", found):
        raise ValueError(f"{path}: token: {found!r} is not allowed")
    return found
