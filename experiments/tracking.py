"""Where runs are in Weights & Biases: flags, settings, ids, notes of what was sent, wandb in bounded time.

wandb is imported only by what uses it.
"""

import contextlib
import netrc
import os
import re
import secrets
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from configparser import ConfigParser, Error
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from experiments.errors import UserError
from experiments.files import LOCKS, NAME, RecordError, check_name, lock, own_folder, read_json, write_json

Mode = Literal["auto", "online", "offline", "off"]
PROJECT = "vit-ablation"
PLACE = {
    "project": f"W&B project (default: that of your W&B settings, else {PROJECT})",
    "entity": "W&B user or team that owns the project (default: that of your W&B settings)",
}
"""Where runs are in W&B: flag -> its help."""
TRIAL = "trial"  # the job type of a W&B run that is a trial of a tuning
STUDY_KEY = "study"  # in the configuration of a W&B run: the `study_key`; a project may hold studies of one name
FOLDER = "wandb"  # in the study's folder: what wandb writes, and notes of what it was sent
TOKEN = "wandb.json"  # in the study's folder: the random part of the ids of its W&B runs, and the URLs of its pages
OF_AGENT = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")  # an agent sets them for its command
PROBE_SECONDS, ANSWER_SECONDS = 5, 10  # that the server has for its first answer, and for others; wandb's default is 90


def agent_run() -> dict[str, str] | None:
    """The `id` of the W&B run for which an agent of a sweep has started this command, and the `sweep`."""
    run, sweep, _ = map(os.environ.get, OF_AGENT)
    return {"id": run, "sweep": sweep} if run and sweep else None


@dataclass(frozen=True)
class Tracking:
    """How the runs of one command are sent to W&B. `auto`: online if an API key is configured, else off.

    Without `project` or `entity`, the user's W&B settings decide, then `PROJECT` and the user's default entity.
    `agent`: what gets the only run of this command, see `agent_run`.
    """

    mode: Mode = "auto"
    project: str | None = None
    entity: str | None = None
    agent: dict[str, str] | None = field(default=None, kw_only=True)

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
    settings = _settings_of(Path(os.environ.get("WANDB_CONFIG_DIR", "~/.config/wandb"), "settings"))
    server = os.environ.get("WANDB_BASE_URL") or settings.get("base_url", "https://api.wandb.ai")
    try:
        logins = netrc.netrc(Path(os.environ.get("NETRC", "~/.netrc")).expanduser())
        return logins.authenticators(urlsplit(server).netloc) is not None
    except (OSError, ValueError, netrc.NetrcParseError):
        return False


def _settings_of(path: Path) -> dict[str, str]:
    """What a settings file of wandb sets; nothing where wandb could not read it either."""
    settings = ConfigParser(interpolation=None)
    with contextlib.suppress(Error, ValueError):
        settings.read(path.expanduser())
    return dict(settings.items("default")) if settings.has_section("default") else {}


def check_settings() -> None:
    """Raise `UserError` where wandb's settings of the current folder, which may be a stranger's, could name a server.

    What `wandb init` and `wandb offline` write there is allowed. wandb reads no other folder's settings.
    """
    for path in (Path("wandb/settings"), Path(".wandb/settings")):
        for name, value in _settings_of(path).items():
            if name not in ("entity", "project", "mode"):
                allowed = "expected only entity, project or mode in the current folder, and no other server"
                raise UserError(f"{path}: {name}: {value!r} is not allowed: {allowed}")


def add_tracking_arguments(parser: ArgumentParser, default: Mode = "auto") -> None:
    """Add --tracking and where runs are sent to."""
    about = "mirror runs to Weights & Biases; auto: online if an API key is configured, else off (default: %(default)s)"
    parser.add_argument("--tracking", choices=get_args(Mode), default=default, help=about)
    for name, about in PLACE.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=about)


