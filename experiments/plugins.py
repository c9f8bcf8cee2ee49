"""The check of a user's own positional embedding, before anything is trained or planned with it."""

from experiments.config import RunConfig
from experiments.errors import UserError
from vit.registry import REGISTRY, PluginError


def check_plugin(config: RunConfig) -> None:
    """Raise `UserError` where the class of a plug-in cannot work in a run, or not at `eval.img_sizes`."""
    if (kind := REGISTRY[config.model.pos_embed]).is_plugin:
        from vit import probe  # imports torch

        interpolated = config.eval.interpolated and kind.is_rotary
        try:
            probe.check_plugin(config.vit_config(config.data.num_classes or 2), config.eval.img_sizes, interpolated)
        except PluginError as error:
            raise UserError(str(error)) from error
