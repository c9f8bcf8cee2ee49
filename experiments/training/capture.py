"""A training step as a CUDA graph: captured once, then replayed, so that one call launches all its operations."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

WARM_UP = 3  # steps before the capture. They create gradients, optimiser state and compiled kernels.

Step = Callable[[], None]


def captured(step: Step, device: torch.device, mode: str) -> Step:
    """The step as a CUDA graph on a GPU; elsewhere, and where `train.compile` makes graphs itself, the step as it is."""
    return CapturedStep(step, device) if device.type == "cuda" and mode != "reduce-overhead" else step


class CapturedStep:
    """A step without arguments on a GPU. The first calls run it one operation at a time; later calls replay its graph.

    The step must read all that changes from tensors whose address stays the same. If it cannot be captured, that is
    reported in one line on stderr, and all calls run it one operation at a time.
    """

    def __init__(self, step: Step, device: torch.device) -> None:
        self._step, self._device, self._calls = step, device, 0
        self._replay: Step | None = None
        self._stream = side_stream(device)

    def __call__(self) -> None:
        self._calls += 1
        if self._calls == WARM_UP + 1:
            self._replay = self._capture()
        if self._replay is not None:
            self._replay()
        elif self._calls <= WARM_UP:
            run_on(self._stream, self._step, self._device)
        else:
            self._step()

    def _capture(self) -> Step | None:
        try:
            return record(self._step, self._stream, self._device)
        except RuntimeError as error:  # PyTorch's errors of CUDA and of the capture are RuntimeErrors
            reason = " ".join(str(error).split())[:200]
            print(f"CUDA graph: not used, training is slower without it ({reason})", file=sys.stderr, flush=True)
            return None


def side_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream of the device that is not the default one: a capture needs that, for its warm-up too."""
    return torch.cuda.Stream(device)


def run_on(stream: torch.cuda.Stream, step: Step, device: torch.device) -> None:
    """Run a step on another stream, after all work of the current stream and before what follows."""
    current = torch.cuda.current_stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        step()
    current.wait_stream(stream)


def record(step: Step, stream: torch.cuda.Stream, device: torch.device) -> Step:
    """Capture a step, without running it, and return the function that replays it. Raises `RuntimeError`.

    Other threads may allocate memory meanwhile (`thread_local`), such as the one that prepares the next epoch.
    """
    with torch.cuda.device(device):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            step()
    return graph.replay
