"""Use wandb in bounded time; what is asked of the W&B server beside runs: who the user is, their project, a sweep."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from experiments.errors import UserError
from experiments.runs.tracking.settings import OF_AGENT, PROJECT, Tracking, check_settings

PROBE_SECONDS, ANSWER_SECONDS = 5, 10  # that the server has for its first answer, and for others; wandb's default is 90
TEARDOWN_SECONDS = 5.0  # that wandb's own process has to end
T = TypeVar("T")


class Unreachable(Exception):
    """The server does not answer, or refuses the API key. The message is a reason in one line."""


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Call a function in a thread. Raises `Unreachable` after so many seconds; the thread is then left alone."""
    answer: Future[T] = Future()

    def body() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    if not wait([answer], seconds).done:
        raise Unreachable(f"W&B did not answer for {seconds:.0f} s")
    return answer.result()


@contextlib.contextmanager
def wandb_in_use() -> Iterator[None]:
    """Use wandb in the body, and end its process. Raises `Unreachable` for every error of the body.

    Raises `UserError` where the current folder names another server, see `check_settings`.
    """
    check_settings()
    for name in (*OF_AGENT, "WANDB_RESUME", "WANDB_SERVICE"):  # they are for one run
        os.environ.pop(name, None)
    if os.environ.get("WANDB_DIR") == os.getcwd():  # set by an agent, not by the user
        del os.environ["WANDB_DIR"]
    os.environ["WANDB_SILENT"] = "true"
    seconds = 0.0  # after an error
    try:
        import wandb

        try:
            yield
            seconds = TEARDOWN_SECONDS
        finally:
            connection: Any = wandb.setup()._connection  # nothing public ends a process that waits for its server
            with contextlib.suppress(Exception):
                bounded(wandb.teardown, seconds)
            with contextlib.suppress(AttributeError):
                connection._proc._process.kill()
    except (Exception, SystemExit) as error:  # of any family: wandb raises many
        raise Unreachable(brief(error)) from error


def check_online() -> None:
    """Raise `Unreachable` where no server is used unless the user asks for one."""
    if Tracking().wandb_mode != "online":
        mode = os.environ.get("WANDB_MODE")
        raise Unreachable(f"WANDB_MODE is {mode}" if mode else "no API key is configured; see `wandb login`")


def project(given: str | None) -> str:
    """The project: the given one, the one of the user's W&B settings, or `PROJECT`."""
    import wandb

    return given or wandb.setup().settings.project or PROJECT


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
