"""The configuration of a run: data, model, optimizer, training and seed, validated and frozen.

`override` is the only way to change one. `run_id` identifies what a run computes.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError

from experiments.catalogue import DATASETS
from experiments.errors import UserError, first_line, setting_text
from experiments.files import canonical
from experiments.metric import FEWSHOT, FEWSHOT_L2, FEWSHOT_VAL, METRICS, PERMUTED, REPEATED, SHIFT, Metric
from experiments.sections import OTHER_CLASSES, PER_SEED, DataConfig, EvalConfig, OptimConfig, Section, TrainConfig
from vit.config import Architecture, ViTConfig
from vit.registry import REGISTRY, defaults, did_you_mean, nearest, site_of


class RunConfig(Section):
    """One run. The defaults are a small ViT on scikit-learn's digits, which trains in seconds on one core."""

    data: DataConfig = DataConfig()
    model: Architecture = Architecture(patch_size=2, embed_dim=32, depth=2, num_heads=4)
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    seed: int = Field(
        0, ge=0, lt=2**31, description="random seed of initialization, data order, augmentation and dropout"
    )

    def _problems(self) -> Iterator[str]:
        self.vit_config(self.data.num_classes or 2)
        if (cell := DATASETS[self.data.name].cell) and self.model.patch_size != cell:
            yield f"model.patch_size: {self.model.patch_size} is not the cell size of {self.data.name}; allowed: {cell}"
        epochs, lengths = self.train.epochs, self.eval.epochs
        if max(lengths, default=0) > epochs:
            yield f"eval.epochs: {lengths[-1]} is not allowed: up to train.epochs, {epochs}"
        if min(lengths, default=epochs) < epochs and self.optim.schedule != "constant":
            yield (
                f"eval.epochs: {lengths[0]} is not allowed with optim.schedule cosine, whose learning rates depend "
                "on train.epochs; use a constant rate, or make train.epochs a factor of a study"
            )
        for name in self.eval.fewshot:
            yield from self._fewshot_problems(name)
        if odd := [side for side in self.eval.img_sizes if side % self.model.patch_size]:
            yield f"eval.img_sizes: {odd[0]} is not allowed: a multiple of model.patch_size, {self.model.patch_size}"
        if self.eval.img_sizes and self.data.shuffle_patches:
            yield "eval.img_sizes: is not allowed with data.shuffle_patches"
        if self.eval.max_shift >= (side := self.data.image_shape[1]):
            yield f"eval.max_shift: {self.eval.max_shift} is not allowed: less than the image side, {side} px"
        for field in ("img_sizes", "max_shift"):
            if cell and getattr(self.eval, field):
                yield f"eval.{field}: is not allowed for {self.data.name}: it would move or blur the marks"

    def _fewshot_problems(self, name: str) -> Iterator[str]:
        """Why the run's model cannot read the images of a few-shot dataset."""
        if name == OTHER_CLASSES:
            if not self.data.classes:
                yield f"eval.fewshot: {name} is not allowed without data.classes"
            name = self.data.name
        if name not in DATASETS:
            yield f"eval.fewshot: {name!r} is not known; {nearest(name, [*DATASETS, OTHER_CLASSES])}"
        dataset, trained = DATASETS[name], DATASETS[self.data.name]
        if name != self.data.name and dataset.source in ("folder", "generated", "plugin"):
            yield f"eval.fewshot: {name} is allowed only where it is also data.name"
        if dataset.source in ("torchvision", "class") and trained.source == "folder":
            yield f"eval.fewshot: {name} is not allowed for {self.data.name}: both would be in data.root"
        if dataset.in_chans not in (1, trained.in_chans):  # one channel is repeated
            yield f"eval.fewshot: {name} has {dataset.in_chans} channel(s), and {self.data.name} {trained.in_chans}"
        if not self.eval.shots:
            yield "eval.shots: is empty; expected numbers such as 1,5,10,25"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric that the run measures if it finishes."""
        fewshot = [
            Metric(f"{kind}/{name}/{shots}")
            for name in self.eval.fewshot
            for shots in self.eval.shots
            for kind in (FEWSHOT, FEWSHOT_VAL, FEWSHOT_L2)
        ]
        lengths = (metric.after(n) for n in self.eval.epochs for metric in (*REPEATED, *fewshot))
        sizes = (metric.at(side, i) for side in self.eval.img_sizes for i in self.interpolations for metric in REPEATED)
        shifts = (Metric(f"{SHIFT}/{pixels}") for pixels in range(1, self.eval.max_shift + 1))
        return *METRICS, *fewshot, *lengths, *sizes, *shifts, *((Metric(PERMUTED),) if self.eval.permuted else ())

    @property
    def interpolations(self) -> tuple[bool, ...]:
        """Whether rotary positions are interpolated, for each measurement at another image size."""
        return (False, True) if self.eval.interpolated else (False,)

    @property
    def split_seed(self) -> int:
        """The seed of the split: `data.split_seed`, or the seed of the run for "per-seed"."""
        return self.seed if self.data.split_seed == PER_SEED else self.data.split_seed

    def vit_config(self, num_classes: int | None = None) -> ViTConfig:
        """The complete model for these data. `num_classes` is used where the settings do not say it (imagefolder)."""
        in_chans, img_size = self.data.image_shape
        classes = len(self.data.classes) or DATASETS[self.data.name].num_classes or num_classes
        try:
            return ViTConfig(**self.model.model_dump(), in_chans=in_chans, img_size=img_size, num_classes=classes)
        except ValidationError as error:
            raise ValueError(self._named(first_line(error))) from error

    def _named(self, refusal: str) -> str:
        """The refusal of a model, with the setting that it begins with. A plug-in's may begin with something else."""
        field = refusal.partition(":")[0]
        section = next((name for name in ("model", "data") if field in type(getattr(self, name)).model_fields), None)
        kind = f"model.pos_embed: {self.model.pos_embed!r} is not allowed: "
        return (f"{section}." if section else kind) + refusal


