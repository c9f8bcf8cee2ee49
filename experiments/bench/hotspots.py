"""Where the time of our training goes, as torch's profiler sees it. No measurement: profiling costs time itself."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiler

from experiments.bench.contenders import Ours
from experiments.bench.measure import Plan, cifar_images, entries

ROWS = 20


def profile(plan: Plan, root: Path | None) -> str:
    """The operations that take most of a bare step, and of an epoch with data: our first entry's, in this process."""
    entry, device = entries(plan)[0], torch.device(plan.device)
    torch.set_num_threads(entry.threads)
    contender = Ours(entry, cifar_images(plan, root).to(device), device, 0)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * plan.on_gpu
    order = "self_device_time_total" if plan.on_gpu else "self_cpu_time_total"
    parts = []
    for title, task in (("bare step", contender.steps), ("epoch with data", contender.epochs)):
        task(1)
        with profiler(activities=activities) as seen:
            images, seconds = task(1)
        table = seen.key_averages().table(sort_by=order, row_limit=ROWS, max_name_column_width=50)
        parts.append(f"{entry.name}, {title}: {images / seconds:.0f} images/s under the profiler\n{table}")
    return "\n".join(parts)
