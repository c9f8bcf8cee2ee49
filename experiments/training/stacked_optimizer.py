"""Optimisers over stacked parameters for runs with different learning rates or weight decays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from experiments.sections import OptimConfig
from experiments.training.optimizer import BETA1, BETA2, EPSILON, Optimizer


class StackedOptimizer(Optimizer):
    """AdamW, Adam or SGD over parameters [R, ...], with a learning rate and a weight decay per run.

    It computes what torch's optimiser computes for each run, up to rounding, with one update for all runs.
    """

    def __init__(self, params: Mapping[str, Tensor], exempt: set[str], optims: Sequence[OptimConfig]) -> None:
        super().__init__(params, exempt, optims)
        decays = [optim.weight_decay for optim in optims]
        self._decayed = {p for name, p in params.items() if name not in exempt} if any(decays) else set()
        device = self._rate.device
        self._step = torch.zeros((), device=device)  # number of steps of all parameters, as torch stores it
        self._decays = torch.tensor(decays, dtype=torch.float64, device=device)  # [R]

    @torch.no_grad()
    def step(self, rates: Tensor) -> None:
        """Update all parameters that have a gradient. rates: [R], float64, learning rates. The host waits for nothing."""
        params = [p for p in self.named.values() if p.grad is not None]
        grads = [p.grad for p in params if p.grad is not None]
        dtype = params[0].dtype
        if self.optim.name == "adamw":
            shrink = (1 - rates * self._decays).to(dtype)
            for p in params:
                if p in self._decayed:
                    p.mul_(_per_run(shrink, p))
        else:
            decays = self._decays.to(dtype)
            grads = [
                g.addcmul(p, _per_run(decays, p)) if p in self._decayed else g
                for p, g in zip(params, grads, strict=True)
            ]
        updates, scale = (self._momentum if self.optim.name == "sgd" else self._moments)(params, grads)
        scale = (-rates * scale).to(dtype)
        for p, update in zip(params, updates, strict=True):
            p.addcmul_(update, _per_run(scale, p))

    def _momentum(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], Tensor | float]:
        """Momentum as in `torch.optim.SGD`. Returns the update of each parameter, and 1."""
        if not self.optim.momentum:
            return grads, 1.0
        buffers = [self._field(p, "momentum_buffer") for p in params]
        torch._foreach_mul_(buffers, self.optim.momentum)
        torch._foreach_add_(buffers, grads)
        return buffers, 1.0

    def _moments(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], Tensor | float]:
        """Moments as in `torch.optim.Adam`. Returns updates u and a scalar s; a parameter changes by -lr s u.

        The bias corrections c1 and c2 are in s, in float64: m / c1 / (sqrt(v / c2) + e) = s m / (sqrt(v) + e sqrt(c2)) with
        s = sqrt(c2) / c1 (Kingma & Ba, 2015, section 2).
        """
        means, squares = ([self._field(p, field) for p in params] for field in ("exp_avg", "exp_avg_sq"))
        for p in params:
            self.state[p]["step"] = self._step
        self._step += 1
        step = self._step.double()
        root = (1 - BETA2**step).sqrt()
        torch._foreach_lerp_(means, grads, 1 - BETA1)
        torch._foreach_mul_(squares, BETA2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - BETA2)
        scales = torch._foreach_sqrt(squares)
        epsilon = (EPSILON * root).to(scales[0].dtype)
        torch.ops.aten._foreach_add_.Tensor(scales, epsilon)  # (torch._foreach_add_ would read its value on the host)
        return list(torch._foreach_div(means, scales)), root / (1 - BETA1**step)

    def _set(self, p: Tensor, field: str, value: Tensor) -> None:
        if field == "step":
            self._step.copy_(value)
            value = self._step
        super()._set(p, field, value)


def _per_run(values: Tensor, p: Tensor) -> Tensor:
    """Values [R] in a shape that broadcasts over p [R, ...]."""
    return values.view(-1, *[1] * (p.ndim - 1))