@dataclass(frozen=True)
class Setting:
    """One field of `RunConfig`, as command lines and studies see it."""

    path: str
    annotation: Any
    default: Any
    description: str

    @property
    def choices(self) -> tuple[str, ...]:
        """All allowed values, or () if there are too many to list."""
        if self.path in ("data.name", "model.pos_embed"):
            return tuple(DATASETS if self.path == "data.name" else REGISTRY)
        if self.annotation is bool:
            return ("true", "false")
        return get_args(self.annotation) if get_origin(self.annotation) is Literal else ()

    @property
    def optional(self) -> bool:
        """Whether the setting may be unset, with the value none."""
        return type(None) in get_args(self.annotation)

    def parse(self, value: Any) -> Any:
        """The value that pydantic gets. Raises `UserError` for a boolean in place of a number."""
        if self.optional and value in ("none", "None", "null"):  # the others from W&B's agents and older files
            return None
        if isinstance(value, bool) and self.annotation is not bool:  # pydantic would read true as 1
            is_text = self.choices or str in (self.annotation, *get_args(self.annotation))
            expected = "a string" if is_text else "a number"
            raise UserError(f"{self.path}: {setting_text(value)} is not allowed: expected {expected}, got a boolean")
        return os.path.expanduser(value) if self.path in LOCATIONS and isinstance(value, str) else value


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every (dotted path, value) of a nested mapping."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def changed_settings(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a nested configuration that differ from the defaults, by dotted path."""
    return {path: value for path, value in flatten(_without_removed(tree)) if value != DEFAULTS.get(path, ...)}


def _without_removed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration without the settings in `REMOVED` that have their value there."""
    return {name: value for name, value in tree.items() if value != REMOVED.get(name, ...)}


def _settings(section: Any, prefix: str = "") -> Iterator[Setting]:
    for name, field in section.model_fields.items():
        path = prefix + name
        if path in DEFAULTS:
            yield Setting(path, field.annotation, DEFAULTS[path], field.description or "")
        else:
            yield from _settings(field.annotation, f"{path}.")


_DEFAULT_TREE: dict[str, Any] = RunConfig.model_construct().model_dump()
DEFAULTS: dict[str, Any] = dict(flatten(_DEFAULT_TREE))
SETTINGS: dict[str, Setting] = {setting.path: setting for setting in _settings(RunConfig)}
SECTIONS = {path.partition(".")[0] for path in DEFAULTS if "." in path}
LOCATIONS = ("data.root", "data.download")  # the settings that say where files are, not what they hold
REMOVED = {"init_from": None, "init_weights": None}  # of exports in analysis/reference: settings that change nothing


def unplaced(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted path without `LOCATIONS`. An imagefolder keeps its name, the last part of its path."""
    kept = {path: value for path, value in settings.items() if path not in LOCATIONS}
    dataset = DATASETS.get(settings.get("data.name"))
    if dataset and dataset.source == "folder" and isinstance(root := settings.get("data.root"), str):
        kept["data.root"] = os.path.basename(os.path.abspath(root))
    return kept


