"""The optimiser of a stack against torch's own optimisers, one per run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from experiments.sections import OptimConfig
from experiments.training.optimizer import Optimizer
from experiments.training.stacked_optimizer import StackedOptimizer

RUNS = [(1e-2, 0.0), (3e-3, 0.1), (5e-2, 0.3)]  # learning rate, weight decay
SHAPES = {"matrix": (4, 3), "bias": (3,), "scalar": (), "unused": (2,)}
EXEMPT = {"bias", "scalar"}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def optims(name: str, momentum: float = 0.9) -> list[OptimConfig]:
    return [OptimConfig(name=name, lr=lr, weight_decay=decay, momentum=momentum) for lr, decay in RUNS]


def initial(dtype: torch.dtype) -> list[dict[str, nn.Parameter]]:
    generator = torch.Generator().manual_seed(0)
    return [
        {name: nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for name, shape in SHAPES.items()}
        for _ in RUNS
    ]


def gradients(step: int, dtype: torch.dtype) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1 + step)
    shapes = {name: shape for name, shape in SHAPES.items() if name != "unused"}
    return [
        {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in shapes.items()} for _ in RUNS
    ]


def scale(step: int) -> float:
    return 1 / (1 + step)


def train_alone(name: str, dtype: torch.dtype, steps: int, momentum: float) -> list[tuple[dict, Optimizer]]:
    """The optimiser of equal settings for each run: its parameters and itself after some steps."""
    done = []
    for r, (params, optim) in enumerate(zip(initial(dtype), optims(name, momentum), strict=True)):
        fused = Optimizer(params, EXEMPT, [optim])
        for step in range(steps):
            for key, gradient in gradients(step, dtype)[r].items():
                params[key].grad = gradient
            fused.step(torch.tensor([optim.lr * scale(step)], dtype=torch.float64))
        done.append((params, fused))
    return done


def stack(runs: list[dict[str, nn.Parameter]]) -> dict[str, nn.Parameter]:
    return {name: nn.Parameter(torch.stack([run[name].detach() for run in runs])) for name in SHAPES}


def train_stack(ours: StackedOptimizer, params: dict[str, nn.Parameter], dtype: torch.dtype, steps: range) -> None:
    for step in steps:
        for name in gradients(step, dtype)[0]:
            params[name].grad = torch.stack([run[name] for run in gradients(step, dtype)])
        ours.step(torch.tensor([lr * scale(step) for lr, _ in RUNS], dtype=torch.float64))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "momentum"), [("adamw", 0.9), ("adam", 0.9), ("sgd", 0.9), ("sgd", 0.0)])
def test_it_equals_torchs_optimiser_of_each_run(name: str, momentum: float, dtype: torch.dtype) -> None:
    """Weights and state after six steps with changing rates. A parameter without a gradient keeps its value."""
    params = stack(initial(dtype))
    ours = StackedOptimizer(params, EXEMPT, optims(name, momentum))
    train_stack(ours, params, dtype, range(6))
    found = ours.tensors()
    for r, (expected, torchs) in enumerate(train_alone(name, dtype, 6, momentum)):
        tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        for key, p in expected.items():
            torch.testing.assert_close(params[key][r], p, **tolerance)
        state = torchs.tensors()
        assert found.keys() == state.keys()
        for key, value in state.items():
            torch.testing.assert_close(found[key] if "/step/" in key else found[key][r], value, **tolerance)
    assert torch.equal(params["unused"], stack(initial(dtype))["unused"])


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_it_continues_from_the_states_of_torchs_optimisers_and_they_from_its_own(name: str) -> None:
    dtype, expected = torch.float64, train_alone(name, torch.float64, 6, 0.9)
    halfway = train_alone(name, dtype, 3, 0.9)
    params = stack([run for run, _ in halfway])
    ours = StackedOptimizer(params, EXEMPT, optims(name))
    states = [torchs.tensors() for _, torchs in halfway]
    values = {key: [state[key] for state in states] for key in states[0]}
    ours.load({key: v[0] if "/step/" in key else torch.stack(v) for key, v in values.items()})
    back = {key: value.clone() for key, value in ours.tensors().items()}
    train_stack(ours, params, dtype, range(3, 6))
    for r, (run, _) in enumerate(expected):
        for key, p in run.items():
            torch.testing.assert_close(params[key][r], p, rtol=1e-12, atol=1e-12)
        own, _ = halfway[r]
        fresh = Optimizer(own, EXEMPT, [optims(name)[r]])
        fresh.load({k: v if "/step/" in k else v[r] for k, v in back.items()})
        assert {k: v.tolist() for k, v in fresh.tensors().items()} == {k: v.tolist() for k, v in states[r].items()}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "momentum"), [("adamw", 0.9), ("adam", 0.9), ("sgd", 0.9), ("sgd", 0.0)])
def test_an_optimiser_of_equal_settings_is_torchs_class_bit_for_bit(
    name: str, momentum: float, dtype: torch.dtype
) -> None:
    runs = zip(train_alone(name, dtype, 6, momentum), initial(dtype), optims(name, momentum), strict=True)
    for r, ((ours, _), theirs, optim) in enumerate(runs):
        kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
        more = {"momentum": momentum} if name == "sgd" else {}
        groups = [
            {"params": [p for n, p in theirs.items() if n not in EXEMPT], "weight_decay": optim.weight_decay},
            {"params": [p for n, p in theirs.items() if n in EXEMPT], "weight_decay": 0.0},
        ]
        torchs = kind(groups, lr=torch.tensor(0.0, dtype=torch.float64), fused=True, **more)
        for step in range(6):
            for key, gradient in gradients(step, dtype)[r].items():
                theirs[key].grad = gradient
            for group in torchs.param_groups:
                group["lr"] = torch.tensor(optim.lr * scale(step), dtype=torch.float64)
            torchs.step()
        for key, p in theirs.items():
            assert torch.equal(ours[key], p), key


def test_rates_too_large_for_the_dtype_affect_their_own_run_only() -> None:
    params = {"matrix": nn.Parameter(torch.ones(2, 3))}
    ours = StackedOptimizer(params, set(), [OptimConfig(lr=1e-2), OptimConfig(lr=1e300)])
    params["matrix"].grad = torch.ones(2, 3)
    ours.step(torch.tensor([1e-2, 1e300], dtype=torch.float64))
    assert params["matrix"][0].isfinite().all()
    assert not params["matrix"][1].isfinite().any()
