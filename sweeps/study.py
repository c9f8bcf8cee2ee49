"""A study as data: factors, levels, baseline and seeds, checked; and how to read one from YAML. It imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator, model_validator

from experiments.errors import UserError, first_line, format_level
from experiments.metric import Metric
from experiments.runs.reused import find_source
from experiments.stated import (
    Family,
    Levels,
    Looks,
    MetricName,
    Name,
    Seeds,
    Variance,
    all_levels,
    check_are_factors,
    check_number,
    read_margin,
    seed_list,
)
from experiments.yaml_file import read_mapping
from vit import plugins
from vit.registry import REGISTRY

KIND = "model.pos_embed"


class Study(BaseModel, frozen=True, extra="forbid"):
    """An ablation: every combination of the factors' levels, and the `extra` variants, each with every seed.

    A factor is a dotted path of `RunConfig`. Paths joined by "+" change together; a level of such a factor is a list
    with one value per path. `sweeps.plan` checks the levels against a base configuration.
    """

    name: Name = Field(description="also the name of its folder")
    description: str = ""
    plugins: list[str] = Field([], description="files with classes and datasets of your own, relative to the study's")
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    extra: list[Annotated[Levels, Field(min_length=1)]] = Field(
        [], description="variants beyond the product; a factor that is left out is as in base"
    )
    base: str | dict[str, Any] = Field(
        {}, description="name of a preset; or dotted settings, with an optional `preset` or `study`, a built-in one"
    )
    baseline: Any = Field(None, description="a label, a level or levels; default: the first variant")
    seeds: Seeds = Field(5, description="n for 0..n-1, or a list")
    metric: MetricName = "test/acc"
    margin: float = Field(0.01, description="margin of the equivalence tests")
    looks: Looks = Field([], description="numbers of seeds at which the study is tested; the last is the maximum")
    variance: Variance = Field(
        "shared",
        description="standard errors of differences: shared (the variant's own and the average of all), or paired",
    )
    family: Family = Field(
        "all", description="the pairs that are tested: all, or baseline: those with the baseline only, which shows more"
    )
    tuned: str | None = Field(
        None, description="the settings of each variant: a tuned.yaml of `vit-sweep tune`, relative to the study's file"
    )
    reuse: list[str] = Field(
        [], description="exports whose runs are taken as they are: paths, or names in analysis/reference"
    )
    names: dict[str, str] = Field({}, description="factor -> its name in labels")
    labels: dict[str, str] = Field({}, description="variant -> its name in tables and figures; may change at any time")

    @field_validator("name", mode="before")
    @classmethod
    def _check_quotes(cls, name: Any) -> Any:
        if isinstance(name, bool):
            raise ValueError(f"{name} is not allowed: YAML reads yes, no, on and off as true and false; use quotes")
        return name

    @field_validator("factors", "names", "base", "baseline", "extra", mode="after")
    @classmethod
    def _normalize_paths(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [cls._normalize_paths(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        renamed = {str(path).replace("-", "_"): item for path, item in value.items()}
        if len(renamed) < len(value):
            raise ValueError(f"{', '.join(map(str, value))}: two of these are the same setting")
        return renamed

    @field_validator("factors", mode="before")
    @classmethod
    def _list_all_kinds(cls, factors: Any) -> Any:
        """`all` in place of the levels of model.pos_embed is every kind that is known, also from plug-ins."""
        if not isinstance(factors, Mapping):
            return factors
        return {p: list(REGISTRY) if v == "all" and str(p).replace("-", "_") == KIND else v for p, v in factors.items()}

    @field_validator("margin", mode="before")
    @classmethod
    def _read_margin(cls, margin: Any, info: ValidationInfo) -> float:
        """A number, or a text with a unit of accuracies: `1 point`, `0.5 points` or `0.5 %`."""
        return read_margin(margin, Metric(info.data.get("metric", "test/acc")).is_share)

    @model_validator(mode="after")
    def _check_factors(self) -> Study:
        check_number(self.factors, self.extra, self.seeds)
        paths = [path for factor in self.factors for path in factor.split("+")]
        for path in paths:
            if not path or paths.count(path) > 1:
                raise ValueError(f"factors: {path!r} {'occurs twice' if path else 'is not a setting'}")
        if "seed" in paths:
            raise ValueError("factors: seed cannot be a factor; list the seeds in `seeds`")
        if len(set(self.names.values())) < len(self.names):
            raise ValueError(f"names: {', '.join(self.names.values())}: two factors have the same name")
        if len(set(self.labels.values())) < len(self.labels):
            raise ValueError(f"labels: {', '.join(self.labels.values())}: two variants have the same name")
        baseline = self.baseline if isinstance(self.baseline, Mapping) else {}
        check_are_factors(self.factors, self.extra, names=self.names, baseline=baseline)
        for levels in (baseline, *self.extra):
            for factor, level in levels.items():
                _check_level(factor, level)
        for factor, own in self.factors.items():
            for level in own:
                _check_level(factor, level)
        return self

    @property
    def seed_list(self) -> list[int]:
        """Every seed, in order."""
        return seed_list(self.seeds)

    def variants(self) -> Iterator[Levels]:
        """The levels of every variant: the product, with the last factor changing fastest, then the extra variants."""
        return all_levels(self.factors, self.extra)

    def label(self, levels: Levels) -> str:
        """The name of a variant in tables: its level for one factor, else such as `patch_size=2, embed_dim=32`."""
        if len(self.factors) == 1 and not self.names:
            return ", ".join(map(format_level, split_linked(levels).values()))
        return ", ".join(self._label_of(factor, level) for factor, level in levels.items())

    def _label_of(self, factor: str, level: Any) -> str:
        values = {path: format_level(value) for path, value in split_linked({factor: level}).items()}
        if factor in self.names:
            different = values.values() if len(set(values.values())) > 1 else list(values.values())[:1]
            return f"{self.names[factor]}={'/'.join(different)}"
        return ", ".join(f"{self._short(path)}={value}" for path, value in values.items())

    def _short(self, path: str) -> str:
        """The last part of a path, or the whole path if another factor has the same last part."""
        last = path.rpartition(".")[2]
        ends = [other.rpartition(".")[2] for factor in self.factors for other in factor.split("+")]
        return path if ends.count(last) > 1 else last


def split_linked(levels: Levels) -> Levels:
    """Levels with linked factors split: single path -> value.

    Raises `ValueError` where the numbers of values differ.
    """
    flat: Levels = {}
    for factor, level in levels.items():
        paths = factor.split("+")
        flat.update(zip(paths, level, strict=True) if len(paths) > 1 else [(factor, level)])
    return flat


def _check_level(factor: str, level: Any) -> None:
    count = len(factor.split("+"))
    if count > 1 and not (isinstance(level, list) and len(level) == count):
        raise ValueError(f"factors: {factor}: {level!r} is not allowed: expected a list of {count} values")
    for value in level if count > 1 else [level]:
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"factors: {factor}: {value!r} is not allowed: expected a single value")


def parse_study(tree: Mapping[str, Any], source: str) -> Study:
    """A study from a plain mapping. Raises `UserError` naming the source, the field, the value and what is allowed."""
    try:
        return Study.model_validate(tree)
    except ValidationError as error:
        raise UserError(f"{source}: {first_line(error, known=Study.model_fields)}") from error


def read_study_file(path: Path) -> Study:
    """Read a study from a YAML file: a mapping with the fields of `Study`. Its plug-ins are imported first: `all` is
    also their kinds.

    Raises `UserError` or `PluginError` naming file and reason.
    """
    tree = read_mapping(path, "`name` and `factors`")
    files = tree.get("plugins")
    if isinstance(files, list) and all(isinstance(file, str) for file in files):
        tree["plugins"] = [str((path.parent / Path(file).expanduser()).resolve()) for file in files]
        plugins.add(tree["plugins"], f"{path}: plugins")
    if isinstance(tree.get("tuned"), str):
        tree["tuned"] = str((path.parent / Path(tree["tuned"]).expanduser()).resolve())
    if isinstance(given := tree.get("reuse"), list) and all(isinstance(folder, str) for folder in given):
        tree["reuse"] = [find_source(folder, path.parent) for folder in given]
    return parse_study(tree, str(path))
