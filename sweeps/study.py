"""A study as data: factors, levels, baseline and seeds, checked; and how to read one from YAML. It imports no torch."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError, ValidationInfo, field_validator, model_validator

from experiments.errors import UserError, first_line, format_level
from experiments.files import read_bytes
from experiments.metric import MAX_MARGIN, Metric
from experiments.study import Family, Looks, MetricName, Variance
from vit import plugins
from vit.registry import REGISTRY, nearest

Levels = dict[str, Any]  # factor -> level, or setting -> value
KIND = "model.pos_embed"
MAX_SEED = 2**31 - 1
MAX_RUNS = 100_000  # of a study: each is planned before the first starts
MAX_BYTES = 2**26  # of a file; the tuned.yaml of thousands of trials has fewer


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        raise ValueError(
            f"{name!r} is not allowed: "
            "expected at most 80 of a-z, A-Z, 0-9, '.', '_' and '-', the first of a-z, A-Z, 0-9"
        )
    return name


class Study(BaseModel, frozen=True, extra="forbid"):
    """An ablation: every combination of the factors' levels, and the `extra` variants, each with every seed.

    A factor is a dotted path of `RunConfig`. Paths joined by "+" change together; a level of such a factor is a list
    with one value per path. `sweeps.plan` checks the levels against a base configuration.
    """

    name: Annotated[str, AfterValidator(_check_name)] = Field(description="also the name of its folder")
    description: str = ""
    plugins: list[str] = Field([], description="files with classes and datasets of your own, relative to the study's")
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    extra: list[Annotated[Levels, Field(min_length=1)]] = Field(
        [], description="variants beyond the product; a factor that is left out is as in base"
    )
    base: str | dict[str, Any] = Field(
        {}, description="name of a preset; or dotted settings, with an optional `preset`"
    )
    baseline: Any = Field(None, description="a label, a level or levels; default: the first variant")
    seeds: int | list[int] = Field(5, description="n for 0..n-1, or a list")
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
    names: dict[str, str] = Field({}, description="factor -> its name in labels")
    labels: dict[str, str] = Field({}, description="variant -> its name in tables and figures; may change at any time")

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

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, seeds: Any) -> Any:
        listed, lowest = (seeds, 0) if isinstance(seeds, list) else ([seeds], 1)
        allowed = all(type(seed) is int and lowest <= seed <= MAX_SEED for seed in listed)
        if not listed or not allowed or len(set(listed)) < len(listed):
            expected = f"a number of seeds from 1, or a list of different seeds from 0 to {MAX_SEED}"
            raise ValueError(f"{repr(seeds)[:80]} is not allowed: expected {expected}")
        return seeds

    @field_validator("margin", mode="before")
    @classmethod
    def _read_margin(cls, margin: Any, info: ValidationInfo) -> float:
        """A number, or a text with a unit of accuracies: `1 point`, `0.5 points` or `0.5 %`."""
        is_share = Metric(info.data.get("metric", "test/acc")).is_share
        text = str(margin).strip()
        number = re.sub(r"\s*(points?|%)$", "", text) if is_share else text
        try:
            value = float(number) / (100 if number != text else 1)
        except ValueError:
            value = math.nan
        if not 0 < value < (MAX_MARGIN if is_share else math.inf):
            unit = f" and less than {MAX_MARGIN:g}; accuracies are fractions, so 1 point is 0.01 or '1 point'"
            raise ValueError(f"{margin!r} is not allowed: expected a number above 0{unit if is_share else ''}")
        return value

    @model_validator(mode="after")
    def _check_factors(self) -> Study:
        variants = math.prod(map(len, self.factors.values())) + len(self.extra)
        runs = variants * (self.seeds if isinstance(self.seeds, int) else len(self.seeds))
        if runs > MAX_RUNS:
            raise ValueError(f"factors, seeds: {variants:,} variant(s) are {runs:,} runs; allowed: up to {MAX_RUNS:,}")
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
        partial = [("names", self.names), ("baseline", baseline), *(("extra", levels) for levels in self.extra)]
        for field, given in partial:
            for factor in given:
                if factor not in self.factors:
                    raise ValueError(f"{field}: {factor} is not a factor; {nearest(factor, list(self.factors))}")
        for levels in (baseline, *self.extra):
            for factor, level in levels.items():
                _check_level(factor, level)
        for factor, all_levels in self.factors.items():
            for level in all_levels:
                _check_level(factor, level)
        return self

    @property
    def seed_list(self) -> list[int]:
        """Every seed, in order."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def variants(self) -> Iterator[Levels]:
        """The levels of every variant: the product, with the last factor changing fastest, then the extra variants."""
        for levels in itertools.product(*self.factors.values()):
            yield dict(zip(self.factors, levels, strict=True))
        yield from self.extra

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


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, except that three things are errors: an alias, a repeated key (PyYAML keeps the last one),
    and a number that is not decimal (PyYAML reads 010 as 8 and 1:30 as 90).
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(None, None, "an alias (*) is not allowed", self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: list[Any] = []
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"{key.value!r} occurs twice", key.start_mark)
            seen.append(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        is_number = isinstance(node, yaml.ScalarNode) and node.tag.endswith((":int", ":float"))
        if is_number and re.match(r"[-+]?0\w|.*:", node.value):
            what = f"{node.value} is not allowed: a number has neither a leading zero nor a colon; a text needs quotes"
            raise yaml.MarkedYAMLError(None, None, what, node.start_mark)
        return super().construct_object(node, deep)


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
    return parse_study(tree, str(path))


def read_mapping(path: Path, fields: str) -> dict[str, Any]:
    """Read a YAML file that holds a mapping with these `fields`. Raises `UserError` naming file and reason."""
    tree = parse_yaml(read_bytes(path, most=MAX_BYTES), str(path))
    if not isinstance(tree, dict):
        kind = "nothing" if tree is None else type(tree).__name__
        raise UserError(f"{path}: expected a mapping with {fields}, got {kind}")
    return tree


def parse_yaml(body: bytes, source: str) -> Any:
    """The value that YAML describes. Raises `UserError` naming the source, the line and the reason."""
    try:
        return yaml.load(body.decode(), _Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UserError(f"{source}: is not valid YAML: {line}{error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a date such as 2024-99-99
        raise UserError(f"{source}: is not valid YAML: {error}") from error