class Unreachable(UserError):
    """W&B cannot be used: its server does not answer, or refuses the API key. The message has no API key."""

    def __init__(self, reason: str) -> None:
        key = os.environ.get("WANDB_API_KEY") or "\0"
        super().__init__(f"W&B cannot be used ({' '.join(reason.split()).replace(key, '[API key]')[:300]})")


@contextlib.contextmanager
def wandb_in_use() -> Iterator[None]:
    """Use wandb in the body, and end its process. Raises `Unreachable` for every other error than a `UserError`."""
    check_settings()
    for name in (*OF_AGENT, "WANDB_RESUME", "WANDB_SERVICE"):  # they are for one run
        os.environ.pop(name, None)
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}  # reports hold the end of a command up
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as staging:  # else wandb uses the home folder
        os.environ["WANDB_DATA_DIR"] = staging
        try:
            import wandb

            yield
            wandb.teardown()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # of any family: wandb raises many
            kill_wandb()
            if isinstance(error, UserError | KeyboardInterrupt):
                raise
            raise Unreachable(f"{type(error).__name__}: {error}") from error


def kill_wandb() -> None:
    """End wandb's own process, if there is one, at once: it waits for its server as long as that does not answer."""
    with contextlib.suppress(Exception, SystemExit):
        import wandb

        connection: Any = wandb.setup()._connection  # nothing public ends the process
        connection._proc._process.kill()
        with contextlib.suppress(Exception):
            connection.teardown(0)  # first: `wandb.teardown` alone makes threads of open runs print tracebacks
        wandb.teardown()


def project(name: str | None) -> str:
    """The project: the given one, the one of the user's W&B settings, or `PROJECT`."""
    import wandb

    return name or wandb.setup().settings.project or PROJECT


def place(tracking: Tracking) -> tuple[str, str, str]:
    """Ask the server who the user is. Returns entity and project of the runs, and the address of the project.

    Raises `Unreachable` where no server is used, and whatever wandb raises.
    """
    import wandb

    if tracking.wandb_mode != "online":
        mode = os.environ.get("WANDB_MODE")
        raise Unreachable(f"WANDB_MODE is {mode}" if mode else "no API key is configured; see `wandb login`")
    address = wandb.setup().settings.base_url
    try:
        api = wandb.Api(timeout=PROBE_SECONDS)
        entity = tracking.entity or os.environ.get("WANDB_ENTITY") or str(api.default_entity)
    except Exception as error:  # of many kinds, with the same one for a wrong key and no answer
        reason = f"{address} did not answer" if "in time" in str(error) else f"{type(error).__name__}: {error}"
        raise Unreachable(reason) from error
    return entity, project(tracking.project), f"{address}/{entity}/{project(tracking.project)}"


def note_path(folder: Path, run: str) -> Path:
    """The file that says what W&B has of a run."""
    return folder / FOLDER / "sent" / f"{run}.json"


def read_note(folder: Path, run: str) -> dict[str, str]:
    """What W&B has of a run: the `id` of the W&B run, its `sweep`, its project (`where`), and, once W&B has all of it,
    the `digest` of the record. Empty where there is no note that can be read."""
    with contextlib.suppress(RecordError):
        note = read_json(note_path(folder, run))
        if NAME.fullmatch(str(note.get("id"))):
            return note
    return {}


def token(folder: Path) -> str:
    """The random part of the W&B ids of the runs in a folder. It is made once and moves with the folder."""
    path = folder / TOKEN
    if not path.exists():
        with lock(own_folder(folder / LOCKS) / TOKEN, ANSWER_SECONDS):
            if not path.exists():
                write_json(path, {"token": secrets.token_hex(4)})
    return check_name(str(read_json(path).get("token")), f"{path}: token")


def study_key(name: str, folder: Path) -> str:
    """What tells a study in W&B from every other one: its name, and the token of its folder."""
    return f"{name}-{token(folder)}"
