"""What a run is: data + model + optimiser + training + seed, frozen and validated; `override` is the only way to change it."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from experiments.canonical import canonical
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError
from vit.config import Architecture, ViTConfig
from vit.registry import nearest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A part of a configuration: frozen, and no field that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DataConfig(Section):
    """What is learned from, how it is split, and how training images are augmented."""

    name: str = Field("digits", description="dataset: " + ", ".join(DATASETS))
    root: str = Field(
        "data",
        description="folder of the dataset's files, as torchvision lays them out; part of a run's identity for imagefolder only",
    )
    download: bool = Field(
        False, description="fetch missing files into root (torchvision's datasets); not part of a run's identity"
    )
    img_size: int | None = Field(
        None, ge=1, description="resize images to this side, pixels; default: the dataset's own (imagefolder: 64)"
    )
    num_classes: int | None = Field(
        None, ge=2, description="classes expected of an imagefolder; default: as many as it has"
    )
    val_fraction: float = Field(
        0.1, gt=0, lt=1, description="share of the training images kept for validation, stratified"
    )
    test_fraction: float = Field(
        0.2, gt=0, lt=1, description="share kept for testing where the dataset has no test set of its own"
    )
    split_seed: int = Field(
        0, ge=0, lt=2**31, description="seed of the split: the same for every run, whatever its seed"
    )
    train_limit: int | None = Field(None, ge=1, description="train on this many images only, stratified; default: all")
    shuffle_patches: bool = Field(
        False, description="control: put each image's patches in an order of its own, so that position means nothing"
    )
    hflip: bool = Field(False, description="augment: mirror half of the training images")
    crop_padding: int = Field(
        0, ge=0, description="augment: pad by this many black pixels and crop back at random; 0: off"
    )
    rrc_scale: float = Field(
        1.0, gt=0, le=1, description="augment: random resized crop of at least this share of the area; 1: off"
    )
    normalize: Literal["unit", "half", "dataset"] = Field(
        "dataset",
        description="pixels to [0, 1]; to [-1, 1] (mean and deviation .5); or by the training set's channel mean and deviation",
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in DATASETS:
            raise ValueError(f"{name!r} is not known; {nearest(name, list(DATASETS))}")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> DataConfig:
        if self.crop_padding and self.rrc_scale < 1:
            raise ValueError("rrc_scale: choose either crop_padding or rrc_scale < 1, not both")
        if self.num_classes and DATASETS[self.name].num_classes:
            raise ValueError(
                f"num_classes: {self.num_classes} is for imagefolder; {self.name} has its own; allowed: none"
            )
        if self.crop_padding >= self.image_shape[1]:
            side = self.image_shape[1]
            raise ValueError(
                f"crop_padding: {self.crop_padding} leaves crops without an image; allowed: less than its side, {side} px"
            )
        if self.shuffle_patches and (self.crop_padding or self.rrc_scale < 1):
            field = "crop_padding" if self.crop_padding else "rrc_scale"
            moved = (
                f"{field}: {getattr(self, field)} would cut shuffled patches apart, so that position meant something"
            )
            raise ValueError(f"{moved}; allowed with shuffle_patches: {type(self).model_fields[field].default}")
        if DATASETS[self.name].cell:
            for field in ("img_size", "hflip", "crop_padding", "rrc_scale"):
                value, default = getattr(self, field), type(self).model_fields[field].default
                if value != default:
                    raise ValueError(
                        f"{field}: {value} would move or blur the marks of {self.name}; allowed: {default}"
                    )
        return self

    @property
    def image_shape(self) -> tuple[int, int]:
        """(channels, side in pixels) of the images a model sees."""
        dataset = DATASETS[self.name]
        return dataset.in_chans, self.img_size or dataset.img_size or 64


class OptimConfig(Section):
    """How weights are moved."""

    name: Literal["adamw", "adam", "sgd"] = Field("adamw", description="optimiser")
    lr: Positive = Field(1e-3, description="learning rate, the highest of the schedule")
    weight_decay: NotNegative = Field(
        0.05, description="weight decay; biases, norms, tokens and positions are left alone"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd")
    schedule: Literal["constant", "cosine"] = Field(
        "cosine", description="constant, or linear warm-up and half a cosine to 0, step by step"
    )
    warmup_epochs: NotNegative = Field(
        0.0, le=1e6, description="epochs of the cosine schedule's warm-up; a shorter training is all warm-up"
    )
    grad_clip_norm: NotNegative = Field(
        0.0, description="longest that a run's gradient may be, all weights together; 0 is no clipping"
    )


class TrainConfig(Section):
    """How long, in what portions and in what arithmetic."""

    epochs: int = Field(30, ge=1, description="passes over the training images")
    batch_size: int = Field(64, ge=1, description="images a step")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing of the training loss")
    precision: Literal["float32", "bfloat16", "float64"] = Field(
        "float32", description="arithmetic; bfloat16 is autocast with float32 weights"
    )
    compile: Literal["none", "default", "reduce-overhead"] = Field(
        "none",
        description="mode of torch.compile, changing no more than rounding; reduce-overhead is CUDA graphs on a GPU",
    )


class RunConfig(Section):
    """One run. As it stands: a small ViT on scikit-learn's digits, seconds on one core."""

    data: DataConfig = DataConfig()
    model: Architecture = Architecture(patch_size=2, embed_dim=32, depth=2, num_heads=4)
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    seed: int = Field(0, ge=0, lt=2**31, description="decides initialisation, order, augmentation and dropout")

    @model_validator(mode="after")
    def _model_fits_data(self) -> RunConfig:
        self.vit_config(self.data.num_classes or 2)
        cell = DATASETS[self.data.name].cell
        if cell and self.model.patch_size != cell:
            raise ValueError(
                f"model.patch_size: {self.model.patch_size} cuts or joins the cells of {self.data.name}; allowed: {cell}"
            )
        return self

    def vit_config(self, num_classes: int | None = None) -> ViTConfig:
        """The whole model for these data; `num_classes` is used where the catalogue does not know it (imagefolder)."""
        in_chans, img_size = self.data.image_shape
        classes = DATASETS[self.data.name].num_classes or num_classes
        try:
            return ViTConfig(**self.model.model_dump(), in_chans=in_chans, img_size=img_size, num_classes=classes)
        except ValidationError as error:
            raise ValueError(_line(error, "model")) from error


