"""Where and how the runs of a command are mirrored to W&B, and the flags that say so. It imports no wandb."""

import netrc
import os
import re
from argparse import ArgumentParser
from configparser import ConfigParser, Error
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from experiments.errors import UserError
from experiments.files import read_bytes

Mode = Literal["auto", "online", "offline", "off"]
PROJECT = "vit-ablation"
PLACE = {
    "project": f"W&B project (default: that of your W&B settings, else {PROJECT})",
    "entity": "W&B user or team that owns the project (default: that of your W&B settings)",
}
"""Where runs are in W&B: flag -> its help."""
TRIAL = "trial"  # the job type of a W&B run that is a trial of a tuning
STUDY_KEY = "study"  # in the configuration of a W&B run: the `study_key`; a project may hold studies of one name
OF_AGENT = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")  # an agent sets them for its command


@dataclass(frozen=True)
class AgentRun:
    """The W&B run of a sweep for which an agent has started this command. `sweep`: the id of the sweep."""

    id: str
    sweep: str

    @classmethod
    def asked_for(cls) -> "AgentRun | None":
        run, sweep, _ = map(os.environ.get, OF_AGENT)
        return cls(run, sweep) if run and sweep else None


@dataclass(frozen=True)
class Tracking:
    """How the runs of one command are mirrored. `auto`: online if an API key is configured, else off.

    Without `project` or `entity`, the user's W&B settings decide, then `PROJECT` and the user's default entity.
    `agent`: the W&B run that gets the only run of this command.
    """

    mode: Mode = "auto"
    project: str | None = None
    entity: str | None = None
    agent: AgentRun | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for flag, name in (("--project", self.project), ("--entity", self.entity)):
            if name is not None and not (name.strip() and re.fullmatch(r"[^/\\#?%:\0]{1,128}", name)):
                raise UserError(f"{flag}: {name!r} is not allowed: expected up to 128 characters without / \\ # ? % :")

    @property
    def wandb_mode(self) -> str:
        """The mode for wandb, online or offline; or off. The environment variable WANDB_MODE decides for `auto`."""
        of_user = os.environ.get("WANDB_MODE")
        mode = self.mode if self.mode != "auto" else of_user or ("online" if _has_key() else "off")
        return {"run": "online", "dryrun": "offline", "disabled": "off"}.get(mode, mode)

    @property
    def is_on(self) -> bool:
        return self.wandb_mode != "off"


def _has_key() -> bool:
    """Whether an API key is configured, where wandb looks for it. Asks no server."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    settings, config = ConfigParser(default_section="default"), os.environ.get("WANDB_CONFIG_DIR", "~/.config/wandb")
    try:
        settings.read(Path(config, "settings").expanduser())
        server = os.environ.get("WANDB_BASE_URL") or settings.defaults().get("base_url", "https://api.wandb.ai")
        logins = netrc.netrc(Path(os.environ.get("NETRC", "~/.netrc")).expanduser())
        return logins.authenticators(urlsplit(server).netloc) is not None
    except (OSError, ValueError, Error, netrc.NetrcParseError):
        return False


def check_settings() -> None:
    """Raise `UserError` where wandb's settings of the current folder, which may be a stranger's, name a server.

    Called before wandb is used. Only what `wandb init` and `wandb offline` write there is allowed.
    """
    for path in (Path("wandb/settings"), Path(".wandb/settings")):
        if os.path.lexists(path):
            settings = ConfigParser(interpolation=None)
            try:
                settings.read_string(read_bytes(path).decode())
                given = settings.items("default") if settings.has_section("default") else []
            except (Error, UnicodeError) as error:
                raise UserError(f"{path}: cannot be read: {error}") from error
            for name, value in given:
                if name not in ("entity", "project", "mode"):
                    raise UserError(
                        f"{path}: {name}: {value!r} is not allowed in the current folder: expected only "
                        "entity, project or mode; it could name another server"
                    )


def add_tracking_arguments(parser: ArgumentParser, default: Mode = "auto") -> None:
    """Add --tracking and where it mirrors runs to."""
    about = "mirror runs to Weights & Biases; auto: online if an API key is configured, else off (default: %(default)s)"
    parser.add_argument("--tracking", choices=get_args(Mode), default=default, help=about)
    add_place_arguments(parser)


def add_alert_argument(parser: ArgumentParser) -> None:
    """Add --alert."""
    about = "have W&B alert you when the command ends; without effect if it trains nothing, or W&B is not online"
    parser.add_argument("--alert", action="store_true", help=about)


def add_place_arguments(parser: ArgumentParser) -> None:
    """Add the project and the entity in W&B."""
    for name, about in PLACE.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=about)
