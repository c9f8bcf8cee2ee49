"""Optimisers over stacked parameters for runs with different learning rates or weight decays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from experiments.config import OptimConfig

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults for Adam and AdamW


class StackedOptimizer:
    """AdamW, Adam or SGD over parameters [R, ...], with a learning rate and a weight decay per run.

    It computes what torch's optimiser computes for each run, up to rounding, with one update for all runs. `state` has
    torch's layout: parameter -> field -> tensor, with fields `step`, `exp_avg` and `exp_avg_sq`, or `momentum_buffer`.
    """

    def __init__(self, params: Mapping[str, Tensor], exempt: set[str], optims: Sequence[OptimConfig]) -> None:
        self.name, self.momentum = optims[0].name, optims[0].momentum
        self.params = list(params.values())
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self._decays = [optim.weight_decay for optim in optims]
        self._decayed = {p for name, p in params.items() if name not in exempt} if any(self._decays) else set()
        self._rates: tuple[float, ...] = ()
        self.set_learning_rates([optim.lr for optim in optims])

    def set_learning_rates(self, lrs: Sequence[float]) -> None:
        """Set the learning rate of each run. It is copied to the device without waiting for it."""
        if tuple(lrs) == self._rates:
            return
        self._rates, first = tuple(lrs), self.params[0]
        decays = [1 - lr * decay for lr, decay in zip(lrs, self._decays, strict=True)]
        table = torch.tensor([[-lr for lr in lrs], self._decays, decays], dtype=first.dtype)
        table = table.pin_memory().to(first.device, non_blocking=True) if first.is_cuda else table
        self._negative_lr, self._decay, self._shrink = table.unbind(0)  # each [R]

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters that have a gradient."""
        params = [p for p in self.params if p.grad is not None]
        grads = [p.grad for p in params if p.grad is not None]
        if self.name == "adamw":
            for p in params:
                if p in self._decayed:
                    p.mul_(_per_run(self._shrink, p))
        else:
            grads = [
                g.addcmul(p, _per_run(self._decay, p)) if p in self._decayed else g
                for p, g in zip(params, grads, strict=True)
            ]
        updates = self._sgd(params, grads) if self.name == "sgd" else self._adam(params, grads)
        for p, update in zip(params, updates, strict=True):
            p.addcmul_(update, _per_run(self._negative_lr, p))

    def _sgd(self, params: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        """Momentum as in `torch.optim.SGD`. Returns the update of each parameter, before the learning rate."""
        if not self.momentum:
            return grads
        buffers = [self._moment(p, "momentum_buffer") for p in params]
        torch._foreach_mul_(buffers, self.momentum)
        torch._foreach_add_(buffers, grads)
        return buffers

    def _adam(self, params: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        """Moments as in `torch.optim.Adam`. Returns the update of each parameter, before the learning rate."""
        steps = [self.state[p].setdefault("step", torch.zeros(())) for p in params]  # on the CPU
        torch._foreach_add_(steps, 1)
        step = float(steps[0])  # all parameters are at the same step
        means, squares = ([self._moment(p, field) for p in params] for field in ("exp_avg", "exp_avg_sq"))
        torch._foreach_lerp_(means, grads, 1 - BETA1)
        torch._foreach_mul_(squares, BETA2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - BETA2)
        scales = torch._foreach_sqrt(squares)
        torch._foreach_div_(scales, (1 - BETA2**step) ** 0.5)
        torch._foreach_add_(scales, EPSILON)
        torch._foreach_mul_(scales, 1 - BETA1**step)
        return list(torch._foreach_div(means, scales))

    def _moment(self, p: Tensor, field: str) -> Tensor:
        state = self.state[p]
        if field not in state:
            state[field] = torch.zeros_like(p)
        return state[field]

    def load(self, p: Tensor, field: str, value: Tensor) -> None:
        """Set a field of a parameter's state."""
        self.state[p][field] = value.clone() if field == "step" else value.to(p.device).clone()


def _per_run(values: Tensor, p: Tensor) -> Tensor:
    """Values [R] in a shape that broadcasts over p [R, ...]."""
    return values.view(-1, *[1] * (p.ndim - 1))
