"""The optimiser of an engine: torch's fused AdamW, Adam or SGD, called as functions.

torch's optimiser classes import `torch._dynamo` when they are made, which takes a second. The functions do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from experiments.sections import OptimConfig

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults for Adam and AdamW


class Optimizer:
    """Updates the parameters of runs that share all settings. Those in `exempt` have no weight decay.

    `state` has torch's layout: parameter -> field -> tensor, with fields `step`, `exp_avg` and `exp_avg_sq`, or
    `momentum_buffer`.
    """

    def __init__(self, params: Mapping[str, Tensor], exempt: set[str], optims: Sequence[OptimConfig]) -> None:
        self.optim, self.named = optims[0], dict(params)
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.groups = [  # (parameters, weight decay)
            ([p for name, p in params.items() if name not in exempt], self.optim.weight_decay),
            ([p for name, p in params.items() if name in exempt], 0.0),
        ]
        device = next(iter(params.values())).device
        # The fused CUDA kernels read a rate in float32, at the same address in each replay of a CUDA graph.
        self._rate = torch.zeros((), dtype=torch.float32 if device.type == "cuda" else torch.float64, device=device)

    def step(self, rates: Tensor) -> None:
        """Update all parameters that have a gradient. rates: [R], float64, learning rates. The host waits for nothing."""
        self._rate.copy_(rates[0])
        with torch.no_grad():
            for group, weight_decay in self.groups:
                if params := [p for p in group if p.grad is not None]:
                    gradients = [p.grad for p in params if p.grad is not None]
                    (self._sgd if self.optim.name == "sgd" else self._adam)(params, gradients, weight_decay)

    def _adam(self, params: list[Tensor], gradients: list[Tensor], weight_decay: float) -> None:
        means, squares = ([self._field(p, field) for p in params] for field in ("exp_avg", "exp_avg_sq"))
        adam(
            params,
            gradients,
            means,
            squares,
            [],
            [self._field(p, "step") for p in params],
            fused=True,
            decoupled_weight_decay=self.optim.name == "adamw",
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=self._rate,
            weight_decay=weight_decay,
            eps=EPSILON,
            maximize=False,
        )

    def _sgd(self, params: list[Tensor], gradients: list[Tensor], weight_decay: float) -> None:
        buffers: list[Tensor | None] = [self.state[p].get("momentum_buffer") for p in params]
        sgd(
            params,
            gradients,
            buffers,
            fused=True,
            weight_decay=weight_decay,
            momentum=self.optim.momentum,
            lr=self._rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
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
                self._set(self.named[name], field, value.to(self._rate.device).clone())

    def _set(self, p: Tensor, field: str, value: Tensor) -> None:
        self.state[p][field] = value
