"""The process that sends runs to W&B. `mirror` starts it with options on its standard input, and ends it by closing that.

It follows the epoch logs of the runs in training and reads the records of ended ones. It writes messages for the command
to standard output, one JSON object in a line. A call that W&B does not return from ends the process.
"""

from __future__ import annotations

import os
import sys
import threading

from experiments.runs.tracking import server
from experiments.runs.tracking.follow import Follower
from experiments.runs.tracking.protocol import Messages, Options, Watchdog, command_for_sync, end
from experiments.runs.tracking.settings import FOLDER
from experiments.runs.tracking.sync import send_records

NICENESS = 5  # training goes first


def main() -> None:
    """Entry point."""
    messages = Messages()
    options = Options.from_json(sys.stdin.readline())
    closing = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(closing,), daemon=True).start()
    os.environ["WANDB_SILENT"] = "true"
    os.environ.setdefault(
        "WANDB_DATA_DIR", str(options.folder / FOLDER)
    )  # else wandb keeps artifacts in the home folder
    watchdog = Watchdog(messages, f"the records are complete; send them with {command_for_sync(options.folder)}")
    try:
        if options.sync is None:
            os.nice(NICENESS)
            Follower(options, messages, watchdog, closing).work()
        else:
            send_records(options, messages, watchdog)
    except Exception as error:
        messages.say(f"tracking: {server.brief(error)}; the records are complete without W&B")
    end(0)


def _wait_for_end_of_input(closing: threading.Event) -> None:
    while sys.stdin.readline():
        pass
    closing.set()


if __name__ == "__main__":
    main()