def completed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's plain form with the settings that are younger than it, as `RunConfig()` has them.

    Unlike `load` it checks nothing: a record stays readable when what is allowed has changed.
    """
    return {
        section: {**_DEFAULTS[section], **given}
        if isinstance(_DEFAULTS.get(section), dict) and isinstance(given, Mapping)
        else given
        for section, given in tree.items()
    }


FREE = ("seed", "optim.lr", "optim.weight_decay")  # settings in which members of a cohort may differ
WHERE = {  # where files lie does not change what a run becomes
    name: DataConfig.model_fields[name].default for name in ("root", "download")
}


def run_id(config: RunConfig) -> str:
    """16 hex digits that are equal where two configurations differ at most in where files lie or how a site is spelled.

    A hash of the settings that differ from `RunConfig()`: a setting added later, off by default, changes no id. So a
    default, once published, must never change.
    """
    tree = config.model_dump()
    known = DATASETS[config.data.name].source != "folder"  # of a user's own images the folder is the only name
    tree["data"] |= WHERE if known else {"download": WHERE["download"]}
    tree["model"]["pos_site"] = config.vit_config(config.data.num_classes or 2).site
    flat = {path: _at(tree, path) for path in LEAVES}
    told = {path: value for path, value in flat.items() if value != _at(_DEFAULTS, path)}
    return hashlib.sha256(canonical(told)).hexdigest()[:16]


def cohort_key(config: RunConfig) -> bytes:
    """Equal where runs may be trained as one stacked model: they differ in nothing but the settings in `FREE`."""
    tree = config.model_dump()
    return canonical({path: _at(tree, path) for path in LEAVES if path not in FREE})


def _at(tree: Mapping[str, Any], path: str) -> Any:
    for key in path.split("."):
        tree = tree[key]
    return tree


def override(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """A new configuration with dotted paths set to values: `override(c, {"model.pos_embed": "none"})`.

    Values may be strings, as a command line has them; there "none" unsets what may be unset. `-` and `_` are the same in
    a path.
    Raises `UserError` naming the path, the value and what is allowed.
    """
    tree = config.model_dump()
    for path, value in changes.items():
        name = path.replace("-", "_")
        if name not in LEAVES:
            close = difflib.get_close_matches(name, list(LEAVES), n=1)
            raise UserError(
                f"{path}: no such setting; " + (f"did you mean {close[0]}?" if close else "vit-train --help lists them")
            )
        if isinstance(value, bool) and LEAVES[name].annotation is not bool:  # pydantic would take true for 1
            raise UserError(f"{path}: {str(value).lower()} is not allowed: it is no switch")
        if value == "none" and type(None) in get_args(LEAVES[name].annotation):
            value = None
        *sections, field = name.split(".")
        node = tree
        for section in sections:
            node = node[section]
        node[field] = value
    return load(tree)


def load(tree: Mapping[str, Any]) -> RunConfig:
    """A configuration from its nested plain form (`config.json`). Raises `UserError`."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise UserError(_line(error)) from error


def leaves(section: type[BaseModel] = RunConfig, prefix: str = "") -> Iterator[tuple[str, FieldInfo, Any]]:
    """Every setting, in order: (dotted path, its field, its default in `RunConfig()`)."""
    default = RunConfig.model_construct()
    for part in filter(None, prefix.split(".")):
        default = getattr(default, part)
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field, getattr(default, name)


def _line(error: ValidationError, prefix: str = "") -> str:
    """The first complaint of pydantic as one line: path, value, what is allowed."""
    first = error.errors(include_url=False)[0]
    path = ".".join([prefix] * bool(prefix) + [str(part) for part in first["loc"]])
    if first["type"] == "value_error":  # our own words: they name the field where the path is only a section's
        own = str(first["ctx"]["error"])
        named = path in LEAVES
        return f"{path}: {own}" if named else f"{path}.{own}" if path else own
    if first["type"] == "extra_forbidden":
        return f"{path}: no such setting"
    return f"{path}: {first['input']!r} is not allowed: {first['msg']}"


LEAVES: dict[str, FieldInfo] = {path: field for path, field, _ in leaves()}
_DEFAULTS: dict[str, Any] = RunConfig.model_construct().model_dump()
