"""Measure what faults of W&B cost a sweep of 8 runs: python tests/support/wandb_faults.py FOLDER [FAULT ...].

For each fault it trains 8 tiny runs of about a second, mirrored as by the commands, and prints a line: whether the records
equal those without tracking, how long the command waits for W&B, what the user sees, and whether `sync` completes all runs
on a healthy server afterwards. It needs Linux; the cases with a full disk need root.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mirrored
import tiny
from wandb_server import WandbServer

from experiments.runs.run import train
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.settings import Tracking
from experiments.runs.tracking.sync import sync

RUNS = [mirrored.spec(seed) for seed in range(8)]
MIDDLE = 70  # requests after which the faults in mid-run begin
CASES: dict[str, dict[str, Any]] = {
    "healthy": {},
    "refuses": {"dead": True},
    "hangs": {"fault": "hang"},
    "500": {"fault": "500"},
    "429": {"fault": "429"},
    "slow (1 s an answer)": {"fault": "slow"},
    "dies in mid-run": {"fault": "die", "after": MIDDLE},
    "hangs in mid-run": {"fault": "hang", "after": MIDDLE},
    "file_stream 500": {"fault": "stream500"},
    "PUT 500": {"fault": "put500"},
    "wrong key": {"key": "9" * 40},
    "no key": {"key": ""},
    "wandb-core killed": {"kill": True},
    "disk full, online": {"full": True},
    "disk full, offline": {"full": True, "mode": "offline"},
    "header-only file": {"header": True, "mode": "offline"},
}


def main(folder: Path, wanted: list[str]) -> None:
    """Measure the faults, and print a line for each."""
    for name in [name for name in os.environ if name.startswith("WANDB")]:
        del os.environ[name]
    os.environ["NETRC"] = os.devnull
    for run in RUNS:
        train([run], folder / "off", device="cpu")
    print("fault | records equal | s waited for W&B | lines | sync, twice", flush=True)
    for name, options in CASES.items():
        if not wanted or name in wanted:
            print(f"{name} | {case(folder, name, options)}", flush=True)


def case(folder: Path, name: str, options: dict[str, Any]) -> str:
    """One fault: the cells of its line."""
    study = folder / "".join(c if c.isalnum() else "-" for c in name)
    with WandbServer(fault=options.get("fault", "none"), after=options.get("after", 0)) as server:
        if options.get("dead"):
            server.die()
        os.environ |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": options.get("key", server.key)}
        if not os.environ["WANDB_API_KEY"]:
            del os.environ["WANDB_API_KEY"]
        with surroundings(study, options):
            waited, said = sweep(study, options.get("mode", "online"))
        leaks = mirrored.holds(study, server.key) or any(server.key in line for line in said)
        time.sleep(1)
        left = processes()
    equal = all(tiny.results(folder / "off" / run.name) == tiny.results(study / run.name) for run in RUNS)
    with WandbServer() as healthy:
        os.environ |= healthy.env()
        done = [sync(study, Tracking("online"), lambda name: None) for _ in range(2)]
        for run in RUNS:
            mirrored.check(healthy, study / run.name)
    counts = "; ".join(f"{len(each.sent)} sent, {len(each.complete)} complete" for each in done)
    cells = [str(equal), f"{waited:.1f}", " // ".join(said).replace(str(folder), ""), counts]
    return " | ".join([*cells, *(["KEY LEAKED"] if leaks else []), *([f"LEFT: {left}"] if left else [])])


def sweep(study: Path, mode: str) -> tuple[float, list[str]]:
    """Train the runs one after the other. Returns the seconds that the end waits for W&B, and what the user sees."""
    said: list[str] = []
    mirrored.write_plan(study, RUNS)
    with Mirror(Tracking(mode), study, said.append) as mirror:
        for run in RUNS:
            mirror.follow(run.name)
            train([run], study, device="cpu", on_row=lambda job, row: time.sleep(0.3))
        end = time.monotonic()
    return time.monotonic() - end, said


@contextmanager
def surroundings(study: Path, options: dict[str, Any]) -> Iterator[None]:
    """What is wrong on this machine during the sweep."""
    study.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    if options.get("full"):
        (study / "wandb").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", study / "wandb"], check=True)
    if options.get("header"):
        broken = study / "wandb" / "offline-run-20260101_000000-x" / "run-x.wandb"
        broken.parent.mkdir(parents=True)
        broken.write_bytes(b":W&B\xe1\xbe\x00")
    if options.get("kill"):
        threading.Thread(target=kill_core, args=(study, stop), daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        if options.get("full"):
            subprocess.run(["umount", study / "wandb"], check=True)


def kill_core(study: Path, stop: threading.Event) -> None:
    """Kill wandb's own process once, when two runs have ended."""
    while not stop.wait(0.2):
        if len(list(study.glob("*/summary.json"))) >= 2:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                if b"bin/wandb-core" in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    return


def processes() -> list[str]:
    """The processes of the mirror and of wandb that are still there."""
    listed = subprocess.run(["ps", "ax", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line[:80] for line in listed.splitlines() if "/wandb-core" in line or "tracking.send" in line]


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    shutil.rmtree(target, ignore_errors=True)
    main(target, sys.argv[2:])
