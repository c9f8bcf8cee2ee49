"""Processes that open one storage at the same moment and take its lock in turn."""

import subprocess
import sys

CHILD = """
import sys, time
from pathlib import Path
from sweeps.queue.storage import open_storage
from sweeps.queue.url import QueueNote
url = {url!r}
storage, log = open_storage(Path({folder!r}), QueueNote(url, "0") if url else None), open({log!r}, "a", buffering=1)
def work():
    log.write("in\\n")
    time.sleep(0.002)
    log.write("out\\n")
for _ in range(20):
    storage.run(lambda: storage.run(work))  # its holder can take it again
"""


def contend(url: str | None, folder, processes: int = 4) -> list[str]:
    """What several processes write that open one storage at the same moment and take its lock 20 times each."""
    code = CHILD.format(url=url, folder=str(folder), log=str(folder / "log"))
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(processes)]
    assert [child.wait(120) for child in children] == [0] * processes
    return (folder / "log").read_text().split()
