"""The sections of a run's configuration: data, optimizer, training, evaluation. Each is validated and frozen."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, model_validator

from experiments.catalogue import DATASETS
from experiments.errors import setting_text
from vit.config import Count
from vit.registry import nearest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
OTHER_CLASSES = "other-classes"  # a few-shot dataset: the classes that data.classes leaves out
PER_SEED: Literal["per-seed"] = "per-seed"  # the value of data.split_seed that varies the split with the run's seed


class Section(BaseModel, frozen=True, extra="forbid"):
    """A part of a configuration: frozen, without undeclared fields, refused if it has a problem."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterable[str]:
        """What does not fit together, as `FIELD: ...`. Only the first counts: the others may follow from it."""
        return ()


def _names(value: Any) -> tuple[str, ...]:
    """A list of names, given as a list, or as text with commas. Sorted: equal lists give equal run ids."""
    parts = value if isinstance(value, list | tuple) else ("" if value in (None, "none") else str(value)).split(",")
    return tuple(sorted({str(part).strip() for part in parts} - {""}))


def _numbers(value: Any) -> tuple[int, ...]:
    """A list of whole numbers from 1, given as a list or as 5,10,20."""
    names = _names(value)
    if not all(name.isascii() and name.isdecimal() and 1 <= int(name) < 2**31 for name in names):
        raise ValueError(f"{value!r} is not allowed: expected whole numbers from 1, such as 5,10,20")
    return tuple(sorted(set(map(int, names))))


_as_text = PlainSerializer(lambda values: ",".join(map(str, values)), return_type=str)
Names = Annotated[tuple[str, ...], BeforeValidator(_names), _as_text]  # as text in commands and records
Numbers = Annotated[tuple[int, ...], BeforeValidator(_numbers), _as_text]


class DataConfig(Section):
    """The dataset, its splits and the augmentation."""

    name: str = Field("digits", description="dataset; torchvision:SVHN is that class of torchvision.datasets")
    root: str = Field("data", description="folder of the dataset's files; of an imagefolder: of its class folders")
    download: bool = Field(False, description="download missing files into root (torchvision datasets only)")
    img_size: Count | None = Field(
        None,
        description="resize images to this side, in pixels; an imagefolder is scaled until its shorter side fits, then "
        "cropped at the centre; default: the dataset's own, or 64",
    )
    num_classes: int | None = Field(
        None, ge=2, lt=2**31, description="classes of images that are your own; default: any number"
    )
    classes: Names = Field(
        (),
        description="the classes to use, such as cat,dog; eval.fewshot other-classes probes the others; default: all",
    )
    val_fraction: float = Field(
        0.1, gt=0, lt=1, description="fraction of training images for validation, stratified, if no folder val has them"
    )
    test_fraction: float = Field(0.2, gt=0, lt=1, description="fraction of images for testing if there is no test set")
    split_seed: Annotated[int, Field(ge=0, lt=2**31)] | Literal["per-seed"] = Field(
        0, description="seed of the split, for all runs; or per-seed: that of the run, so that the split varies too"
    )
    train_limit: Count | None = Field(None, description="number of training images to use, stratified; default: all")
    shuffle_patches: bool = Field(False, description="control: shuffle the patches of each image")
    hflip: bool = Field(False, description="augmentation: flip images horizontally with probability 0.5")
    crop_padding: int = Field(0, ge=0, description="augmentation: black pixels around random crops; 0 is off")
    rrc_scale: float = Field(1.0, gt=0, le=1, description="augmentation: least area (fraction) of random resized crops")
    randaugment: bool = Field(
        False, description="augmentation: torchvision's RandAugment (two operations, magnitude 9), before crops, flips"
    )
    autoaugment: Literal["cifar10"] | None = Field(
        None, description="augmentation: AutoAugment's policy for CIFAR-10, before crops and flips; default: none"
    )
    random_erasing: float = Field(0.0, ge=0, le=1, description="augmentation: probability to erase part of an image")
    mixup: NotNegative = Field(0.0, description="augmentation: alpha of mixup of the images of a batch; 0 is off")
    cutmix: NotNegative = Field(
        0.0, description="augmentation: alpha of CutMix; with mixup, each batch takes one of both"
    )
    normalize: Literal["unit", "half", "dataset"] = Field(
        "dataset",
        description="pixel range: [0, 1] (unit), [-1, 1] (half), or zero mean and unit variance in each channel "
        "(dataset)",
    )

    def _problems(self) -> Iterator[str]:
        if self.name not in DATASETS:
            yield f"name: {self.name!r} is not known; {nearest(self.name, DATASETS)}, torchvision:CLASS"
        if not self.root.strip():  # of an unset shell variable; a path of no characters is the current folder
            yield f"root: {self.root!r} is not allowed: expected the path of a folder; . is the current one"
        dataset, side = DATASETS[self.name], self.image_shape[1]
        if self.num_classes and dataset.num_classes:
            yield f"num_classes: {self.num_classes} is not allowed for {self.name}; allowed: none"
        if len(self.classes) == 1:
            yield f"classes: {self.classes[0]} is not allowed: expected at least two"
        if self.crop_padding and self.rrc_scale < 1:
            yield "rrc_scale: set either crop_padding or rrc_scale < 1, not both"
        if self.randaugment and self.autoaugment:
            yield "autoaugment: set either randaugment or autoaugment, not both"
        if self.crop_padding >= side:
            yield f"crop_padding: {self.crop_padding} is not allowed: less than the image side, {side} px"
        crops = ("crop_padding", "rrc_scale", "randaugment", "autoaugment")
        if self.shuffle_patches:
            yield from self._changed(crops, "with shuffle_patches: it would cut through patches")
        if dataset.cell:
            moving = "img_size", "hflip", *crops, "random_erasing", "mixup", "cutmix"
            yield from self._changed(moving, f"for {self.name}: it would move or blur the marks")
            yield from self._changed(("classes",), f"for {self.name}: its marks show every class")

    def _changed(self, fields: Iterable[str], reason: str) -> Iterator[str]:
        """The fields that do not have their default value, which is the only one allowed."""
        for field in fields:
            value, default = getattr(self, field), type(self).model_fields[field].default
            if value != default:
                yield f"{field}: {setting_text(value)} is not allowed {reason}; allowed: {setting_text(default)}"

    @property
    def image_shape(self) -> tuple[int, int]:
        """(channels, side in pixels) of the model's input."""
        dataset = DATASETS[self.name]
        return dataset.in_chans, self.img_size or dataset.img_size or 64


