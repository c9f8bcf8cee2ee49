"""A cohort: runs of one variant as a single model whose every parameter has a leading axis of runs, R.

`torch.func.functional_call` under `vmap` makes R forward passes one, ordinary autograd differentiates their summed losses
(so each run's gradient is its own), and one fused optimiser step moves the stack. Initialisation, order, augmentation and
dropout keys come from each run's own seed, so what a run becomes does not depend on its company; see `vit.dropout`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import get_total_norm

from experiments.config import FREE, RunConfig, cohort_key
from experiments.training.compile import compiled
from experiments.training.engine import (
    DTYPES,
    EVAL_BATCH,
    autocast,
    initial_model,
    losses,
    optimizer,
    optimizer_state,
    persistent_buffers,
    prefixed,
)


class Stacked:
    """R runs with the face of `experiments.engine.Solo`."""

    def __init__(self, configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> None:
        if len(set(map(cohort_key, configs))) > 1:
            raise ValueError(f"runs of a cohort may differ only in {', '.join(FREE)}")
        self.configs, self.device = tuple(configs), device
        models = [initial_model(config, num_classes) for config in configs]
        self.template = models[0].to(device)
        self.params = {
            name: torch.stack([m.get_parameter(name).detach().to(device) for m in models]).requires_grad_(
                p.requires_grad
            )
            for name, p in models[0].named_parameters()
        }
        self.buffers = {
            name: torch.stack([m.get_buffer(name).to(device) for m in models]) for name in persistent_buffers(models[0])
        }
        drawn = {  # what no checkpoint holds is the template's, unless chance made each run's its own
            name: torch.stack([m.get_buffer(name).to(device) for m in models])
            for name, first in models[0].named_buffers()
            if name not in self.buffers and not all(torch.equal(first.cpu(), m.get_buffer(name)) for m in models[1:])
        }
        self.fixed = {**self.buffers, **drawn}  # all that a forward pass is given beside the parameters
        self._make_optimizer()
        self._train = compiled(vmap(self._loss_and_hits, in_dims=(0, 0, 0, 0, 0)), configs[0].train.compile)
        self._eval = vmap(self._loss_and_hits, in_dims=(0, 0, None, None, None))

    def _make_optimizer(self) -> None:
        """One optimiser for the stack where the runs share its settings; else one over views, a group for each run."""
        optims, exempt = [config.optim for config in self.configs], self.template.no_weight_decay()
        self.views: list[dict[str, Tensor]] = []
        if len(set(optims)) == 1:
            self.optimizer = optimizer(self.params, exempt, optims[0], fused=True)
            return
        self.views = [{name: p.detach()[r] for name, p in self.params.items()} for r in range(len(self.configs))]
        self.optimizer = optimizer(self.views[0], exempt, optims[0], fused=True)
        for views, optim in zip(self.views[1:], optims[1:], strict=True):
            for group in optimizer(views, exempt, optim, fused=True).param_groups:
                self.optimizer.add_param_group(group)

    def _loss_and_hits(
        self, params: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor, y: Tensor, key: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        scores = functional_call(self.template, {**params, **buffers}, (x, key))
        smoothing = self.configs[0].train.label_smoothing if self.template.training else 0.0
        return losses(scores, y, smoothing), (scores.detach().argmax(-1) == y).sum()

    def _arithmetic(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        stack.enter_context(autocast(self.configs[0], self.device))
        if self.device.type == "cpu":  # the CPU's flash kernel has no batching rule, and vmap would loop over the runs
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        return stack

    def train_step(self, x: Tensor, y: Tensor, keys: Tensor, lrs: Sequence[float]) -> tuple[Tensor, Tensor]:
        """One update of every run. x: [R, B, C, S, S], y: [R, B], keys: [R] int32, lrs: [R] -> mean losses [R], hits [R]"""
        self.template.train()
        self._set_rates(lrs)
        with self._arithmetic():
            loss, hits = self._train(self.params, self.fixed, x, y, keys)
        for p in self.params.values():
            p.grad = None
        loss.sum().backward()  # (not autograd.grad: the fused optimisers need gradients laid out as their parameters)
        if highest := self.configs[0].optim.grad_clip_norm:
            self._clip_gradients(highest)
        for r, views in enumerate(self.views):
            for name, view in views.items():
                gradient = self.params[name].grad  # None of what is frozen, or takes no part
                view.grad = None if gradient is None else gradient[r]
        self.optimizer.step()
        return loss.detach(), hits

    def _clip_gradients(self, highest: float) -> None:
        """What `torch.nn.utils.clip_grad_norm_` does to one model, for each run of the stack by its own norm."""
        gradients = [p.grad for p in self.params.values() if p.grad is not None]
        norms = vmap(lambda run: get_total_norm(run, foreach=False))(gradients)
        shares = (highest / (norms + 1e-6)).clamp(max=1.0)  # (torch's own epsilon)
        for gradient in gradients:
            gradient.mul_(shares.view(-1, *[1] * (gradient.ndim - 1)))

    def _set_rates(self, lrs: Sequence[float]) -> None:
        groups = self.optimizer.param_groups
        per_run = len(groups) // len(self.views) if self.views else len(groups)
        for i, group in enumerate(groups):
            group["lr"] = lrs[i // per_run]

    @torch.no_grad()
    def eval_step(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The same images for every run. x: [B, C, S, S], y: [B] -> mean losses [R], hits [R]"""
        self.template.eval()
        with self._arithmetic():
            return self._eval(self.params, self.fixed, x, y, None)

    def weights(self, run: int = 0) -> dict[str, Tensor]:
        """Parameters and fixed tables of a run, by name."""
        return {name: t.detach()[run] for name, t in {**self.params, **self.buffers}.items()}

    def states(self) -> list[dict[str, Tensor]]:
        """As `Solo.states`: a run's state is the same whatever company it had. Each stack leaves the device as one."""
        stacks = prefixed("weights", {name: t.detach() for name, t in {**self.params, **self.buffers}.items()})
        runs = range(len(self.configs))
        if self.views:
            own = [optimizer_state(self.optimizer, views) for views in self.views]
            return [
                {name: t[r].cpu() for name, t in stacks.items()} | {n: t.cpu() for n, t in own[r].items()} for r in runs
            ]
        whole = {n: t.cpu() for n, t in {**stacks, **optimizer_state(self.optimizer, self.params)}.items()}
        return [{name: t if t.ndim == 0 else t[r] for name, t in whole.items()} for r in runs]

    def load_states(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go back to where each run's state was taken; all at the same step."""
        with torch.no_grad():
            for name, stack in {**self.params, **self.buffers}.items():
                stack.copy_(torch.stack([state[f"weights/{name}"] for state in states]))
        for key in (key for key in states[0] if key.startswith("optim/")):
            _, field, name = key.split("/", 2)
            values = [state[key] for state in states]
            if self.views:
                for views, value in zip(self.views, values, strict=True):
                    self.optimizer.state[views[name]][field] = value.to(self.device).clone()
            else:
                value = values[0] if values[0].ndim == 0 else torch.stack(values)
                self.optimizer.state[self.params[name]][field] = value.to(self.device).clone()


def fitting(configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> int:
    """How many of these runs, at least 1, the GPU's free memory holds as one stack; on the CPU, all.

    Measured, not guessed: the peak of a training step and an evaluation of a stack of one, and of two.
    """
    if device.type != "cuda" or len(configs) < 2:
        return len(configs)
    try:
        peaks = [_step_peak(configs[:n], num_classes, device) for n in (1, 2)]
    except torch.OutOfMemoryError:
        peaks = None  # two are too many; whether one fits, its training will show
    _free_memory()
    if peaks is None:
        return 1
    free = torch.cuda.mem_get_info(device)[0] * 0.8  # the rest is for what the allocator and cuBLAS hold
    return max(1, min(len(configs), int(1 + (free - peaks[0]) / max(peaks[1] - peaks[0], 1))))


def _step_peak(configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> int:
    """Bytes that a training step and an evaluation take at their highest, the optimiser's state included."""
    first, runs = configs[0], len(configs)
    (channels, side), batch = first.data.image_shape, first.train.batch_size
    _free_memory()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    engine = Stacked(configs, num_classes, device)
    x = torch.zeros(runs, batch, channels, side, side, device=device, dtype=DTYPES[first.train.precision])
    y, keys = (
        torch.zeros(runs, batch, device=device, dtype=torch.long),
        torch.zeros(runs, device=device, dtype=torch.int32),
    )
    engine.train_step(x, y, keys, [0.0] * runs)
    images = x.new_zeros(EVAL_BATCH, channels, side, side)
    engine.eval_step(images, y.new_zeros(EVAL_BATCH))
    return torch.cuda.max_memory_allocated(device) - before


def _free_memory() -> None:
    """Give back what earlier stacks held: an engine is part of a cycle, which only the collector takes apart."""
    gc.collect()
    torch.cuda.empty_cache()
