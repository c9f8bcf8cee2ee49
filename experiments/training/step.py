"""The training step of a trainer as a function without arguments, and on a GPU as a CUDA graph: captured once, then
replayed, so that one call launches all its operations. All that the step reads and adds up is on the device.
"""

import gc
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from experiments.config import RunConfig
from experiments.data import augment
from experiments.data.augment import mix
from experiments.data.images import Splits, StreamedPixels
from experiments.data.policies import augmented, policy_of
from experiments.errors import say
from experiments.training.tables import STEPWISE, EpochTables
from experiments.training.trainer import DTYPES, IGNORED, Labels, MixedLabels, Trainer, static_shape

TOGETHER = 2**14  # images that a policy changes at once: its many operations take hardly longer for many than for few


class DeviceStep:
    """The steps of an epoch: batch, augmentation, forward, backward and update of all runs of a trainer.

    The tables of the epoch, the number of the step and the sums of losses and hits are tensors on the device
    with a fixed address. On a GPU the step becomes a CUDA graph, unless `capture` is False.
    """

    def __init__(self, trainer: Trainer, splits: Splits, capture: bool = True) -> None:
        self.trainer, self.splits, self.device = trainer, splits, trainer.device
        self.config: RunConfig = trainer.configs[0]
        n = len(splits.train)
        self.size = min(self.config.train.batch_size, n)
        self.steps = math.ceil(n / self.size)
        self.last = n - (self.steps - 1) * self.size  # images of the last step, without padding
        runs = len(trainer.configs)
        self.number = torch.zeros(1, dtype=torch.int64, device=self.device)  # of the next step in the epoch
        self.loss, self.hits = (torch.zeros(runs, dtype=torch.float64, device=self.device) for _ in range(2))
        self.counts = torch.full((self.steps,), self.size, device=self.device)
        self.counts[-1] = self.last
        pixels = splits.train.x
        # whether the pixels of a step come from outside of it
        self._prepared = isinstance(pixels, StreamedPixels) or policy_of(self.config.data) is not None
        shape = (runs, self.size, *pixels.shape[1:]) if self._prepared else (0,)
        self._pixels = torch.empty(shape, dtype=torch.uint8, device=self.device)  # of the step, if they are prepared
        self._tables: dict[str, Tensor] = {}
        self._uploading: EpochTables | None = None
        self._launch = launcher(self.device) if capture else None

    def run_epoch(self, tables: EpochTables) -> tuple[Tensor, Tensor]:
        """Do all steps of an epoch. Returns the sums over its images of losses and of hits, [R] each, float64."""
        self._load(tables)
        batches = self._batches(tables) if self._prepared else None
        whole = self.steps if static_shape(self.config, self.device) else self.steps - 1
        for number in range(self.steps):
            if batches is not None:
                self._pixels.copy_(next(batches), non_blocking=True)
            if number < whole and self._launch:
                self._launch(partial(self._run, self.size))
            else:
                self._run(self.size if number < whole else self.last)
        self.trainer.captured = self._launch.captured if self._launch else None
        return self.loss, self.hits

    def _batches(self, tables: EpochTables) -> Iterator[Tensor]:
        """The pixels [R, B, C, S, S] of each step: streamed, after an augmentation policy, or both."""
        x = self.splits.train.x
        if isinstance(x, StreamedPixels):
            steps, parts = 1, x.batches(tables.numbers["order"].split(1))
        else:
            steps = max(1, TOGETHER // tables.numbers["order"][0].numel())
            parts = (x[index] for index in self._tables["order"].split(steps))
        if (policy := policy_of(self.config.data)) is None:
            return chain.from_iterable(parts)
        operations = tables.numbers["operations"].split(steps)
        return chain.from_iterable(map(partial(augmented, policy), parts, operations))

    def _load(self, tables: EpochTables) -> None:
        """Copy the tables of an epoch to the device, without waiting for it, and start from zero."""
        hosted = {name: table for name, table in tables.numbers.items() if name != "operations"}
        uploaded = {name: table.to(self.device, non_blocking=True) for name, table in hosted.items()}
        uploaded["labels"] = self.splits.train.y[uploaded["order"]]  # [steps, R, B]
        uploaded["labels"][-1, :, self.last :] = IGNORED
        data, size = self.config.data, self.splits.train.x.shape[-1]
        if "draws" in uploaded:
            boxes = partial(augment.boxes, size=size, **data.model_dump(include={"hflip", "crop_padding", "rrc_scale"}))
            uploaded["draws"] = _run_by_run(boxes, uploaded["draws"])
        if "erasing" in uploaded:
            boxes = partial(augment.erased_boxes, size=size, probability=data.random_erasing)
            uploaded["erasing"] = _run_by_run(boxes, uploaded["erasing"])
        for name, table in uploaded.items():
            if name not in self._tables:
                self._tables[name] = torch.empty_like(table)
            self._tables[name].copy_(table, non_blocking=True)
        self.trainer.optimizer.start_epoch(tables.epoch, self.steps)
        self._uploading = tables  # kept in memory until the copies are done
        for tensor in (self.number, self.loss, self.hits):
            tensor.zero_()

    def _run(self, size: int) -> None:
        """One step with `size` images a run. Its only inputs are tensors on the device."""
        now = {name: table.index_select(0, self.number)[0] for name, table in self._tables.items()}
        of_images = {name: table[:, :size] for name, table in now.items() if name not in STEPWISE}
        count = self.counts.index_select(0, self.number)
        pixels = self._pixels[:, :size] if self._prepared else self.splits.train.x[of_images["order"]]
        x = model_input(self.splits, self.config, pixels, of_images.get("draws"), of_images.get("erasing"))
        y = of_images["labels"]
        targets: Labels = y
        if "mixes" in now:
            x, *others = mix(x, y, now["mixes"], count)
            targets = MixedLabels(y, *others)
        loss, hits = self.trainer.train_step(x, targets, now["keys"], self.number)
        self.loss += loss * count
        self.hits += hits
        self.number += 1


def _run_by_run(boxes: Callable[[Tensor], Tensor], draws: Tensor) -> Tensor:
    """The boxes [steps, R, B, ...] of random numbers [steps, R, B, ...], run by run to save memory."""
    return torch.stack([boxes(of_run) for of_run in draws.unbind(1)], 1)


def model_input(
    splits: Splits, config: RunConfig, pixels: Tensor, boxes: Tensor | None, erased: Tensor | None = None
) -> Tensor:
    """These pixels [R, B, C, S, S], uint8, augmented by these boxes [R, B, 5], normalized, and 0 in those [R, B, 4]."""
    x = splits.scaled(pixels, DTYPES[config.train.precision])
    if boxes is not None:
        x = augment.apply(x, augment.matrices(boxes, x.shape[-1], pad=bool(config.data.crop_padding)))
    x = splits.normalized(x)
    return x if erased is None else x.masked_fill(augment.inside(erased, x.shape[-1])[..., None, :, :], 0.0)


WARM_UP = 3  # steps before the capture. They create gradients, optimiser state and compiled kernels.

Step = Callable[[], None]


class CapturedStep:
    """Runs a step on a GPU: the first calls one operation at a time, later calls by a replay of its graph.

    The step must be the same at each call and read all that changes from tensors whose address stays the same. It is
    not stored, so that a trainer is freed as soon as nobody uses it. A step that cannot be captured is reported in one
    line on stderr, and all calls run it one operation at a time. `captured`: whether the graph is used; None before the
    capture.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._calls = device, 0
        self._replay: Step | None = None
        self._stream = torch.cuda.Stream(device)  # a capture needs one that is not the default one, for its warm-up too
        self.captured: bool | None = None

    def __call__(self, step: Step) -> None:
        self._calls += 1
        if self._calls == WARM_UP + 1:
            self._replay = self._capture(step)
            self.captured = self._replay is not None
        if self._replay is not None:
            self._replay()
        elif self._calls <= WARM_UP:
            run_on(self._stream, step, self._device)
        else:
            step()

    def _capture(self, step: Step) -> Step | None:
        try:
            return record(step, self._stream, self._device)
        except RuntimeError as error:  # PyTorch's errors of CUDA and of the capture are RuntimeErrors
            reason = " ".join(str(error).split())[:200]
            say(f"CUDA graph: not used, training is slower without it ({reason})", error=True)
            return None


def launcher(device: torch.device) -> CapturedStep | None:
    """How to run the steps of a trainer: as a CUDA graph on a GPU; None for one operation at a time."""
    return CapturedStep(device) if device.type == "cuda" else None


def run_on(stream: torch.cuda.Stream, step: Step, device: torch.device) -> None:
    """Run a step on another stream, after all work of the current stream and before what follows."""
    current = torch.cuda.current_stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        step()
    current.wait_stream(stream)


def record(step: Step, stream: torch.cuda.Stream, device: torch.device) -> Step:
    """Capture a step, without running it, and return the function that replays it. Raises `RuntimeError`.

    Other threads may allocate memory meanwhile (`thread_local`), such as the one that prepares the next epoch. Python
    collects no garbage meanwhile: freeing an older graph would break the capture.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.device(device):
            graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
            try:
                with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                    step()
            finally:
                torch.cuda.set_stream(before)  # a capture that fails at its end leaves its own stream current
    finally:
        if collects:
            gc.enable()
    return graph.replay
