"""Checks of a whole configuration: settings that have an effect only together with others, and plug-ins."""

from collections.abc import Callable, Iterable

from experiments.catalogue import DATASETS
from experiments.config import RunConfig
from experiments.errors import UserError
from experiments.sections import OTHER_CLASSES
from vit.registry import REGISTRY, PluginError

# Setting -> (whether it has an effect on a run, what that needs):
NEEDS: dict[str, tuple[Callable[[RunConfig], bool], str]] = {
    "optim.momentum": (lambda config: config.optim.name == "sgd", "optim.name sgd"),
    "optim.min_lr": (lambda config: config.optim.schedule == "cosine", "optim.schedule cosine"),
    "optim.warmup_epochs": (lambda config: config.optim.schedule == "cosine", "optim.schedule cosine"),
    "model.drop_path_rate": (lambda config: config.model.depth > 1, "a model.depth of at least 2"),
    "model.act": (lambda config: config.model.mlp == "plain" or config.model.pool == "map", "model.mlp plain"),
    "eval.shots": (lambda config: bool(config.eval.fewshot), "eval.fewshot"),
    "eval.interpolated": (
        lambda config: bool(config.eval.img_sizes) and REGISTRY[config.model.pos_embed].is_rotary,
        "eval.img_sizes and a rotary model.pos_embed",
    ),
    "data.test_fraction": (
        lambda config: (
            not all(DATASETS[name].has_test_set for name in {config.data.name, *config.eval.fewshot} - {OTHER_CLASSES})
        ),
        "a dataset without a test set of its own",
    ),
}


def missing_need(path: str, configs: Iterable[RunConfig]) -> str:
    """What a setting needs to have an effect on any of these runs, such as `optim.name sgd`; empty if it has one."""
    if path not in NEEDS:
        return ""
    has_effect, need = NEEDS[path]
    return "" if any(map(has_effect, configs)) else need


def check_plugin(config: RunConfig) -> None:
    """Raise `UserError` where the class of a plug-in cannot work in a run, or not at `eval.img_sizes`."""
    if (kind := REGISTRY[config.model.pos_embed]).is_plugin:
        from vit import probe  # imports torch

        interpolated = config.eval.interpolated and kind.is_rotary
        try:
            probe.check_plugin(config.vit_config(config.data.num_classes or 2), config.eval.img_sizes, interpolated)
        except PluginError as error:
            raise UserError(str(error)) from error
