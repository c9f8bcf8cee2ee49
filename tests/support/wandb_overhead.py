"""Measure what tracking costs: python tests/support/wandb_overhead.py FOLDER TURNS EPOCHS... It needs Linux.

For each number of epochs it trains the preset digits with tracking off, online and offline, TURNS times, each time in another
order. Let nothing else run. A line for each length gives the median seconds without tracking, and the median of the ratios
within a turn: wall-clock time of the training, which a user waits for, and CPU time of the training process. The CPU seconds
of the processes for W&B, which run beside it, are the last figure.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from wandb_server import WandbServer

from experiments.config import override
from experiments.presets import preset
from experiments.runs.run import train
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.settings import Tracking
from experiments.study import RunSpec

TICK = os.sysconf("SC_CLK_TCK")
MODES = ("off", "online", "offline")


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


def measure(folder: Path, mode: Any, epochs: int) -> tuple[float, float, float]:
    """Wall-clock and CPU seconds of training a run, and the CPU seconds of the processes for W&B up to its end."""
    run = RunSpec.of("s0", override(preset("digits"), {"train.epochs": epochs}), "v")
    with Mirror(Tracking(mode), folder, lambda line: None) as mirror:
        mirror.follow(run.name)
        begin, begin_cpu = time.monotonic(), time.process_time()
        train([run], folder, device="cpu")
        wall, spent = time.monotonic() - begin, time.process_time() - begin_cpu
        if mirror.process is None:
            return wall, spent, 0.0
        time.sleep(5)  # for what it sends at the end of the run
        return wall, spent, cpu(mirror.process.pid)


def main(folder: Path, turns: int, lengths: list[int]) -> None:
    """Measure in turns, and print a line for each length and mode."""
    measure(folder / "warm", "online", 2)
    for epochs in lengths:
        found = [
            {
                mode: measure(folder / f"{mode}-{epochs}-{turn}", mode, epochs)
                for mode in (*MODES[turn % 3 :], *MODES[: turn % 3])
            }
            for turn in range(turns)
        ]
        alone = statistics.median(turn["off"][0] for turn in found)
        print(f"{epochs} epochs: {alone:.1f} s without tracking", flush=True)
        for mode in MODES[1:]:
            wall, spent = (statistics.median(turn[mode][i] / turn["off"][i] for turn in found) for i in (0, 1))
            beside = statistics.median(turn[mode][2] for turn in found)
            print(
                f"  {mode}: wall-clock {wall - 1:+.1%}, CPU of training {spent - 1:+.1%}; processes for W&B {beside:.1f} s CPU"
            )


if __name__ == "__main__":
    with WandbServer() as server:
        os.environ |= server.env()
        main(Path(sys.argv[1]), int(sys.argv[2]), [int(each) for each in sys.argv[3:]])
