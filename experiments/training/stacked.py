"""The training trainer of a cohort: runs of one variant as one model whose parameters have a leading axis of runs, R.

`torch.func.functional_call` under `vmap` computes R forward passes as one. Autograd differentiates the sum of the
losses, so each run gets its own gradient, and one fused optimiser step updates the stack. Initialisation, order,
augmentation and dropout keys come from the seed of each run, so a run's result does not depend on the other members;
see `vit.dropout`.

That holds up to rounding. On a GPU the same numbers, bit for bit, hold only for the same cohort on the same card: with
another number of runs cuBLAS chooses other kernels, which round differently.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import get_total_norm

from experiments.config import RunConfig, cohort_key
from experiments.training.optimizer import Optimizer
from experiments.training.trainer import (
    OFF,
    Labels,
    autocast,
    compiled,
    eval_function,
    gradients,
    in_mode,
    initial_model,
    persistent_buffers,
    prepare,
    step_function,
    step_key,
    training_copy,
)

TRAIN_DIMS = (0, None, 0, 0, 0)  # `vmap` maps a training step over all arguments except the shared buffers


class Stacked:
    """The `Trainer` of R runs."""

    captured: bool | None = None

    def __init__(self, configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> None:
        if len(set(map(cohort_key, configs))) > 1:
            raise ValueError("the runs of a cohort may differ only in seed")
        self.configs, self.device = tuple(configs), device
        prepare(device)
        models = [initial_model(config, num_classes) for config in configs]
        self.model = models[0].to(device)
        named = [{**dict(model.named_parameters()), **dict(model.named_buffers())} for model in models]

        def stack(name: str) -> Tensor:
            return torch.stack([tensors[name].detach().to(device) for tensors in named])

        self.params = {name: nn.Parameter(stack(name), p.requires_grad) for name, p in models[0].named_parameters()}
        self.buffers = {name: stack(name) for name in persistent_buffers(models[0])}
        others = {name: b for name, b in models[0].named_buffers() if name not in self.buffers}
        self.shared = {  # non-persistent buffers that are equal in all runs
            name: b for name, b in others.items() if all(torch.equal(b.cpu(), m.get_buffer(name)) for m in models[1:])
        }
        sampled = {name: stack(name) for name in others if name not in self.shared}
        self.fixed = {**self.buffers, **sampled}  # all other buffers, with the axis of runs
        train = self.configs[0].train  # a compiler fuses the casts itself
        cast = train.precision == "bfloat16" and train.compile == OFF
        self._cast_names = linear_names(self.model) if cast else []
        self._norms = torch.zeros(len(configs), device=device)  # before clipping, of the last step that clipped
        self.optimizer = Optimizer(self.params, self.model.no_weight_decay(), self.configs[0])
        self._make_steps(num_classes)

    def _make_steps(self, num_classes: int) -> None:
        """The functions of a training step, compiled if the configuration asks for it, and of an evaluation."""
        config = self.configs[0]
        mode, smoothing = config.train.compile, config.train.label_smoothing
        self._eval, self._eval_with_features = (
            vmap(eval_function(self.model, features), in_dims=(0, None, None, None)) for features in (False, True)
        )
        if mode == OFF:
            self._train = vmap(step_function(self.model, smoothing), in_dims=TRAIN_DIMS)
            return
        key = ("stack", step_key(config), num_classes, self.device, len(self.configs))
        self._train = compiled(
            key, lambda: vmap(step_function(training_copy(self.model), smoothing), in_dims=TRAIN_DIMS), mode
        )
        for tensor in (*self.params.values(), *self.fixed.values(), *self.shared.values()):
            torch._dynamo.mark_static_address(tensor, guard=False)  # else CUDA graphs copy it at every step

    def _tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers with an axis of runs, in bfloat16 training with linear layers already cast."""
        cast = {name: self.params[name] for name in self._cast_names}
        return {**self.params, **self.fixed, **(to_bfloat16(cast) if cast else {})}

    def _arithmetic(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        stack.enter_context(autocast(self.configs[0], self.device))
        if self.device.type == "cpu":  # from 1.15 times slower to 1.6 times faster than the CPU's flash kernel
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        return stack

    def train_step(self, x: Tensor, y: Labels, keys: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        in_mode(self.model, training=True)
        with self._arithmetic():
            loss, hits = self._train(self._tensors(), self.shared, x, y, keys)
        for p in self.params.values():
            p.grad = None
        loss.sum().backward()  # (not autograd.grad: the fused optimisers need gradients laid out as their parameters)
        if max_norm := self.configs[0].optim.grad_clip_norm:
            self._norms = self._clip_gradients(max_norm)
        self.optimizer.step(number)
        return loss.detach(), hits

    def _clip_gradients(self, max_norm: float) -> Tensor:
        """`torch.nn.utils.clip_grad_norm_` for each run of the stack, by the run's own norm. Returns the norms, [R]."""
        norms = self._total_norms()
        factors = (max_norm / (norms + 1e-6)).clamp(max=1.0)  # [R]; torch uses the same epsilon
        for gradient in gradients(self.params):
            gradient.mul_(factors.view(-1, *[1] * (gradient.ndim - 1)))
        return norms

    def _total_norms(self) -> Tensor:
        return vmap(lambda run: get_total_norm(run, foreach=False))(gradients(self.params))

    def gradient_norms(self) -> Tensor:
        return self._norms if self.configs[0].optim.grad_clip_norm > 0 else self._total_norms()

    @torch.no_grad()
    def eval_step(self, x: Tensor, y: Tensor, features: bool = False) -> tuple[Tensor, ...]:
        in_mode(self.model, training=False)
        with self._arithmetic():
            evaluate = self._eval_with_features if features else self._eval
            return evaluate(self._tensors(), self.shared, x, y)

    def weights(self, run: int = 0) -> dict[str, Tensor]:
        """Parameters and persistent buffers of a run, by name."""
        return {name: t.detach()[run] for name, t in {**self.params, **self.buffers}.items()}

    def states(self) -> list[dict[str, Tensor]]:
        """The state of each run for a resume, in the format of `Solo.states`. Each stack is copied to the CPU once."""
        stacks = {f"weights/{name}": t.detach() for name, t in {**self.params, **self.buffers}.items()}
        tensors = {**stacks, **self.optimizer.tensors()}
        whole = {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
        return [{name: t if t.ndim == 0 else t[r] for name, t in whole.items()} for r in range(len(self.configs))]

    def load_states(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Restore the state of each run. All states must be from the same step."""
        with torch.no_grad():
            for name, stack in {**self.params, **self.buffers}.items():
                stack.copy_(torch.stack([state[f"weights/{name}"] for state in states]))
        shared = {key for key in states[0] if key.startswith("optim/step/")}  # a number for all runs
        self.optimizer.load(
            {
                key: states[0][key] if key in shared else torch.stack([state[key] for state in states])
                for key in states[0]
                if key.startswith("optim/")
            }
        )


def linear_names(model: nn.Module) -> list[str]:
    """Names of the parameters of linear layers."""
    layers = [(prefix, module) for prefix, module in model.named_modules() if isinstance(module, nn.Linear)]
    return [f"{prefix}.{name}" for prefix, layer in layers for name, _ in layer.named_parameters(recurse=False)]


def to_bfloat16(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters in bfloat16, by one operation. Gradients reach the parameters in their own dtype.

    Under `vmap` autocast casts the weight of a linear layer, but not its bias. The sum is then float32, and later
    layers cast it again. With both cast beforehand a stack computes what autocast computes in a single run.
    """
    return dict(zip(params, _ToBfloat16.apply(*params.values()), strict=True))


class _ToBfloat16(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)  # a parameter that is not used keeps no gradient
        ctx.dtypes = [t.dtype for t in tensors]
        return tuple(_copies(tensors, [torch.bfloat16] * len(tensors)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [i for i, grad in enumerate(grads) if grad is not None]
        casts = _copies([grads[i] for i in present], [ctx.dtypes[i] for i in present])
        cast_by_place = dict(zip(present, casts, strict=True))
        return tuple(cast_by_place.get(i) for i in range(len(grads)))


def _copies(tensors: Any, dtypes: list[torch.dtype]) -> list[Tensor]:
    copies = [torch.empty(t.shape, dtype=dtype, device=t.device) for t, dtype in zip(tensors, dtypes, strict=True)]
    torch._foreach_copy_(copies, list(tensors))
    return copies
