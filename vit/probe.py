"""Check a plug-in before a model is trained with it: one forward and backward pass of a small model."""

from collections.abc import Sequence

import torch

from vit.config import ViTConfig
from vit.model import ViT
from vit.plugins import PluginError, reason
from vit.pos_embed import PosEmbed
from vit.registry import resolve
from vit.resize import SizeError, resized

METHODS = ("add", "rotate", "bias", "mixed", "join")
BATCH = 2  # images of the probe


def check_plugin(cfg: ViTConfig, sides: Sequence[int] = (), interpolated: bool = False) -> None:
    """Raise `PluginError` if the plug-in of `cfg.pos_embed` cannot work, or not at these sides of images.

    Built-in kinds pass. The class must override a method of `PosEmbed`. A model of at most two layers must give finite
    scores, and each of its parameters a finite gradient. torch's global generator is unchanged.
    """
    kind, _ = resolve(cfg)
    if not kind.is_plugin:
        return
    fault = ""
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            fault = _fault_of_class(kind.cls)
            if not fault:
                model = ViT(cfg.model_copy(update={"depth": min(cfg.depth, 2)}))
                models = (model, *(resized(model, side, interpolated) for side in sides))
                fault = next(filter(None, map(_fault_of_model, models)), "")
    except SizeError as error:
        fault = str(error).partition(f"{cfg.pos_embed!r} ")[2]
    except (Exception, SystemExit) as error:
        fault = f"raises {reason(error)}"
    if fault:
        raise PluginError(f"{cfg.pos_embed}: the class {kind.cls.__name__} {fault}")


def _fault_of_class(cls: type) -> str:
    """What is wrong with a class, in words that follow its name; "" where nothing is."""
    if not issubclass(cls, PosEmbed):
        return "is not a subclass of vit.pos_embed.PosEmbed"
    if all(getattr(cls, method) is getattr(PosEmbed, method) for method in METHODS):
        return f"overrides none of {', '.join(METHODS)}, so it does nothing"
    return ""


def _fault_of_model(model: ViT) -> str:
    """What is wrong in one training step and one evaluation of a model with the class."""
    x = torch.randn(BATCH, model.cfg.in_chans, model.cfg.img_size, model.cfg.img_size)
    scores = model.train()(x, torch.tensor(0, dtype=torch.int32))
    if not scores.isfinite().all() or not model.eval()(x).isfinite().all():
        return "makes the scores of a model infinite or NaN"
    names, parameters = zip(*((name, p) for name, p in model.named_parameters() if p.requires_grad), strict=True)
    gradients = torch.autograd.grad((scores * torch.randn_like(scores)).sum(), parameters, allow_unused=True)
    for name, gradient in zip(names, gradients, strict=True):
        if gradient is None or not gradient.isfinite().all():
            return f"passes no finite gradient to {name}"
    return ""
