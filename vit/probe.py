"""Check a plug-in before a model is trained with it: its class, one call of each method, and the gradients."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from vit.config import ViTConfig
from vit.model import ViT
from vit.plugins import PluginError, place_of, reason
from vit.pos_embed import PosEmbed
from vit.registry import resolve
from vit.resize import SizeError, resized

METHODS = ("add", "rotate", "bias", "mixed")
BATCH = 2  # images of the probe


def check_plugin(cfg: ViTConfig, sides: Sequence[int] = (), interpolated: bool = False) -> None:
    """Raise `PluginError` if the plug-in of `cfg.pos_embed` cannot work, or not at these sides of images.

    Built-in kinds pass. The class must override a method of `PosEmbed` and be made without an error. Each method must
    return finite values of the documented shape, pass gradients on, and give each parameter a gradient. In evaluation
    it must return the same again, and for an image alone what it returns for it in a batch. torch's global generator is
    unchanged.
    """
    kind, _ = resolve(cfg)
    if not kind.is_plugin:
        return
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            fault = next(_faults(kind.cls, cfg), None)
            small = cfg.model_copy(update={"depth": min(cfg.depth, 2)})
            for side in () if fault else sides:
                fault = fault or next(_faults(kind.cls, resized(ViT(small), side, interpolated).cfg), None)
    except SizeError as error:
        fault = str(error).partition(f"{cfg.pos_embed!r} ")[2]
    except (Exception, SystemExit) as error:
        fault = f"raises {reason(error)}"
    if fault:
        place = "" if ".py:" in fault else place_of(kind.cls)
        raise PluginError(f"{cfg.pos_embed}: the class {kind.cls.__name__} {fault}{place}")


def _faults(cls: Any, cfg: ViTConfig) -> Iterator[str]:
    """What is wrong with a class, in words that follow its name. Those after the first may be its consequences."""
    if not isinstance(cls, type) or not issubclass(cls, PosEmbed):
        yield "is not a subclass of vit.pos_embed.PosEmbed"
    if all(getattr(cls, method) is getattr(PosEmbed, method) for method in METHODS):
        yield f"overrides none of {', '.join(METHODS)}, so it does nothing"
    module, t = cls(cfg), cfg.num_tokens
    if plain := [name for name, value in vars(module).items() if isinstance(value, Tensor)]:
        yield f"keeps self.{plain[0]} as a plain tensor; use nn.Parameter or register_buffer"
    x = torch.randn(BATCH, t, cfg.embed_dim, requires_grad=True)
    q, k, v = (torch.randn(BATCH, cfg.num_heads, t, cfg.head_dim, requires_grad=True) for _ in range(3))
    rotated, bias = module.rotate(q.clone(), k.clone()), module.bias(q.clone())
    if not isinstance(rotated, tuple) or len(rotated) != 2:
        yield f"returns {_described(rotated)} from rotate; expected the tuple (q, k)"
    outputs = [("add", x, module.add(x.clone())), ("rotate", q, rotated[0]), ("rotate", k, rotated[1])]
    outputs.append(("mixed", v, module.mixed(module.values(v.clone()))))  # as if each token attended to itself
    augmented = module.add_in_training(x.clone(), torch.tensor(0, dtype=torch.int32))
    for method, given, out in (*outputs, ("add_in_training", x, augmented)):
        has_type = isinstance(out, Tensor) and (out.shape, out.dtype) == (given.shape, given.dtype)
        if not has_type or not out.isfinite().all():
            yield f"returns {_described(out)} from {method}; expected finite torch.float32 {list(given.shape)}"
    if bias is not None:
        shape = (cfg.num_heads, t, t)
        has_shape = isinstance(bias, Tensor) and bias.shape in ((1, *shape), (BATCH, *shape))
        hides_all = has_shape and bool((bias == -torch.inf).all(-1).any())  # -inf hides some tokens
        if not has_shape or hides_all or not (bias < torch.inf).all():
            yield f"returns {_described(bias)} from bias; expected None or finite values {[1, *shape]}"
    parameters = {f"the parameter {name!r}": p for name, p in module.named_parameters() if p.requires_grad}
    if not parameters and all(torch.equal(*pair) for _, *pair in outputs) and (bias is None or not bias.any()):
        yield "changes nothing: its outputs equal its inputs, and it has no parameters"
    results = [out for _, _, out in outputs] + ([] if bias is None else [torch.where(bias.isfinite(), bias, 0)])
    total = sum(((out * torch.randn_like(out)).sum() for out in results), torch.zeros(()))
    sources = {"the input of add": x, "the queries": q, "the keys": k, "the values": v, **parameters}
    gradients = torch.autograd.grad(total, list(sources.values()), allow_unused=True)
    for name, gradient in zip(sources, gradients, strict=True):
        if gradient is None or not gradient.isfinite().all():
            yield f"passes no finite gradient to {name}"
    with torch.no_grad():
        yield from _evaluation_faults(module.eval(), x, q, k, v)


def _evaluation_faults(module: PosEmbed, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Iterator[str]:
    """Random numbers in evaluation, and values that depend on the other images of the batch."""
    for parameter in filter(Tensor.is_floating_point, module.parameters()):  # zeros would hide what they multiply
        parameter.add_(torch.randn_like(parameter), alpha=0.02)

    def evaluate(images: slice) -> tuple[Tensor, ...]:
        bias, rotated = module.bias(q[images].clone()), module.rotate(q[images].clone(), k[images].clone())
        mixed = module.mixed(module.values(v[images].clone()))
        return module.add(x[images].clone()), torch.cat(rotated, -1), torch.zeros(1) if bias is None else bias, mixed

    batch, again, *single = map(evaluate, (slice(None), slice(None), *(slice(i, i + 1) for i in range(BATCH))))
    for method, first, second, alone in zip(METHODS, batch, again, map(torch.cat, zip(*single)), strict=True):
        if not torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
            yield f"returns other values from {method} for the same images again; evaluation allows no random numbers"
        if not torch.allclose(first.expand_as(alone), alone, rtol=1e-3, atol=1e-4, equal_nan=True):
            yield f"mixes the images of a batch in {method}: an image alone gets other values than in a batch"


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return "None" if value is None else f"a {type(value).__name__}"
    return f"{'' if value.isfinite().all() else 'not finite '}{value.dtype} {list(value.shape)}"
