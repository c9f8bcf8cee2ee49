"""A trained model at another image size, without further training (arXiv 2010.11929, section 3.2)."""

from typing import cast

import torch
from pydantic import ValidationError

from vit.config import ViTConfig
from vit.model import ViT
from vit.pos_embed import PosEmbed


class SizeError(ValueError):
    """A model that cannot be used at another image size (pixels), and why."""

    def __init__(self, kind: str, side: int, why: str) -> None:
        super().__init__(f"pos_embed: {kind!r} cannot be used at {side} px{why}")


def resized(model: ViT, img_size: int, interpolated: bool = False) -> ViT:
    """The model for square images of another size (pixels), with the same patch size and all learned values.

    `PosEmbed.resized` gives the values of the positional embedding at the new size. The same size returns the model
    itself. `interpolated`: a rotary embedding rotates by coordinates times trained side / side, within the range of the
    training (Chen et al. 2023, arXiv 2306.15595). Raises `SizeError` if the patch size does not divide
    the image side, if a plug-in has parameters that depend on the size and does not override `PosEmbed.resized`, or
    overrides it and leaves out a parameter, or if there is no rotation to interpolate.
    """
    if img_size == model.cfg.img_size:
        return model
    try:
        cfg = ViTConfig(**{**model.cfg.model_dump(), "img_size": img_size})
    except ValidationError as error:
        (reason, *_) = error.errors()
        why = reason.get("ctx", {}).get("error", reason["msg"])
        raise SizeError(model.cfg.pos_embed, img_size, f": {why}") from error
    weight = next(model.parameters())
    with torch.random.fork_rng(devices=[]):
        new = ViT(cfg)
    state = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("pos.")}
    for number, module in enumerate(model.pos):
        new_state, values = new.pos[number].state_dict(), cast(PosEmbed, module).resized(cfg)
        if missing := [name for name, _ in module.named_parameters() if name not in values]:
            raise SizeError(cfg.pos_embed, img_size, f": its method `resized` leaves out {missing[0]}")
        for name, tensor in values.items():
            if name not in new_state or new_state[name].shape != tensor.shape:
                why = f": its class does not override `resized(self, cfg)`, and {name} depends on the image size"
                raise SizeError(cfg.pos_embed, img_size, why)
            state[f"pos.{number}.{name}"] = tensor
    new.to(weight.device, weight.dtype).load_state_dict(state, strict=False)  # fixed values are those of the new size
    if interpolated:
        _interpolate(new, model.cfg.grid_size / cfg.grid_size)
    return new.train(model.training)


def _interpolate(model: ViT, factor: float) -> None:
    try:
        for module in model.pos:
            cast(PosEmbed, module).stretch(factor)
    except ValueError as error:
        why = f" with interpolated positions: {error}"
        raise SizeError(model.cfg.pos_embed, model.cfg.img_size, why) from error
