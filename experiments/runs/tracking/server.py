"""Use wandb in bounded time; what is asked of the W&B server beside runs: who the user is, their project, a sweep."""

import atexit
import contextlib
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from experiments.errors import UserError
from experiments.runs.tracking.settings import OF_AGENT, PROJECT, Mode

PROBE_SECONDS, ANSWER_SECONDS = 5, 10  # that the server has for its first answer, and for others; wandb's default is 90
OPEN = ("PENDING", "RUNNING", "PAUSED")  # states of a sweep that may start runs
NOT_FOR_SEVERAL_RUNS = (*OF_AGENT, "WANDB_RESUME", "WANDB_SERVICE")


class Unreachable(Exception):
    """The server does not answer, or refuses the API key. The message is a reason in one line."""


@contextlib.contextmanager
def wandb_in_use(seconds: float = 0.0) -> Iterator[TextIO]:
    """Use wandb in the body for at most `seconds`, and leave nothing of it behind. Raises `Unreachable`.

    Yields the standard error, which is closed to wandb and its process.
    """
    for name in NOT_FOR_SEVERAL_RUNS:
        os.environ.pop(name, None)
    if os.environ.get("WANDB_DIR") == os.getcwd():  # set by an agent, not by the user
        del os.environ["WANDB_DIR"]
    os.environ["WANDB_SILENT"] = "true"
    null = os.open(os.devnull, os.O_WRONLY)
    with os.fdopen(os.dup(2), "w") as stderr:
        os.dup2(null, 2)
        try:
            import wandb

            with limit(seconds):
                yield stderr
            with limit(ANSWER_SECONDS):
                wandb.teardown()  # until then the file of an offline run may lack its last lines
        except (Exception, SystemExit) as error:  # of any family: wandb raises many
            raise Unreachable(brief(error)) from error
        finally:
            kill_wandb(os.getpid())
            # After an error its process is dead.
            with contextlib.suppress(Exception, SystemExit), limit(ANSWER_SECONDS):
                wandb.teardown()
            os.environ.pop("WANDB_SERVICE", None)
            os.dup2(stderr.fileno(), 2)
            atexit.register(os.dup2, null, 2)  # before wandb's own exit, which may complain


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise `Unreachable` in the body after this many seconds; 0: never. Only in the main thread."""

    def give_up(*_: Any) -> None:
        raise Unreachable(f"W&B did not answer for {seconds:.0f} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again every second, if wandb catches it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def kill_wandb(parent: int) -> None:
    """Kill wandb's own process, a child with a session of its own: it would wait for the server for a minute."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            of_parent = path.read_text().rpartition(")")[2].split()[1] == str(parent)
            if of_parent and "wandb" in (path.parent / "cmdline").read_text():
                os.kill(int(path.parent.name), signal.SIGKILL)


def wandb_mode(mode: Mode) -> str:
    """The mode for wandb: online, offline or disabled. The environment variable WANDB_MODE decides for `auto`."""
    if mode != "auto":
        return mode
    given = os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")
    return "offline" if given == "dryrun" else given


def check_online() -> None:
    """Raise `Unreachable` where no server is used unless the user asks for one."""
    if (mode := wandb_mode("auto")) != "online":
        no_key = "no API key is configured; see `wandb login`"
        raise Unreachable(f"WANDB_MODE is {mode}" if os.environ.get("WANDB_MODE") else no_key)


def project(given: str | None) -> str:
    """The project: the given one, the one of the user's W&B settings, or `PROJECT`."""
    import wandb

    return given or os.environ.get("WANDB_PROJECT") or wandb.setup().settings.project or PROJECT


def probe(entity: str | None) -> str:
    """Ask the server who the user is. Returns the entity that runs belong to. Raises `Unreachable`."""
    import wandb

    try:
        api = wandb.Api(timeout=PROBE_SECONDS)
        return entity or os.environ.get("WANDB_ENTITY") or str(api.default_entity)
    except Exception as error:  # of many kinds, with the same one for a wrong key and no answer
        text = brief(error)
        raise Unreachable(f"{base_url()} did not answer" if "in time" in text else text) from error


def base_url() -> str:
    """The address of the server."""
    import wandb

    return wandb.setup().settings.base_url


def brief(error: BaseException) -> str:
    """An error in one short line, without the API key."""
    kind = "" if isinstance(error, UserError | Unreachable) else f"{type(error).__name__}: "
    text = f"{kind}{' '.join(str(error).split())}"
    return text.replace(os.environ.get("WANDB_API_KEY") or "\0", "[API key]")[:300]


def _has_key() -> bool:
    """Whether an API key is configured. Asks no question and no server."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    from wandb.sdk.lib import wbauth

    return bool(wbauth.read_netrc_auth(host=base_url()))


def register(spec: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    """Register the sweep of a specification, unless `known`, an earlier sweep of it, is open.

    A sweep: `server`, its address; `path`, ENTITY/PROJECT/ID; `url`, of its page. Raises whatever wandb raises.
    """
    import wandb

    address, entity = base_url(), probe(spec.get("entity"))
    api = wandb.Api(timeout=ANSWER_SECONDS)
    if known and known["server"] == address:
        with contextlib.suppress(ValueError, wandb.errors.Error):  # it was deleted
            if api.sweep(known["path"]).state.upper() in OPEN:
                return known
    with contextlib.redirect_stdout(io.StringIO()):
        path = f"{entity}/{spec['project']}/{wandb.sweep(spec, entity=entity, project=spec['project'])}"
    return {"server": address, "path": path, "url": api.sweep(path).url}