def run_id(config: RunConfig) -> str:
    """16 hex digits that identify what a run computes.

    A hash of the settings that differ from `RunConfig()`, so a new setting whose default changes nothing keeps all ids.
    For the same reason a published default must never change. Where files are stored is left out, see `unplaced`.
    Settings count as in `plain_settings`. The source of a plug-in counts: a changed class is another run.
    """
    settings = unplaced(plain_settings(dict(flatten(config.model_dump()))))
    changed = {path: value for path, value in settings.items() if value != DEFAULTS[path]}
    if plugin := REGISTRY[config.model.pos_embed].plugin:
        changed["plugin"] = plugin.digest
    if plugin := DATASETS[config.data.name].plugin:
        changed["data_plugin"] = plugin.digest
    return hashlib.sha256(canonical(changed)).hexdigest()[:16]


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted path, equal for equal meanings: a natural site is the site that it stands for, and a kind's
    own default is None.
    """
    kind = settings.get("model.pos_embed") or "none"
    usual = (
        defaults(REGISTRY[kind], settings.get("model.init"), settings.get("model.embed_dim"))
        if kind in REGISTRY
        else {}
    )
    same = {f"model.{field}": None for field, value in usual.items() if settings.get(f"model.{field}") == value}
    return {**settings, **same, "model.pos_site": site_of(kind, settings.get("model.pos_site"))}


def cohort_key(config: RunConfig) -> bytes:
    """Equal for runs that can be stacked into one model: they differ only in their seed, and not in their split."""
    return canonical({**config.model_dump(exclude={"seed"}), "split": config.split_seed})


def override(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """A new configuration with dotted paths set to values: `override(c, {"model.pos_embed": "none"})`.

    Values may be strings, as on a command line; the string "none" unsets an optional setting. A path may contain `-`
    for `_`. Raises `UserError` naming the path, the value and what is allowed.
    """
    tree = config.model_dump()
    for path, value in changes.items():
        name = path.replace("-", "_")
        if name not in SETTINGS:
            hint = did_you_mean(name, list(SETTINGS), "`vit-train settings` lists all")
            raise UserError(f"{path}: no such setting; {hint}")
        section, _, field = name.rpartition(".")
        (tree[section] if section else tree)[field] = SETTINGS[name].parse(value)
    return load(tree)


def load(tree: Mapping[str, Any]) -> RunConfig:
    """A configuration from its nested plain form (`config.json`), also of an earlier version. Raises `UserError`."""
    try:
        return RunConfig.model_validate(_without_removed(tree) if isinstance(tree, Mapping) else tree)
    except ValidationError as error:
        raise UserError(first_line(error, SECTIONS)) from error


def completed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded configuration, plain and nested, with the defaults of settings that are newer than the record, and
    without those that were removed and changed nothing.

    Unlike `load` it validates nothing: a record stays readable when the allowed values change.
    """
    ours = {name: defaults for name, defaults in _DEFAULT_TREE.items() if isinstance(defaults, dict)}
    sections = {name: {**ours[name], **tree[name]} for name in ours if isinstance(tree.get(name), Mapping)}
    if sections.keys() >= {"data", "model", "optim", "train"}:  # a record of ours: a whole section may be newer
        sections = {name: sections.get(name, ours[name]) for name in ours if name in sections or name not in tree}
        sections |= {name: value for name, value in _DEFAULT_TREE.items() if name not in {*ours, *tree, "seed"}}
    return {**_without_removed(tree), **sections}
