"""What a sweep shows on a terminal."""

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console
from stubbed import tiny_plan

from sweeps import progress
from sweeps.progress import ProgressDisplay


class Screen:
    """A terminal that shows the progress of six runs of three epochs. `seconds`: what the clock says."""

    def __init__(self, monkeypatch):
        self.seconds, self.out = 100.0, io.StringIO()
        self.runs = {(run.variant, run.seed): run for run in tiny_plan().runs}
        console = Console(file=self.out, force_terminal=True, width=100, highlight=False)
        monkeypatch.setattr(progress, "Console", lambda **_: console)
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        self.display = ProgressDisplay("tiny", [3] * 6)

    def begin(self, worker, variant, *seeds, epoch=0):
        self.display.begin(worker, [self.runs[variant, seed] for seed in seeds], epoch)

    def row(self, worker, variant, seed, epoch, accuracy=0.5):
        self.seconds += 40
        self.display.row(worker, self.runs[variant, seed], {"epoch": epoch, "val/acc": accuracy})

    def lines(self):
        """The line of the whole sweep and those of the workers, without their bars."""
        paper = Console(file=io.StringIO(), record=True, width=100)
        paper.print(self.display.progress.get_renderable())
        lines = re.sub("[━╸╺]", "", paper.export_text()).splitlines()
        return [" ".join(line.split()) for line in lines]


@pytest.fixture
def screen(monkeypatch):
    return Screen(monkeypatch)


def test_a_terminal_has_a_line_for_each_worker_and_one_for_all_epochs(screen):
    screen.begin("A", "logits", 0)
    screen.begin("B", "softmax", 2)
    assert screen.lines() == ["tiny 0/18", "logits, seed 0 0/3", "softmax, seed 2 0/3"]
    screen.row("A", "logits", 0, 1, 0.25)
    screen.row("A", "logits", 0, 2, 0.5)
    left = "about 10.7 min left"  # 16 epochs of 40 s
    assert screen.lines() == [f"tiny 2/18 {left}", "logits, seed 0 2/3 val/acc 50.0 %", "softmax, seed 2 0/3"]
    screen.begin("A", "logits", 1)
    screen.begin("B", "softmax")
    assert screen.lines()[1:] == ["logits, seed 1 0/3"]


def test_epochs_that_need_no_training_do_not_count_for_the_time_left(screen):
    screen.display.skip([screen.runs["softmax", 1]])
    screen.begin("A", "logits", 0, epoch=1)
    assert screen.lines()[0] == "tiny 0/14"
    screen.row("A", "logits", 0, 2)
    screen.row("A", "logits", 0, 3)
    assert screen.lines()[0] == "tiny 2/14 about 8 min left"
    screen.display.ended(screen.runs["logits", 0], "finished")
    screen.begin("A", "logits", 1)
    screen.row("A", "logits", 1, 1)
    screen.display.ended(screen.runs["logits", 1], "diverged")
    assert screen.lines()[0] == "tiny 3/12 about 6 min left"
    assert [line for line in screen.out.getvalue().splitlines() if "logits-s" in line] == [
        f"[2/6] {screen.runs['logits', 0].name}: finished, about 8 min left",
        f"[3/6] {screen.runs['logits', 1].name}: diverged, about 6 min left",
    ]


def test_a_cohort_is_one_line(screen):
    screen.begin("A", "logits", 0, 1, 2)
    for epoch in (1, 2):
        for seed in (0, 1, 2):
            screen.row("A", "logits", seed, epoch, 0.1 * epoch + 0.01 * seed)
    assert screen.lines() == ["tiny 6/18 about 8 min left", "logits, 3 seeds 2/3 val/acc 22.0 %"]
