"""Measure the time that the queue takes for each run: processes assign and settle runs whose training takes no time.

python tests/support/queue_scale.py [RUNS] [PROCESSES] [URL]

Each process is a sweep with one worker. It "trains" a run by writing a record, which is not counted. URL: as in --storage.
"""

import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from stubbed import finish, tiny_plan

from sweeps.queue.connect import connect
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue


def drive(seeds: int, folder: Path, url: str | None, start, results) -> None:
    """A sweep. Sends the number of its runs, the seconds that it spent in the queue, and the CPU time of that."""
    plan = tiny_plan(seeds=seeds)
    queue = Queue(plan, folder, current_process(), storage=connect(plan, folder, url))
    queue.reconcile()
    start.wait()
    runs, wall, cpu = 0, -time.monotonic(), -time.process_time()
    while taken := queue.assign(current_process()):
        wall, cpu = wall + time.monotonic(), cpu + time.process_time()
        finish(folder / taken[0].run.name, taken[0].run)
        runs, wall, cpu = runs + 1, wall - time.monotonic(), cpu - time.process_time()
        queue.settle(taken[0])
    results.put((runs, wall + time.monotonic(), cpu + time.process_time()))


def main(runs: str = "1000", processes: str = "2", url: str | None = None) -> None:
    """Print the mean times of a run. With several processes, the wall time includes waiting for the lock."""
    spawn, count = get_context("spawn"), int(processes)
    start, results = spawn.Barrier(count), spawn.Queue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (int(runs) // 2, Path(folder), url, start, results)
        children = [spawn.Process(target=drive, args=arguments) for _ in range(count)]
        for child in children:
            child.start()
        ended, wall, cpu = map(sum, zip(*(results.get() for _ in children), strict=True))
        for child in children:
            child.join()
    print(
        f"{ended} runs, {count} processes: {wall / ended * 1e3:.1f} ms a run, of which CPU {cpu / ended * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
