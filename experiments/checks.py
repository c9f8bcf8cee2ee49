"""Checks of a whole configuration: settings that have an effect only together with others, and plug-ins."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from experiments.catalogue import DATASETS
from experiments.config import DEFAULTS, RunConfig, flatten, override, run_id
from experiments.errors import UserError, say
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


def warn_of_no_effect(paths: Iterable[str], config: RunConfig, prog: str) -> None:
    """Print a line for each of these settings that has no effect on a run. One that is 0 asks for none."""
    values = dict(flatten(config.model_dump()))
    for path in paths:
        if values[path] and (need := missing_need(path, [config])):
            say(f"{prog}: warning: {path}: has no effect on this run; it needs {need}", error=True)


def warn_of_equal_variants(variants: Mapping[str, RunConfig], prog: str) -> None:
    """Print a line for each variant that differs from an earlier one only in settings without an effect on both."""
    known: dict[str, str] = {}
    for label, config in variants.items():
        unused = {path: DEFAULTS[path] for path, (has_effect, _) in NEEDS.items() if not has_effect(config)}
        other = known.setdefault(run_id(override(config, unused)), label)
        if other != label:
            path = next(path for path in NEEDS if attrgetter(path)(config) != attrgetter(path)(variants[other]))
            why = f"{path} has no effect there; it needs {NEEDS[path][1]}"
            say(f"{prog}: warning: {label!r} and {other!r} train the same: {why}", error=True)


def check_plugin(config: RunConfig) -> None:
    """Raise `UserError` where the class of a plug-in cannot work in a run, or not at `eval.img_sizes`."""
    if (kind := REGISTRY[config.model.pos_embed]).is_plugin:
        from vit import probe  # imports torch

        interpolated = config.eval.interpolated and kind.is_rotary
        try:
            probe.check_plugin(config.vit_config(config.data.num_classes or 2), config.eval.img_sizes, interpolated)
        except PluginError as error:
            raise UserError(str(error)) from error
