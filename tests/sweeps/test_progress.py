"""What a sweep shows on a terminal."""

import io
import re

import pytest
from rich.console import Console
from stubbed import tiny_plan

from sweeps import progress
from sweeps.progress import ProgressDisplay


class Screen:
    """A terminal that shows the progress of six runs of three epochs."""

    def __init__(self, monkeypatch):
        self.runs = {(run.variant, run.seed): run for run in tiny_plan().runs}
        console = Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)
        monkeypatch.setattr(progress, "Console", lambda **_: console)
        self.display = ProgressDisplay("tiny", 6)

    def begin(self, worker, variant, *seeds, epoch=0):
        self.display.begin(worker, [self.runs[variant, seed] for seed in seeds], epoch)

    def row(self, worker, epoch, accuracy=0.5):
        self.display.row(worker, {"epoch": epoch, "val/acc": accuracy})

    def lines(self):
        """The line of the whole sweep and those of the workers, without their bars and times."""
        paper = Console(file=io.StringIO(), record=True, width=100)
        paper.print(self.display.progress.get_renderable())
        lines = re.sub("[━╸╺]|[-0-9]+:[-0-9:]+", "", paper.export_text()).splitlines()
        return [" ".join(line.split()) for line in lines]


@pytest.fixture
def screen(monkeypatch):
    return Screen(monkeypatch)


def test_a_terminal_has_a_line_for_each_worker_and_one_for_all_runs(screen):
    screen.begin("A", "logits", 0)
    screen.begin("B", "softmax", 0, 1, 2)
    assert screen.lines() == ["tiny 0/6", "logits, seed 0 0/3", "softmax, 3 seeds 0/3"]
    screen.row("A", 1, 0.25)
    screen.row("A", 2, 0.5)
    assert screen.lines() == ["tiny 0/6", "logits, seed 0 2/3 val/acc 50.0 %", "softmax, 3 seeds 0/3"]
    screen.begin("A", "logits", 1)
    screen.begin("B", "softmax")
    assert screen.lines()[1:] == ["logits, seed 1 0/3"]


def test_runs_that_have_ended_count_and_a_resumed_one_begins_after_its_last_epoch(screen):
    screen.display.skip([screen.runs["softmax", 1]])
    screen.begin("A", "logits", 0, epoch=1)
    assert screen.lines() == ["tiny 1/6", "logits, seed 0 1/3"]
    screen.display.ended(screen.runs["logits", 0], "diverged")
    screen.display.failed(screen.runs["logits", 1], "boom")
    screen.display.failed(screen.runs["logits", 1], "boom", given_up=True)
    assert screen.lines()[0] == "tiny 3/6"
