"""What is timed, in one process: our engine, others' models in a plain loop, the tutorials' recipe, records, machine.

Each task is a method that takes how much to do and returns a `Score`. Nothing is compared here, and nothing printed.
"""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.bench.limits import Clock, Machine, Score
from experiments.bench.rivals import MODELS, tutorial_loader
from experiments.config import RunConfig, override
from experiments.data import augment
from experiments.data.images import Splits
from experiments.runs import resume
from experiments.runs.run import train
from experiments.runs.spec import RunSpec
from experiments.runs.tracking import Mode, Tracking
from experiments.training.compile import OFF
from experiments.training.engine import EVAL_BATCH, Solo, autocast, batches
from experiments.training.fit import Row, fit
from experiments.training.stacked import Stacked

LEAD = 4  # batches before and after those that are counted of the tutorials' loader: as many as it loads ahead


@dataclass(frozen=True)
class Entry:
    """A way to train: `processes` alike, each of `threads` threads, each training `runs` runs together.

    `compiled` is a mode of `torch.compile` (`reduce-overhead` is the one with CUDA graphs), or "" for none.
    """

    name: str
    kind: str  # a key of CONTENDERS
    config: RunConfig
    processes: int = 1
    threads: int = 1
    runs: int = 1
    compiled: str = ""


def ready_batch(splits: Splits, size: int) -> tuple[Tensor, Tensor]:
    """A batch as the model sees it: [B, C, S, S], [B]. Images are repeated where there are too few."""
    index = torch.arange(size, device=splits.train.y.device) % len(splits.train)
    return splits.normalized(splits.scaled(splits.train.x[index])), splits.train.y[index]


class Ours:
    """`experiments.fit` and its engine, as a worker of `vit-sweep` uses them."""

    def __init__(self, entry: Entry, splits: Splits, device: torch.device, seat: int) -> None:
        same = {"train.compile": entry.compiled or OFF}
        self.configs = [override(entry.config, {"seed": seat * entry.runs + r, **same}) for r in range(entry.runs)]
        self.engine = (Solo if entry.runs == 1 else Stacked)(self.configs, len(splits.classes), device)
        self.clock, self.splits = Clock(device), splits
        x, y = ready_batch(splits, entry.config.train.batch_size)
        self.batch = x.expand(entry.runs, *x.shape), y.expand(entry.runs, *y.shape)
        self.keys = torch.zeros(entry.runs, dtype=torch.int32, device=device)

    def steps(self, n: int) -> Score:
        """n updates on a batch that lies ready."""
        lrs = [config.optim.lr for config in self.configs]
        with self.clock.running():
            for _ in range(n):
                self.engine.train_step(*self.batch, self.keys, lrs)
        return n * self.batch[1].numel(), self.clock.seconds

    def epochs(self, n: int) -> Score:
        """n epochs, data path and validation included."""
        with self.clock.running():
            for _ in range(n):
                next(fit(self.engine, self.splits))
        return n * len(self.splits.train) * len(self.configs), self.clock.seconds


