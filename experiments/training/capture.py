"""A training step as a CUDA graph: captured once, then replayed, so that one call launches all its operations."""

import gc
from collections.abc import Callable

import torch

from experiments.errors import say
from experiments.memory import is_out_of_memory

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
            if error.__context__ and is_out_of_memory(error.__context__):
                raise error.__context__ from None  # the end of the capture raises an error of its own
            if is_out_of_memory(error):
                raise
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
