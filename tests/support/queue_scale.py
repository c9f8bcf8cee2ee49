"""Measure the time that the queue takes for each run: processes assign and settle runs whose training takes no time.

python tests/support/queue_scale.py --runs 1000 --processes 8 --workers 64 [--storage URL | --postgres]

Each process is a sweep with its share of the workers. A run is "trained" by writing a summary. The table shows, for each
tenth of the runs, the milliseconds between two ended runs of the whole queue, and those for which one call of `assign` and of
`settle` holds the lock, without the wait for it. The last line has the means, and the CPU time of an assignment, which does
not depend on what else the machine does. --postgres starts a server on loopback for the measurement. --processes 1
--workers 1000 simulates a thousand workers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import optuna
import sqlalchemy

from experiments.canonical import canonical
from experiments.study import StudyPlan
from sweeps.plan import make_plan
from sweeps.queue.connect import connect
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
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


def add_ended(queue: Queue, count: int) -> None:
    """Let the first runs of the plan have ended: write their records, and copies of one trial of the queue, in bulk."""
    (assignment,) = queue.assign(current_process())
    write_record(queue.dir / assignment.run.name, assignment.run.run_id)
    queue.settle(assignment)
    (model,) = queue.study.get_trials()
    runs = list(queue.runs.values())[1:count]
    for run in runs:
        write_record(queue.dir / run.name, run.run_id)
    with queue.store.lock(), queue.store.rdb.engine.begin() as connection:

        def insert(table: str, rows: list[dict]) -> None:
            names = rows[0].keys()
            values = ", ".join(f":{name}" for name in names)
            connection.execute(sqlalchemy.text(f"insert into {table} ({', '.join(names)}) values ({values})"), rows)

        times = {"datetime_start": model.datetime_start, "datetime_complete": model.datetime_complete}
        fixed = {"study_id": queue.study_id, "state": "COMPLETE", **times}
        insert("trials", [{**fixed, "number": i + 1} for i in range(len(runs))])
        added = sqlalchemy.text("select trial_id from trials where number > 0 order by number")
        made = list(zip(connection.execute(added).scalars().all(), runs))
        ((name, levels),) = queue.distributions.items()
        choices = {"param_name": name, "distribution_json": optuna.distributions.distribution_to_json(levels)}
        insert(
            "trial_params",
            [{"trial_id": i, "param_value": levels.to_internal_repr(run.levels[name]), **choices} for i, run in made],
        )
        value = {"objective": 0, "value": 0.5, "value_type": "FINITE"}
        insert("trial_values", [{"trial_id": i, **value} for i, _ in made])
        for i, run in made:
            own = {"run": run.name, "run_id": run.run_id, "variant": run.variant, "seed": run.seed}
            attrs = {**model.user_attrs, **own}
            rows = [{"trial_id": i, "key": key, "value_json": json.dumps(value)} for key, value in attrs.items()]
            insert("trial_user_attributes", rows)


def drive(runs: int, folder: Path, url: str | None, workers: int, start, results) -> None:
    """A sweep: its workers take turns, each with one run at a time. Sends for each run, in seconds: its end, and how long
    the lock was held for its assignment, for its end, and the CPU time of its assignment.
    """
    plan = scale_plan(runs)
    queue = Queue(plan, folder, current_process(), storage=connect(plan, folder, url))
    held: dict[str, float] = {}
    enter, leave = queue.store._enter, queue.store._leave

    def entering() -> None:
        enter()
        held["since"], held["cpu since"] = time.monotonic(), time.process_time()

    def leaving() -> None:
        leave()
        held["for"] = time.monotonic() - held["since"]
        held["cpu"] = time.process_time() - held["cpu since"]

    queue.store._enter, queue.store._leave = entering, leaving
    queue.reconcile()
    start.wait()
    rows, busy, begun = [], True, time.process_time()
    while busy:
        busy = []
        for _ in range(workers):
            if taken := queue.assign(current_process()):
                busy.append((taken[0], held["for"], held["cpu"]))
        for assignment, assigning, cpu in busy:
            write_record(folder / assignment.run.name, assignment.run.run_id)
            queue.settle(assignment)
            rows.append((time.time(), assigning, held["for"], cpu))
    results.put((rows, time.process_time() - begun))


def measure(
    runs: int, folder: Path, url: str | None, processes: int, workers: int, ended: int
) -> tuple[list[tuple[float, float, float, float]], float]:
    """Drive a queue with several processes at once. One row for each run, in the order in which they ended; CPU seconds."""
    plan = scale_plan(runs)
    storage = connect(plan, folder, url)
    if ended:
        add_ended(Queue(plan, folder, current_process(), storage=storage), ended)
    spawn = get_context("spawn")
    start, results = spawn.Barrier(processes + 1), spawn.Queue()
    shares = [workers // processes] * processes
    children = [spawn.Process(target=drive, args=(runs, folder, url, share, start, results)) for share in shares]
    for child in children:
        child.start()
    start.wait()
    begun = time.time()
    parts = [results.get() for _ in children]
    rows = sorted(row for part, _ in parts for row in part)
    for child in children:
        child.join()
    return [(begun, 0.0, 0.0, 0.0), *rows], sum(cpu for _, cpu in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ended", type=int, default=0, help="number of runs that have ended before the measurement")
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
            rows, cpu = measure(
                options.runs, folder, options.storage, options.processes, options.workers, options.ended
            )
    finally:
        if server:
            server.remove()
    count = len(rows) - 1
    print(
        f"{options.runs} runs, {options.ended} ended before, {options.processes} processes, {options.workers} workers, {options.storage or 'SQLite'}"
    )
    print("runs ended   ms a run   assign, ms   settle, ms")
    for part in range(10):
        first, last = count * part // 10, count * (part + 1) // 10
        own = rows[first + 1 : last + 1]
        between = (own[-1][0] - rows[first][0]) / len(own)
        means = [statistics.fmean(row[i] for row in own) for i in (1, 2)]
        print(f"{options.ended + last:10d}   {between * 1e3:8.1f}   {means[0] * 1e3:10.1f}   {means[1] * 1e3:10.1f}")
    assign, settle, own = (statistics.fmean(row[i] for row in rows[1:]) * 1e3 for i in (1, 2, 3))
    total = (rows[-1][0] - rows[0][0]) / count * 1e3
    print(f"{'all':>10}   {total:8.1f}   {assign:10.1f}   {settle:10.1f}")
    print(f"CPU time of the processes: {cpu / count * 1e3:.1f} ms a run, of which {own:.1f} ms in the assignment")
    print("load of the machine:", *os.getloadavg())


if __name__ == "__main__":
    main()
