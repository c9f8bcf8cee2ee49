"""The interface `Trainer`, the trainer of a single run, `Solo`, and what it shares with `stacked.Stacked`."""

import copy
import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from experiments.config import RunConfig, cohort_key
from experiments.sections import OptimConfig
from experiments.training.optimizer import Optimizer
from vit import ViT

IGNORED = -100  # label of the images that pad a batch
EVAL_BATCH = 1000  # images per evaluation step, at most
GRID_LIMIT = 65_535  # samples that one call of a CUDA attention kernel can process (the grid limit of CUDA)
DTYPES = {"float32": torch.float32, "bfloat16": torch.float32, "float64": torch.float64}  # of weights and inputs


class MixedLabels(NamedTuple):
    """Soft targets: the label of each image [R, B] with the weight `share` [R], and another one with the rest."""

    labels: Tensor
    others: Tensor
    share: Tensor


Labels = Tensor | MixedLabels


class Trainer(Protocol):
    """The models of R runs, in training or trained. The first axis of all results, R, is the run.

    `captured`: whether a CUDA graph replays the steps; None before a try.
    """

    configs: tuple[RunConfig, ...]
    device: torch.device
    optimizer: Optimizer
    captured: bool | None

    def eval_step(self, x: Tensor, y: Tensor, features: bool = False) -> tuple[Tensor, ...]:
        """Mean losses [R], and `predictions` for each image, [R, B] each, of the same images. x: [B, C, S, S]; y: [B]

        With `features`, also the pre-logits of each image, [R, B, D].
        """

    def train_step(self, x: Tensor, y: Labels, keys: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """Update the weights of all runs once and return mean losses [R] and numbers of correct predictions [R].

        x: [R, B, C, S, S]; y: [R, B]; keys: [R], int32; number: [1], int64, of the step in its epoch. All are on the
        device.
        """

    def gradient_norms(self) -> Tensor:
        """The gradient norm of each run in the last step, before clipping, [R]. It costs a pass over the gradients."""


def stream(seed: int, purpose: str, *at: int) -> torch.Generator:
    """An independent random generator for each (seed, purpose, position)."""
    text = "/".join(map(str, (seed, purpose, *at)))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    return torch.Generator().manual_seed(number)


def initial_model(config: RunConfig, num_classes: int) -> ViT:
    """The model of a run at initialisation, from `config.seed` only; the global generator of torch is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = ViT(config.vit_config(num_classes))
    return model.to(DTYPES[config.train.precision])


def prepare(device: torch.device) -> None:
    """Set up PyTorch for a GPU: convolutions that repeat their numbers and, in float32, round as float32.

    Attention by cuDNN is off, because its gradients can be NaN with a mask (PyTorch issue 196678).
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False


def eval_batch(configs: Sequence[RunConfig], device: torch.device) -> int:
    """Images per evaluation step of R runs. On a GPU, R x images is at most `GRID_LIMIT`."""
    return max(1, min(EVAL_BATCH, GRID_LIMIT // len(configs))) if device.type == "cuda" else EVAL_BATCH


def static_shape(config: RunConfig, device: torch.device) -> bool:
    """Whether all training batches must have one shape: on a GPU, and for compiled steps."""
    return device.type == "cuda" or config.train.compile != OFF


def step_key(config: RunConfig) -> bytes:
    """Equal for runs with the same code of a step: a compiled one is used again with other optimiser settings."""
    return cohort_key(config.model_copy(update={"optim": OptimConfig()}))


def losses(scores: Tensor, y: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy of scores [B, K] with labels [B], in float32 or float64. Labels `IGNORED` do not count."""
    scores = scores.float() if scores.dtype == torch.bfloat16 else scores
    return F.cross_entropy(scores, y, ignore_index=IGNORED, label_smoothing=label_smoothing)


def loss_and_hits(scores: Tensor, y: Labels, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The mean loss and the number of correct predictions of a run. scores: [B, K]; y: [B]"""
    if isinstance(y, MixedLabels):  # the cross-entropy is linear in the target
        pairs = zip(*(loss_and_hits(scores, labels, label_smoothing) for labels in (y.labels, y.others)), strict=True)
        loss, hits = (y.share * labelled + (1 - y.share) * other for labelled, other in pairs)
        return loss, hits
    return losses(scores, y, label_smoothing), (scores.detach().argmax(-1) == y).sum()


Step = Callable[[Mapping[str, Tensor], Mapping[str, Tensor], Tensor, Labels, Tensor | None], tuple[Tensor, Tensor]]


def step_function(model: ViT, label_smoothing: float) -> Step:
    """A function of a run's tensors that returns the mean loss and the number of correct predictions.

    step(run, shared, x, y, key): `run` and `shared` replace all parameters and buffers of the model, by name. The two
    are separate so that `vmap` can map over `run` and not over `shared`. x: [B, C, S, S]; y: [B]; key: int32 scalar or
    None.
    """

    def step(
        run: Mapping[str, Tensor], shared: Mapping[str, Tensor], x: Tensor, y: Labels, key: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return loss_and_hits(functional_call(model, {**run, **shared}, (x, key)), y, label_smoothing)

    return step


EvalStep = Callable[[Mapping[str, Tensor], Mapping[str, Tensor], Tensor, Tensor], tuple[Tensor, ...]]


def eval_function(model: ViT, features: bool = False) -> EvalStep:
    """A function of a run's tensors that returns the mean loss, `predictions` for each image, and on request features.

    eval(run, shared, x, y): the arguments are those of `step_function`. Features are the pre-logits, [B, D].
    """

    def evaluation(run: Mapping[str, Tensor], shared: Mapping[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        pre_logits: list[Tensor] | None = [] if features else None
        scores = functional_call(model, {**run, **shared}, (x,), {"pre_logits": pre_logits})
        return losses(scores, y), *predictions(scores, y, model.cfg.head), *(pre_logits or ())

    return evaluation


def predictions(scores: Tensor, y: Tensor, head: str) -> tuple[Tensor, Tensor]:
    """The predicted class of each image [B] and the probability of its true class [B]. scores: [B, K]; y: [B]"""
    return scores.argmax(-1), probabilities(scores, head).gather(-1, y[:, None])[:, 0]


def probabilities(scores: Tensor, head: str) -> Tensor:
    """The probability of each class [B, K], at least float32. The scores of the head "softmax" are probabilities."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return scores if head == "softmax" else scores.softmax(-1)


@torch.no_grad()
def evaluate_batch(model: nn.Module, config: RunConfig, x: Tensor, y: Tensor, features: bool) -> tuple[Tensor, ...]:
    """`Trainer.eval_step` of one model."""
    in_mode(model, training=False)
    pre_logits: list[Tensor] = []
    with autocast(config, x.device):
        scores = model(x, pre_logits=pre_logits) if features else model(x)
    columns = (losses(scores, y), *predictions(scores, y, config.model.head), *pre_logits)
    return tuple(column[None] for column in columns)


def in_mode(model: nn.Module, training: bool) -> None:
    """Put the model in training or evaluation mode. It walks over all modules only where the mode changes."""
    if model.training != training:
        model.train(training)


def training_copy(model: ViT) -> ViT:
    """A copy of the model in training mode, for a compiled step that outlives the trainer."""
    return copy.deepcopy(model).train()


class Solo:
    """The `Trainer` of a single run: one model and one optimiser."""

    captured: bool | None = None

    def __init__(self, configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> None:
        (self.config,) = self.configs = tuple(configs)
        self.device = device
        prepare(device)
        self.model = initial_model(self.config, num_classes).to(device)
        self.params = dict(self.model.named_parameters())
        self.buffers = persistent_buffers(self.model)
        self.optimizer = Optimizer(self.params, self.model.no_weight_decay(), self.config)
        self._norm = torch.zeros((), device=device)  # before clipping, of the last step that clipped
        mode = self.config.train.compile
        self._compiled = None if mode == OFF else self._compiled_step(num_classes, mode)

    def _compiled_step(self, num_classes: int, mode: str) -> Step:
        self._all_buffers = dict(self.model.named_buffers())
        key = ("solo", step_key(self.config), num_classes, self.device)
        smoothing = self.config.train.label_smoothing
        for tensor in (*self.params.values(), *self._all_buffers.values()):
            torch._dynamo.mark_static_address(tensor, guard=False)  # else CUDA graphs copy it at every step
        return compiled(key, lambda: step_function(training_copy(self.model), smoothing), mode)

    def _loss_and_hits(self, x: Tensor, y: Labels, key: Tensor) -> tuple[Tensor, Tensor]:
        if self._compiled is not None:
            return self._compiled(self.params, self._all_buffers, x, y, key)
        return loss_and_hits(self.model(x, key), y, self.config.train.label_smoothing)

    def train_step(self, x: Tensor, y: Labels, keys: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        in_mode(self.model, training=True)
        y = MixedLabels(*(part[0] for part in y)) if isinstance(y, MixedLabels) else y[0]
        with autocast(self.config, self.device):
            loss, hits = self._loss_and_hits(x[0], y, keys[0])
        for p in self.params.values():
            p.grad = None
        loss.backward()
        if max_norm := self.config.optim.grad_clip_norm:
            self._norm = nn.utils.clip_grad_norm_(self.params.values(), max_norm).detach()
        self.optimizer.step(number)
        return loss.detach()[None], hits[None]

    def gradient_norms(self) -> Tensor:
        clips = self.config.optim.grad_clip_norm > 0
        return (self._norm if clips else nn.utils.get_total_norm(gradients(self.params)))[None]

    def eval_step(self, x: Tensor, y: Tensor, features: bool = False) -> tuple[Tensor, ...]:
        return evaluate_batch(self.model, self.config, x, y, features)

    def weights(self, run: int = 0) -> dict[str, Tensor]:
        """Parameters and persistent buffers of a run, by name."""
        return {name: t.detach() for name, t in {**self.params, **self.buffers}.items()}

    def states(self) -> list[dict[str, Tensor]]:
        """The state of each run for a resume: named tensors on the CPU, copies that later steps do not change."""
        state = {**{f"weights/{name}": t for name, t in self.weights().items()}, **self.optimizer.tensors()}
        return [{name: tensor.to("cpu", copy=True) for name, tensor in state.items()}]

    def load_states(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        (state,) = states
        load_weights(self.model, {n.removeprefix("weights/"): t for n, t in state.items() if n.startswith("weights/")})
        self.optimizer.load(state)


def gradients(params: Mapping[str, Tensor]) -> list[Tensor]:
    """The gradients of the last training step, of the parameters that have one."""
    return [p.grad for p in params.values() if p.grad is not None]


def autocast(config: RunConfig, device: torch.device) -> torch.autocast:
    """The autocast context of `train.precision`."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.train.precision == "bfloat16")


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Buffers that are part of a checkpoint."""
    kept = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in kept}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy named tensors into a model. Raises `ValueError` if a tensor is missing or has another shape."""
    tensors = {**dict(model.named_parameters()), **persistent_buffers(model)}
    if missing := [n for n in tensors if n not in weights or weights[n].shape != tensors[n].shape]:
        raise ValueError(f"weights do not fit the model: {missing[0]}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(weights[name])


OFF = "none"
_compiled: dict[Hashable, Callable] = {}


def compiled(key: Hashable, build: Callable[[], Callable], mode: str) -> Callable:
    """The compiled step of `key`: the one compiled before, or else the function that `build` returns, compiled now.

    A step is compiled as one graph and for fixed shapes. PyTorch limits how often it compiles the same code in a
    process; at that limit all compiled steps are discarded. Kernels are then read from PyTorch's cache on disk.
    """
    if key not in _compiled:
        if len(_compiled) >= torch._dynamo.config.recompile_limit:
            torch._dynamo.reset()
            _compiled.clear()
        _compiled[key] = torch.compile(build(), mode=mode, fullgraph=True, dynamic=False)
    return _compiled[key]
