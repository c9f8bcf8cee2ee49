"""Training against a plain torch loop; what a step reads and a replay of it computes; its capture as a CUDA graph."""

import contextlib
import gc
import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torchvision.transforms import v2

from experiments.config import RunConfig, override
from experiments.data import augment, loading
from experiments.data.images import Images, Splits
from experiments.data.policies import augmented
from experiments.devices import is_out_of_memory
from experiments.presets import preset
from experiments.training import stacked, trainer
from experiments.training import step as step_module
from experiments.training.fit import fit
from experiments.training.step import DeviceStep, model_input
from experiments.training.tables import epoch_tables
from experiments.training.trainer import initial_model, stream
from vit import kernels
from vit.registry import REGISTRY

MIXED = {"data.random_erasing": 0.5, "data.mixup": 0.8, "data.cutmix": 1.0}
EXTRAS = {"model.reg_tokens": 2, "model.pool": "map", "model.head": "mlp", "model.drop_path_rate": 0.1}
META = torch.device("meta")


class OnDevice(TorchDispatchMode):
    """Forbid copies between devices and operations on a tensor of another device, except for constants of the code."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            other = isinstance(leaf, Tensor) and leaf.device.type != "meta"
            assert not (other and (leaf.ndim or "copy" in func._schema.name)), f"{func} reads {leaf.device}"
            assert not (isinstance(leaf, torch.device) and leaf.type != "meta"), f"{func} writes to {leaf}"
        return func(*args, **(kwargs or {}))


def fused(*args: Any, **kwargs: Any) -> None:
    """In place of a fused optimiser, which PyTorch cannot run on the device `meta`."""
    assert {leaf.device.type for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)} == {"meta"}


@pytest.fixture
def meta(monkeypatch):
    """Trainers work on the device `meta`, where tensors have no values and reading one on the host raises an error."""
    monkeypatch.setattr(kernels, "is_faster_in_parts", lambda q, k: False)  # attention and linear layers as on a GPU
    monkeypatch.setattr(kernels, "in_parts", lambda x: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)  # it does not know `meta`
    for name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_"):
        monkeypatch.setattr(torch, name, fused)
    for module in (trainer, stacked):
        monkeypatch.setattr(module, "autocast", lambda config, device: contextlib.nullcontext())


@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "stacked"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {"optim.name": o}) for name in ("tintn-cifar10", "lodha-cifar10") for o in ("adamw", "adam", "sgd")),
        *((name, {}) for name in ("digits", "pulfer-mnist")),
        ("digits", MIXED),
        *(("lodha-cifar10", {"model.pos_embed": kind, **EXTRAS}) for kind in REGISTRY),
    ],
)
def test_a_step_and_an_evaluation_read_nothing_on_the_host(name, changes, runs, meta, monkeypatch):
    """Batch, augmentation, dropout, forward, backward, clipping and update, on tensors without values."""
    usual = {"train.batch_size": 4, "model.depth": 1, "optim.grad_clip_norm": 0.5}
    base = override(preset(name), {**usual, **changes})
    configs = [override(base, {"seed": seed}) for seed in range(runs)]
    channels, side = base.data.image_shape
    x, half = torch.zeros(10, channels, side, side, dtype=torch.uint8), torch.full((channels,), 0.5)
    part = Images(x, torch.zeros(10, dtype=torch.long))
    splits = Splits(part, part, part, tuple("0123456789"), half, half).to(META)
    with monkeypatch.context() as patch:  # a stack compares buffers on the host while it is built
        patch.setattr(Tensor, "cpu", lambda tensor: tensor)
        patch.setattr(torch, "equal", lambda a, b: True)
        step = DeviceStep(tiny.trainer(configs, META), splits)
    step._load(epoch_tables(configs, 10, 0, 4))
    step._run(4)  # creates the optimiser's state
    with OnDevice():
        step._run(4)
        step.trainer.eval_step(model_input(splits, base, splits.val.x, None), splits.val.y)


class Recorder(TorchDispatchMode):
    """Record operations. `replay` runs them again on the same memory, as a CUDA graph does: nothing of Python runs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view and not func._schema.name.startswith(("aten::empty", "aten::new_empty", "aten::detach")):
            kept = tree_map_only(Tensor, Tensor.detach, (args, kwargs or {}, out))
            self.calls.append((func, *kept))
        return out

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, out in self.calls:
                again = func(*args, **kwargs)
                for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                    if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)


class ReplayedStep:
    """In place of a `CapturedStep`: the first step runs, the second is recorded, all others are replays of it."""

    replays, captured = 0, True

    def __init__(self, device: torch.device) -> None:
        self.calls, self.recorder = 0, Recorder()

    def __call__(self, step: Callable[[], None]) -> None:
        self.calls += 1
        if self.calls == 1:
            step()
        elif self.calls == 2:
            with self.recorder:
                step()
        else:
            self.recorder.replay()
            ReplayedStep.replays += 1