class Plain:
    """Another's model in a plain loop over our data path: uint8 on the device, augmented batch by batch."""

    def __init__(self, entry: Entry, splits: Splits, device: torch.device, seat: int) -> None:
        torch.manual_seed(seat)
        self.config, self.splits, self.device, self.clock = entry.config, splits, device, Clock(device)
        self.model = MODELS[entry.kind](entry.config.vit_config(len(splits.classes))).to(device)
        optim = entry.config.optim
        best = {"fused": True} if entry.compiled else {}  # whoever compiles would not leave that out
        self.optimizer = torch.optim.AdamW(self.model.parameters(), optim.lr, weight_decay=optim.weight_decay, **best)
        self.forward = torch.compile(self.model, mode=entry.compiled) if entry.compiled else self.model
        self.batch = ready_batch(splits, entry.config.train.batch_size)

    def update(self, x: Tensor, y: Tensor) -> Tensor:
        """One update -> its loss, still on the device."""
        with autocast(self.config, self.device):
            loss = F.cross_entropy(self.forward(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def steps(self, n: int) -> Score:
        """n updates on a batch that lies ready."""
        self.model.train()
        with self.clock.running():
            for _ in range(n):
                self.update(*self.batch)
        return n * len(self.batch[1]), self.clock.seconds

    def epochs(self, n: int) -> Score:
        """n epochs, data path and validation included."""
        with self.clock.running():
            for _ in range(n):
                self._train()
                self._validate()
        return n * len(self.splits.train), self.clock.seconds

    def _train(self) -> float:
        self.model.train()
        images, total = self.splits.train, torch.zeros((), device=self.device)
        order = torch.randperm(len(images), device=self.device)
        for part in batches(len(images), self.config.train.batch_size):
            batch = images.pick(order[part])
            total += self.update(self._augmented(batch.x), batch.y)
        return total.item()

    def _augmented(self, x: Tensor) -> Tensor:
        data, draws = self.config.data, torch.rand(len(x), augment.DRAWS, device=self.device)
        matrices = augment.windows(draws, x.shape[-1], data.hflip, data.crop_padding, data.rrc_scale)
        return self.splits.normalized(augment.apply(self.splits.scaled(x), matrices))

    @torch.no_grad()
    def _validate(self) -> float:
        self.model.eval()
        images, hits = self.splits.val, torch.zeros((), dtype=torch.int64, device=self.device)
        for part in batches(len(images), EVAL_BATCH):
            with autocast(self.config, self.device):
                scores = self.forward(self.splits.normalized(self.splits.scaled(images.x[part])))
            hits += (scores.argmax(-1) == images.y[part]).sum()
        return hits.item() / len(images)


class Tutorial(Plain):
    """The recipe of tintn (2023) and Lodha (2025): images one by one, from two workers; `loss.item()` every step."""

    def __init__(self, entry: Entry, splits: Splits, device: torch.device, seat: int) -> None:
        super().__init__(entry, splits, device, seat)
        self.counted = math.ceil(len(splits.train) / entry.config.train.batch_size)  # batches of an epoch

    def update(self, x: Tensor, y: Tensor) -> Tensor:
        """One update -> its loss, waited for."""
        loss = super().update(x.to(self.device), y.to(self.device))
        loss.item()
        return loss

    def epochs(self, n: int) -> Score:
        """Batches of n epochs from the middle of a longer one, whose start and end would weigh little.

        Workers start by forking, after which the first update takes seconds, for it has all memory copied; and at the
        end nothing is left to load. Validation is left out: its loader, too, would do little but start.
        """
        self.model.train()
        counted, size = n * self.counted, self.config.train.batch_size
        waiting = iter(tutorial_loader(self.splits.train, self.config.data, size, counted + 2 * LEAD))
        for _ in range(LEAD):
            self.update(*next(waiting))
        with self.clock.running():
            for _ in range(counted):
                self.update(*next(waiting))
        return counted * size, self.clock.seconds


class Records:
    """What our epochs leave behind. Work is counted in epochs, seconds are those of the part that a task names."""

    def __init__(self, entry: Entry, splits: Splits, device: torch.device, seat: int) -> None:
        self.config, self.splits, self.device = entry.config, splits, device

    def bare(self, n: int) -> Score:
        """Training and validating alone."""
        engine = Solo([self._config(n)], len(self.splits.classes), self.device)
        ends = [time.perf_counter() for _ in fit(engine, self.splits)]
        return n, ends[-1] - ends[0]

    def recorded(self, n: int) -> Score:
        """Writing each epoch's metrics and state."""
        return self._beside_training(n, "off")

    def tracked(self, n: int) -> Score:
        """Writing them and mirroring them to W&B."""
        return self._beside_training(n, "offline")

    def _beside_training(self, n: int, mode: Mode) -> Score:
        """The seconds of n epochs, less training's own, which the run itself counts. Its start and end are left out."""
        with tempfile.TemporaryDirectory() as folder:
            study, run, ends = Path(folder) / "study", RunSpec("run", self._config(n)), []

            def note(_: int, row: Row) -> None:
                if row["epoch"] in (1, n + 1):
                    before = time.perf_counter()
                    ends.append((before, resume.read_note(study / run.name)["seconds"]["device"], time.perf_counter()))

            train([run], study, device=str(self.device), tracking=Tracking(mode), on_row=note)
        (_, trained, start), (end, trained_in_all, _) = ends
        return n, end - start - (trained_in_all - trained)

    def _config(self, n: int) -> RunConfig:
        return override(self.config, {"train.epochs": n + 1})


CONTENDERS = {
    "ours": Ours,
    "timm": Plain,
    "vit-pytorch": Plain,
    "tutorial": Tutorial,
    "records": Records,
    "machine": Machine,
}
