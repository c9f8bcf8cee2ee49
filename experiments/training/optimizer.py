"""The optimiser of a trainer: torch's fused AdamW, Adam or SGD, called as functions, and its learning rates.

torch's optimiser classes import `torch._dynamo` when they are made: 1.2 s of CPU time for each worker (torch 2.14). The
functions do not.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from experiments.config import RunConfig

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults for Adam and AdamW


class Optimizer:
    """Updates the parameters of a run, or of a stack of runs. Those in `exempt` have no weight decay.

    `last_rate`: the learning rate of the last step of the epoch. `state` has torch's layout: parameter -> field ->
    tensor, with fields `step`, `exp_avg` and `exp_avg_sq`, or `momentum_buffer`.
    """

    def __init__(self, params: Mapping[str, Tensor], exempt: set[str], config: RunConfig) -> None:
        self.config, self.optim, self.named = config, config.optim, dict(params)
        self.last_rate = 0.0
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.groups = [  # (parameters, weight decay)
            ([p for name, p in params.items() if name not in exempt], self.optim.weight_decay),
            ([p for name, p in params.items() if name in exempt], 0.0),
        ]
        device = next(iter(params.values())).device
        # The fused CUDA kernels read a rate in float32, at the same address in each replay of a CUDA graph.
        self._rate = torch.zeros((), dtype=torch.float32 if device.type == "cuda" else torch.float64, device=device)
        self._rates = torch.zeros(1, dtype=torch.float64, device=device)  # of each step of the epoch

    def start_epoch(self, epoch: int, steps: int) -> None:
        """Copy the learning rates of an epoch (from 0) with so many steps to the device, without waiting for it."""
        rates = [learning_rate(self.config, epoch * steps + step, steps) for step in range(steps)]
        if len(self._rates) != steps:
            self._rates = torch.zeros(steps, dtype=torch.float64, device=self._rates.device)
        self._rates.copy_(torch.tensor(rates, dtype=torch.float64), non_blocking=True)
        self.last_rate = rates[-1]

    def step(self, number: Tensor) -> None:
        """Update the parameters that have a gradient, without waiting. number: [1], int64, of the step in its epoch."""
        self._rate.copy_(self._rates.index_select(0, number)[0])
        update = self._sgd if self.optim.name == "sgd" else self._adam
        with torch.no_grad():
            for group, weight_decay in self.groups:
                if params := [p for p in group if p.grad is not None]:
                    gradients = [p.grad for p in params if p.grad is not None]
                    update(params, gradients, lr=self._rate, weight_decay=weight_decay, fused=True, maximize=False)

    def _adam(self, params: list[Tensor], gradients: list[Tensor], **options: Any) -> None:
        means, squares, steps = ([self._field(p, name) for p in params] for name in ("exp_avg", "exp_avg_sq", "step"))
        options |= {"decoupled_weight_decay": self.optim.name == "adamw", "amsgrad": False}
        adam(params, gradients, means, squares, [], steps, beta1=BETA1, beta2=BETA2, eps=EPSILON, **options)

    def _sgd(self, params: list[Tensor], gradients: list[Tensor], **options: Any) -> None:
        buffers: list[Tensor | None] = [self.state[p].get("momentum_buffer") for p in params]
        sgd(params, gradients, buffers, momentum=self.optim.momentum, dampening=0.0, nesterov=False, **options)
        for p, buffer in zip(params, buffers, strict=True):
            if buffer is not None:
                self.state[p]["momentum_buffer"] = buffer

    def _field(self, p: Tensor, field: str) -> Tensor:
        """A field of a parameter's state, zero at first. The number of its steps is a scalar."""
        state = self.state[p]
        if field not in state:
            state[field] = torch.zeros((), device=p.device) if field == "step" else torch.zeros_like(p)
        return state[field]

    def tensors(self) -> dict[str, Tensor]:
        """The state: `optim/FIELD/PARAMETER` -> tensor."""
        return {
            f"optim/{field}/{name}": value.detach()
            for name, p in self.named.items()
            for field, value in self.state[p].items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned; names that do not start with `optim/` are left out."""
        for key, value in tensors.items():
            kind, _, rest = key.partition("/")
            if kind == "optim":
                field, _, name = rest.partition("/")
                self.state[self.named[name]][field] = value.to(self._rate.device).clone()


def learning_rate(config: RunConfig, step: int, steps_per_epoch: int) -> float:
    """Learning rate of a step (from 0): constant, or linear warm-up, then half a cosine (Loshchilov & Hutter, 2017)."""
    optim, total = config.optim, config.train.epochs * steps_per_epoch
    if optim.schedule == "constant":
        return optim.lr
    warmup = round(optim.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return optim.lr * (step + 1) / warmup
    share = (optim.lr - optim.min_lr) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(total - warmup, 1)))
    return optim.min_lr + share