SCHEDULED = {
    "data__hflip": True,
    "data__randaugment": True,
    "model__reg_tokens": 1,
    "train__precision": "float64",
    "train__label_smoothing": 0.1,
    "train__epochs": 3,
    "optim__weight_decay": 0.1,
    "optim__schedule": "cosine",
    "optim__warmup_epochs": 1,
}


def clip(gradients: list[Tensor], max_norm: float) -> float:
    """Scale gradients to a total norm of at most `max_norm`; return their norm before."""
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    for g in gradients:
        g *= min(1.0, max_norm / norm)
    return norm


def plain_loop(config: RunConfig, splits: Splits, max_norm: float) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """Rows and weights after a training written with torch alone; 80 images in batches of 32, learning rates by hand.

    Biases, norms, tokens and positions have no weight decay.
    """
    model = initial_model(config, 10).train()
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and not n.startswith("pos.")]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    groups = [{"params": matrices, "weight_decay": config.optim.weight_decay}, {"params": others, "weight_decay": 0.0}]
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    optimizer = kinds[config.optim.name](groups, lr=0.0, **({"momentum": 0.9} if config.optim.name == "sgd" else {}))
    schedule = [1 / 3, 2 / 3, 1.0] + [0.5 * (1 + math.cos(math.pi * i / 6)) for i in range(6)]  # up, then half a cosine
    rows, norms = [], []
    for epoch in range(3):
        order = torch.randperm(80, generator=stream(config.seed, "order", epoch))
        draws = torch.rand(80, 23, generator=stream(config.seed, "augment", epoch))
        operations = torch.rand(80, 2, generator=stream(config.seed, "randaugment", epoch))
        total, hits = 0.0, 0
        for number, part in enumerate(order.split(32)):
            here = slice(32 * number, 32 * number + 32)
            x = splits.normalized(augmented("randaugment", splits.train.x[part], operations[here]).double() / 255)
            flip = draws[here, 0] < 0.5
            x = torch.where(flip[:, None, None, None], x.flip(-1), x)
            for group in optimizer.param_groups:
                group["lr"] = config.optim.lr * schedule[3 * epoch + number]
            scores = model(x)
            loss = F.cross_entropy(scores, splits.train.y[part], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            norms.append(clip([p.grad for p in model.parameters()], max_norm))
            optimizer.step()
            total += loss.item() * len(part)
            hits += int((scores.argmax(1) == splits.train.y[part]).sum())
        rows.append({"train/loss": total / 80, "train/acc": hits / 80, "train/grad_norm": norms[-1]})
    assert max_norm == math.inf or min(norms) < max_norm < max(norms), "some steps must be clipped and some not"
    return rows, {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "stacked"])
