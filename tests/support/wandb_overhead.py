"""Measure the CPU time of tracking: python tests/support/wandb_overhead.py FOLDER [online|offline]. It needs Linux.

It trains N runs of 30 epochs of the preset digits, one after the other, and prints the CPU seconds of the process for W&B and
of wandb's own, and of the training process with and without tracking. CPU time does not depend on what else runs.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from wandb_server import WandbServer

from experiments.config import override
from experiments.presets import preset
from experiments.runs.run import train
from experiments.runs.spec import RunSpec
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.settings import Tracking

TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """The CPU seconds of a process and its children, as far as they live."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = path.read_text().rpartition(")")[2].split()
        if int(path.parent.name) == pid:
            total += (int(fields[11]) + int(fields[12])) / TICK
        elif fields[1] == str(pid):
            total += cpu(int(path.parent.name))
    return total


def measure(folder: Path, mode: Any, seeds: range) -> tuple[float, float]:
    """CPU seconds of training these seeds, and of the processes for W&B."""
    tracking, spent = Tracking(mode, folder.name), 0.0
    with Mirror(tracking, folder, lambda line: None) as mirror:
        for seed in seeds:
            run = RunSpec(f"s{seed}", override(preset("digits"), {"seed": seed, "data.train_limit": 200}), "v")
            begin = time.process_time()
            train([run], folder, device="cpu", tracking=tracking)
            spent += time.process_time() - begin
        if mirror.child is None:
            return spent, 0.0
        end = time.monotonic() + 60
        marks = folder / "wandb" / "sent"
        while len(list(marks.glob("*.json"))) < len(seeds) and time.monotonic() < end and mode == "online":
            time.sleep(0.5)
        time.sleep(5 if mode == "offline" else 0)
        return spent, cpu(mirror.child.pid)


if __name__ == "__main__":
    target, given = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "online"
    with WandbServer() as server:
        os.environ |= server.env()
        measure(target / "warm", "off", range(1))
        for number in (1, 2, 5):
            off, _ = measure(target / f"off{number}", "off", range(number))
            on, mirrored = measure(target / f"{given}{number}", given, range(number))
            print(
                f"{number} runs {given}: training {off:.2f} s without, {on:.2f} s with; W&B {mirrored:.2f} s",
                flush=True,
            )
