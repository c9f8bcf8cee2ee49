"""Measure the time that the queue takes for each run: processes assign and settle runs whose training takes no time.

python tests/support/queue_scale.py --runs 1200 --processes 4 [--storage URL | --postgres]

Each process is a sweep with one worker. A run is "trained" by writing a summary. The table shows, for each tenth of the runs,
the milliseconds between two ended runs of the whole queue. The last line has the mean, and the CPU time of a run. --postgres
starts a server on loopback for the measurement. --readers: processes that read the status all the time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from experiments.files import canonical
from experiments.study import StudyPlan
from sweeps.plan import make_plan
from sweeps.queue.connect import connect
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
from sweeps.queue.status import read_status
from sweeps.study import parse_study


def scale_plan(runs: int) -> StudyPlan:
    """A study of ten variants with as many seeds as needed."""
    factors = {"optim.lr": [0.001 * (i + 1) for i in range(10)]}
    return make_plan(parse_study({"name": "scale", "factors": factors, "seeds": -(-runs // 10)}, "scale"))


def write_record(folder: Path, run_id: str) -> None:
    """A summary as the queue reads it, without the other files, and without waiting for the disk."""
    folder.mkdir()
    metrics = {"val/acc": 0.5, "val/loss": 1.0, "test/acc": 0.5}
    body = {"schema": 1, "run_id": run_id, "status": "finished", **metrics, "files": {}}
    body["digest"] = hashlib.sha256(canonical(body)).hexdigest()
    (folder / "summary.json").write_text(json.dumps(body))


def drive(runs: int, folder: Path, url: str | None, start, results) -> None:
    """A sweep. Sends the times at which its runs ended, and its CPU seconds."""
    plan = scale_plan(runs)
    queue = Queue(plan, folder, current_process(), storage=connect(plan, folder, url))
    queue.reconcile()
    start.wait()
    ends, begun = [], time.process_time()
    while taken := queue.assign(current_process()):
        write_record(folder / taken[0].run.name, taken[0].run.run_id)
        queue.settle(taken[0])
        ends.append(time.time())
    results.put((ends, time.process_time() - begun))


def read(folder: Path, start) -> None:
    """Read the status until the study is done. Prints how long it took."""
    start.wait()
    times, is_done = [], False
    while not is_done:
        begun = time.monotonic()
        is_done = read_status(folder).is_done
        times.append(time.monotonic() - begun)
    print(f"status: read {len(times)} times, {max(times) * 1e3:.0f} ms at most")


def measure(runs: int, folder: Path, url: str | None, processes: int, readers: int) -> tuple[list[float], float]:
    """Drive a queue with several processes at once. When it began and each run ended, and the CPU seconds."""
    plan = scale_plan(runs)
    plan.write(folder)
    connect(plan, folder, url)
    spawn = get_context("spawn")
    start, results = spawn.Barrier(processes + readers + 1), spawn.Queue()
    children = [spawn.Process(target=drive, args=(runs, folder, url, start, results)) for _ in range(processes)]
    children += [spawn.Process(target=read, args=(folder, start)) for _ in range(readers)]
    for child in children:
        child.start()
    start.wait()
    begun = time.time()
    parts = [results.get() for _ in range(processes)]
    for child in children:
        child.join()
    return [begun, *sorted(end for ends, _ in parts for end in ends)], sum(cpu for _, cpu in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 1000), ("processes", 2), ("readers", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--storage")
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    server = None
    if options.postgres:
        from postgres import Server

        server = Server()
        server.start(fsync="on", max_connections=200)
        options.storage = server.new_database()
    try:
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "scale"
            folder.mkdir()
            ends, cpu = measure(options.runs, folder, options.storage, options.processes, options.readers)
    finally:
        if server:
            server.remove()
    count = len(ends) - 1
    print(f"{count} runs, {options.processes} processes, {options.storage or 'SQLite'}\nruns ended   ms a run")
    for part in range(10):
        first, last = count * part // 10, count * (part + 1) // 10
        print(f"{last:10d}   {(ends[last] - ends[first]) / (last - first) * 1e3:8.1f}")
    print(f"{'all':>10}   {(ends[-1] - ends[0]) / count * 1e3:8.1f}; CPU time {cpu / count * 1e3:.1f} ms a run")
    print("load of the machine:", *os.getloadavg())


if __name__ == "__main__":
    main()
