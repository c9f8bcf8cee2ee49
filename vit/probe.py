"""Check a plug-in before a model is trained with it: its class, one call of each method, and the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vit.config import ViTConfig
from vit.plugins import PluginError, reason
from vit.pos_embed import PosEmbed
from vit.registry import resolve

METHODS = ("add", "rotate", "bias")
BATCH = 2  # images of the probe


def check_plugin(cfg: ViTConfig) -> None:
    """Raise `PluginError` if the plug-in of `cfg.pos_embed` cannot work; built-in kinds pass.

    The class must override a method of `PosEmbed` and be made without an error. Each method must return finite values of
    the documented shape, pass gradients on, and give each parameter a gradient. torch's global generator is unchanged.
    """
    kind, _ = resolve(cfg)
    if not kind.is_plugin:
        return
    cls: Any = kind.cls
    try:
        if not isinstance(cls, type) or not issubclass(cls, PosEmbed):
            raise _Fault("is not a subclass of vit.pos_embed.PosEmbed")
        if all(getattr(cls, method) is getattr(PosEmbed, method) for method in METHODS):
            raise _Fault(f"overrides none of {', '.join(METHODS)}, so it does nothing")
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            _check_module(_call("__init__", lambda: cls(cfg)), cfg)
    except _Fault as fault:
        raise PluginError(f"{cfg.pos_embed}: the class {cls.__name__} {fault}") from fault


class _Fault(Exception):
    """What is wrong with the class: the end of a sentence that starts with its name."""


def _check_module(module: PosEmbed, cfg: ViTConfig) -> None:
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            raise _Fault(f"keeps self.{name} as a plain tensor; use nn.Parameter or register_buffer")
    tokens = torch.randn(BATCH, cfg.num_tokens, cfg.embed_dim, requires_grad=True)
    queries, keys = (
        torch.randn(BATCH, cfg.num_heads, cfg.num_tokens, cfg.head_dim, requires_grad=True) for _ in range(2)
    )
    added = _call("add", lambda: module.add(tokens.clone()))
    _check_tensor("add", added, tuple(tokens.shape))
    key = torch.tensor(0, dtype=torch.int32)
    augmented = _call("add_in_training", lambda: module.add_in_training(tokens.clone(), key))
    _check_tensor("add_in_training", augmented, tuple(tokens.shape))
    rotated = _call("rotate", lambda: module.rotate(queries.clone(), keys.clone()))
    if not isinstance(rotated, tuple) or len(rotated) != 2:
        raise _Fault(f"returns {_described(rotated)} from rotate; expected the tuple (q, k)")
    for part in rotated:
        _check_tensor("rotate", part, tuple(queries.shape))
    bias = _call("bias", lambda: module.bias(queries.clone()))
    if bias is not None:
        _check_bias(bias, cfg)
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    inputs = {"add": [tokens], "rotate": [queries, keys]}
    outputs = {"add": [added], "rotate": list(rotated)}
    same = all(torch.equal(a, b) for method in outputs for a, b in zip(inputs[method], outputs[method], strict=True))
    if same and not parameters and (bias is None or not bias.any()):
        raise _Fault("changes nothing: its outputs equal its inputs, and it has no parameters")
    _check_gradients(inputs, outputs, bias, parameters)


def _check_gradients(
    inputs: dict[str, list[Tensor]],
    outputs: dict[str, list[Tensor]],
    bias: Tensor | None,
    parameters: dict[str, nn.Parameter],
) -> None:
    total = sum(((out * torch.randn_like(out)).sum() for each in outputs.values() for out in each), torch.zeros(()))
    if bias is not None:
        total = total + torch.where(bias.isfinite(), bias, 0).mul(torch.randn(bias.shape)).sum()
    sources = [*(("input of " + method, x) for method, each in inputs.items() for x in each), *parameters.items()]
    gradients = _call("the backward pass", lambda: _gradients(total, [tensor for _, tensor in sources]))
    for (name, _), gradient in zip(sources, gradients, strict=True):
        of = f"the {name}" if name.startswith("input of ") else f"the parameter {name!r}"
        if gradient is None:
            raise _Fault(f"passes no gradient to {of}")
        if not gradient.isfinite().all():
            raise _Fault(f"passes a gradient that is not finite to {of}")


def _gradients(total: Tensor, sources: list[Tensor]) -> tuple[Tensor | None, ...]:
    if not total.requires_grad:
        return (None,) * len(sources)
    return torch.autograd.grad(total, sources, allow_unused=True)


def _check_bias(bias: Any, cfg: ViTConfig) -> None:
    t = cfg.num_tokens
    allowed = ((1, cfg.num_heads, t, t), (BATCH, cfg.num_heads, t, t))
    if not isinstance(bias, Tensor) or tuple(bias.shape) not in allowed:
        raise _Fault(f"returns {_described(bias)} from bias; expected None or the shape {list(allowed[0])}")
    if bias.isnan().any() or (bias == torch.inf).any() or (bias == -torch.inf).all(-1).any():
        raise _Fault("returns values from bias that are not finite")  # -inf masks a token, but not all of them


def _check_tensor(method: str, value: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        raise _Fault(f"returns {_described(value)} from {method}; expected a tensor of the shape {list(shape)}")
    if value.dtype != torch.float32:
        raise _Fault(f"returns {value.dtype} from {method} for torch.float32")
    if not value.isfinite().all():
        raise _Fault(f"returns values from {method} that are not finite")


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"the shape {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


def _call(name: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Exception, SystemExit) as error:
        raise _Fault(f"raises in {name}: {reason(error)}") from error
