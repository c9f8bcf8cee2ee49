"""What a sweep shows on a terminal."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console
from stubbed import tiny_plan

from sweeps import progress
from sweeps.progress import ProgressDisplay


class Screen:
    """A terminal that shows the progress of six runs of three epochs. `seconds`: what the clock says."""

    def __init__(self, monkeypatch):
        self.seconds = 100.0
        self.runs = {(run.variant, run.seed): run for run in tiny_plan().runs}
        console = Console(file=io.StringIO(), force_terminal=True)
        monkeypatch.setattr(progress, "Console", lambda **_: console)
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        self.display = ProgressDisplay("tiny", self.runs.values())

    def begin(self, worker, variant, *seeds, epoch=0):
        self.display.begin(worker, [self.runs[variant, seed] for seed in seeds], epoch)

    def row(self, worker, variant, seed, epoch, accuracy):
        self.display.row(worker, self.runs[variant, seed], {"epoch": epoch, "val/acc": accuracy})

    def lines(self):
        """The lines below the one of the whole sweep, without their bars."""
        paper = Console(file=io.StringIO(), record=True, width=100)
        paper.print(self.display.progress.get_renderable())
        _, *lines = paper.export_text().replace("━", "").replace("╸", "").splitlines()
        return [" ".join(line.split()) for line in lines]


@pytest.fixture
def screen(monkeypatch):
    return Screen(monkeypatch)


def test_a_terminal_has_a_line_for_each_worker(screen):
    screen.begin("A", "logits", 0)
    screen.begin("B", "softmax", 2)
    assert screen.lines() == ["logits, seed 0 epoch 0/3", "softmax, seed 2 epoch 0/3"]
    screen.row("A", "logits", 0, 1, 0.25)
    assert screen.lines() == ["logits, seed 0 epoch 1/3, val/acc 25.0 %", "softmax, seed 2 epoch 0/3"]
    screen.seconds += 40
    screen.row("A", "logits", 0, 2, 0.5)
    assert screen.lines()[0] == "logits, seed 0 epoch 2/3, val/acc 50.0 %, about 40 s left"
    screen.begin("A", "logits", 1)
    screen.begin("B", "softmax")
    assert screen.lines() == ["logits, seed 1 epoch 0/3"]


def test_the_time_left_of_a_resumed_run_is_at_the_pace_since_its_resumption(screen):
    screen.begin("A", "logits", 0, epoch=1)
    whole = screen.display.progress.tasks[0]
    assert screen.lines() == ["logits, seed 0 epoch 1/3"] and (whole.completed, whole.total) == (1, 18)
    screen.seconds += 500
    screen.row("A", "logits", 0, 2, 0.5)
    assert screen.lines() == ["logits, seed 0 epoch 2/3, val/acc 50.0 %"]


def test_a_cohort_is_one_line(screen):
    screen.begin("A", "logits", 0, 1, 2)
    for epoch in (1, 2):
        screen.seconds += 60
        for seed in (0, 1, 2):
            screen.row("A", "logits", seed, epoch, 0.1 * epoch + 0.01 * seed)
    assert screen.lines() == ["logits, 3 seeds epoch 2/3, val/acc 22.0 % (seed 2), about 60 s left"]