@pytest.mark.parametrize(
    ("optimiser", "max_norm"), [("adamw", 0.0), ("adam", 0.0), ("sgd", 0.0), ("adamw", 1.6), ("sgd", 1.6)]
)
def test_training_equals_a_plain_torch_loop(optimiser, max_norm, runs, replayed, monkeypatch):
    """Seven of nine steps may be replays. They take batch, flips and rate of their own step; the last is padded."""
    if replayed:
        monkeypatch.setattr(step_module, "static_shape", lambda config, device: True)
        monkeypatch.setattr(step_module, "launcher", ReplayedStep)
    ReplayedStep.replays = 0
    changes = {"optim__name": optimiser, "optim__grad_clip_norm": max_norm, **SCHEDULED}
    configs = [tiny.config(seed=seed, **changes) for seed in range(runs)]
    splits = loading.load(configs[0])
    trained = tiny.trainer(configs)
    rows = list(fit(trained, splits))
    assert ReplayedStep.replays == 7 * replayed
    rel = 1e-5 if max_norm else 1e-9  # torch's clipping adds 1e-6 to the norm
    for run, config in enumerate(configs):
        expected, weights = plain_loop(config, splits, max_norm or math.inf)
        for ours, theirs in zip(rows, expected, strict=True):
            assert {key: ours[run][key] for key in theirs} == pytest.approx(theirs, rel=rel)
        for name, p in weights.items():
            torch.testing.assert_close(trained.weights(run)[name], p, rtol=rel, atol=1e-2 * rel)


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "stacked"])
def test_mixed_training_equals_a_plain_loop_with_torchvisions_transforms(runs, replayed, monkeypatch):
    """Soft targets; the last of three batches is smaller, and padded in a replay. The steps of both seeds differ."""
    if replayed:
        monkeypatch.setattr(step_module, "static_shape", lambda config, device: True)
        monkeypatch.setattr(step_module, "launcher", ReplayedStep)
    changes = {name.replace(".", "__"): value for name, value in MIXED.items()}
    changes |= {"train__precision": "float64", "train__label_smoothing": 0.1, "optim__schedule": "constant"}
    configs = [
        tiny.config(seed=seed, optim__name="sgd", optim__momentum=0, optim__weight_decay=0, **changes)
        for seed in range(runs)
    ]
    splits = loading.load(configs[0])
    trained = tiny.trainer(configs)
    rows = list(fit(trained, splits))
    for run, config in enumerate(configs):
        model = initial_model(config, 10).train()
        optimizer = torch.optim.SGD(model.parameters(), config.optim.lr, momentum=config.optim.momentum)
        for epoch, row in enumerate(rows):
            numbers = {name: t[:, 0] for name, t in epoch_tables([config], 80, epoch, 32).numbers.items()}
            total = 0.0
            for step, size in enumerate((32, 32, 16)):
                chosen = numbers["order"][step, :size]
                x, y = splits.train.x[chosen], splits.train.y[chosen]
                x = torchvision_erased(splits.normalized(x.double() / 255), numbers["erasing"][step, :size])
                x, target = torchvision_mixed(x, y, numbers["mixes"][step])
                loss = F.cross_entropy(model(x), target, label_smoothing=0.1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * size
            assert row[run]["train/loss"] == pytest.approx(total / 80, rel=1e-9)
        for name, p in model.named_parameters():
            torch.testing.assert_close(trained.weights(run)[name], p.detach(), rtol=1e-9, atol=1e-11)


def torchvision_erased(x: Tensor, draws: Tensor) -> Tensor:
    boxes = augment.erased_boxes(draws, x.shape[-1], MIXED["data.random_erasing"]).int().tolist()
    assert 0 < sum(height > 0 for *_, height, _ in boxes) < len(boxes)
    return torch.stack([v2.functional.erase(image, *box, torch.zeros(1)) for image, box in zip(x, boxes)])


def torchvision_mixed(x: Tensor, y: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The images and soft targets of torchvision's transform with this weight or box."""
    top, left, height, width, weight = numbers.tolist()
    target = F.one_hot(y, 10).double()
    if height * width:
        box = tuple(map(int, (left, top, left + width, top + height)))
        transform, given = v2.CutMix(), {"box": box, "lam_adjusted": 1 - height * width / x.shape[-1] ** 2}
    else:
        transform, given = v2.MixUp(), {"lam": weight}
    transform.make_params = lambda inputs: given
    return transform(x, target)


class Cuda:
    """In place of the calls of CUDA: notes what a captured step does. `error`: what the end of the capture raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.log: list[str] = []
        self.error, self.current = error, "main stream"
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: "side stream")
        monkeypatch.setattr(step_module, "run_on", lambda stream, step, device: (self.log.append("warm-up"), step()))
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: self)
        monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
        monkeypatch.setattr(torch.cuda, "graph", self.graph)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self.current)
        monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: setattr(self, "current", stream))

    @contextlib.contextmanager
    def graph(self, graph, stream: str, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        assert not gc.isenabled(), "a collection could free an older graph"
        self.current = stream
        self.log.append("capture")
        yield
        if self.error:
            raise self.error
        self.current = "main stream"

    def replay(self) -> None:
        self.log.append("replay")


def run_steps(count: int) -> tuple[step_module.CapturedStep, list[int]]:
    steps: list[int] = []
    launch = step_module.CapturedStep(torch.device("cuda"))
    for number in range(count):
        launch(lambda number=number: steps.append(number))
    return launch, steps


def test_a_step_is_captured_once_after_a_warm_up(monkeypatch):
    cuda = Cuda(monkeypatch)
    launch, steps = run_steps(6)
    assert cuda.log == ["warm-up"] * 3 + ["capture"] + ["replay"] * 3  # each call is one step; the capture runs none
    assert steps == [0, 1, 2, 3]  # the capture records the fourth
    assert launch.captured
    assert gc.isenabled()


def test_a_step_that_cannot_be_captured_goes_on_without_and_says_so_once(monkeypatch, capsys):
    cuda = Cuda(monkeypatch, RuntimeError("operation not permitted\nwhen stream is capturing"))
    launch, steps = run_steps(6)
    assert cuda.log == ["warm-up"] * 3 + ["capture"]
    assert steps == [0, 1, 2, 3, 3, 4, 5]  # the fourth again: the capture does not run it
    assert launch.captured is False
    assert cuda.current == "main stream"
    assert gc.isenabled()
    error = "operation not permitted when stream is capturing"
    assert capsys.readouterr().err == f"CUDA graph: not used, training is slower without it ({error})\n"


EXHAUSTED = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
]


def test_exhausted_memory_is_told_from_other_errors():
    assert all(map(is_out_of_memory, EXHAUSTED)) and not is_out_of_memory(RuntimeError("shape mismatch"))


@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "stack"])
@pytest.mark.parametrize("compile_mode", ["none", "default"])
def test_an_engine_is_freed_without_the_garbage_collector(runs, compile_mode, monkeypatch):
    """Its CUDA graph holds memory that the next cohort needs."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    Cuda(monkeypatch)
    monkeypatch.setattr(step_module, "launcher", lambda device: step_module.CapturedStep(device))
    configs = [tiny.config(seed=seed, train__compile=compile_mode) for seed in range(runs)]
    splits = loading.load(configs[0])
    trained = tiny.trainer(configs)
    freed = weakref.ref(trained)
    gc.disable()
    try:
        list(fit(trained, splits))
        del trained
        assert freed() is None
    finally:
        gc.enable()