class OptimConfig(Section):
    """The optimizer and its learning rate schedule."""

    name: Literal["adamw", "adam", "sgd"] = Field("adamw", description="optimizer")
    lr: Positive = Field(1e-3, description="peak learning rate")
    weight_decay: NotNegative = Field(0.05, description="weight decay; not of biases, norms, tokens and positions")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd")
    schedule: Literal["constant", "cosine"] = Field(
        "cosine", description="constant, or linear warm-up and cosine decay to min_lr"
    )
    min_lr: NotNegative = Field(0.0, description="learning rate at the end of the cosine schedule")
    warmup_epochs: NotNegative = Field(0.0, le=1e6, description="warm-up epochs of the cosine schedule")
    grad_clip_norm: NotNegative = Field(0.0, description="max gradient norm; 0 is no clipping")

    def _problems(self) -> Iterator[str]:
        if self.min_lr > self.lr:
            yield f"min_lr: {self.min_lr} is not allowed: up to lr, {self.lr}"


class TrainConfig(Section):
    """The length of the training, the batch size and the arithmetic."""

    epochs: Count = Field(30, description="number of epochs")
    batch_size: Count = Field(64, description="images per step")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing of the training loss")
    precision: Literal["float32", "bfloat16", "float64"] = Field(
        "float32", description="floating-point precision; bfloat16 is autocast with float32 weights"
    )
    compile: Literal["none", "default"] = Field(
        "none", description="torch.compile mode; on a GPU with CUDA graphs. Changes floating-point rounding only"
    )


class EvalConfig(Section):
    """What a run measures besides loss and accuracy. Nothing here changes the training."""

    fewshot: Names = Field(
        (),
        description="datasets for the few-shot linear evaluation of frozen features, such as mnist,fashion-mnist; "
        "other-classes: those that data.classes leaves out",
    )
    shots: Numbers = Field((1, 5, 10, 25), description="training images of each class in a few-shot evaluation")
    epochs: Numbers = Field(
        (),
        description="numbers of epochs after which the test metrics are measured as well, such as 5,10,20; needs a "
        "constant learning rate",
    )
    img_sizes: Numbers = Field(
        (), description="image sizes in pixels at which the trained model is evaluated as well, such as 14,28,42"
    )
    interpolated: bool = Field(
        False, description="at eval.img_sizes, evaluate rotary embeddings with interpolated positions as well"
    )
    max_shift: int = Field(
        0, ge=0, description="pixels by which test images are shifted to compare predictions; 0 is off"
    )
    permuted: bool = Field(False, description="measure the accuracy on test images with permuted patches as well")
