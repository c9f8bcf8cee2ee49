"""The optimiser of a trainer against torch's own classes."""

import pytest
import tiny
import torch
from torch import Tensor, nn

from experiments.training.optimizer import Optimizer, learning_rate

SHAPES = {"matrix": (4, 3), "bias": (3,), "scalar": (), "unused": (2,)}
EXEMPT = {"bias", "scalar"}
STEPS = 6


def initial(dtype: torch.dtype) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return {name: nn.Parameter(torch.randn(s, generator=generator, dtype=dtype)) for name, s in SHAPES.items()}


def gradients(step: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """A parameter has none."""
    generator = torch.Generator().manual_seed(1 + step)
    shapes = {name: shape for name, shape in SHAPES.items() if name != "unused"}
    return {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "momentum"), [("adamw", 0.9), ("adam", 0.9), ("sgd", 0.9), ("sgd", 0.0)])
def test_it_is_torchs_class_bit_for_bit_also_when_it_is_resumed(name, momentum, dtype):
    settings = {"name": name, "momentum": momentum, "lr": 1e-2, "weight_decay": 0.1, "schedule": "cosine"}
    config = tiny.config(train__epochs=1, **{f"optim__{key}": value for key, value in settings.items()})
    ours, theirs = initial(dtype), initial(dtype)
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    groups = [
        {"params": [p for n, p in theirs.items() if n not in EXEMPT], "weight_decay": 0.1},
        {"params": [p for n, p in theirs.items() if n in EXEMPT], "weight_decay": 0.0},
    ]
    more = {"momentum": momentum} if name == "sgd" else {}
    torchs = kind(groups, lr=torch.tensor(0.0, dtype=torch.float64), fused=True, **more)
    optimizer = Optimizer(ours, EXEMPT, config)
    optimizer.start_epoch(0, STEPS)
    for step in range(STEPS):
        if step == STEPS // 2:
            resumed = Optimizer(ours, EXEMPT, config)
            resumed.load(optimizer.tensors())
            resumed.start_epoch(0, STEPS)
            optimizer = resumed
        for params in (ours, theirs):
            for key, gradient in gradients(step, dtype).items():
                params[key].grad = gradient
        for group in torchs.param_groups:
            group["lr"] = torch.tensor(learning_rate(config, step, STEPS), dtype=torch.float64)
        optimizer.step(torch.tensor([step]))
        torchs.step()
        for key, p in theirs.items():
            assert torch.equal(ours[key], p), key
