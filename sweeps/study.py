"""What a study is: factors, levels, baseline and seeds, as data. Nothing is trained or written here, and no torch."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from experiments.errors import UserError
from experiments.runs.record import METRIC_NAMES
from vit.registry import nearest

Metric = Literal[*METRIC_NAMES]
Cell = dict[str, Any]  # factor -> level


class Study(BaseModel):
    """An ablation: every combination of its factors' levels, and the `extra` cells, each over all seeds.

    A factor is a dotted path of `RunConfig`. Paths joined by "+" move together, and then a level is a list with a
    value for each. Levels are checked against a base configuration by `sweeps.plan`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$", description="also its folder's name")
    description: str = ""
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    extra: list[Cell] = Field([], description="cells beyond the product; a factor that one leaves out stays as in base")
    base: str | dict[str, Any] = Field({}, description="a preset's name, or dotted settings and perhaps `preset`")
    baseline: Any = Field(None, description="what others are compared with: a label, level or cell; default: the first")
    seeds: int | list[int] = Field(5, description="n for 0..n-1, or a list")
    metric: Metric = "test/acc"
    margin: float = Field(0.01, gt=0, allow_inf_nan=False, description="a difference this small does not matter")
    names: dict[str, str] = Field({}, description="factor -> what labels call it")

    @field_validator("factors", "names", mode="after")
    @classmethod
    def _paths(cls, factors: dict[str, Any]) -> dict[str, Any]:
        renamed = {path.replace("-", "_"): levels for path, levels in factors.items()}
        if len(renamed) < len(factors):
            raise ValueError(f"{', '.join(factors)}: two of these are one and the same")
        return renamed

    @field_validator("extra", mode="after")
    @classmethod
    def _cell_paths(cls, cells: list[Cell]) -> list[Cell]:
        return [cls._paths(cell) for cell in cells]

    @field_validator("seeds", mode="before")
    @classmethod
    def _some_seeds(cls, seeds: Any) -> Any:
        listed = seeds if isinstance(seeds, list) else [seeds]
        lowest = 0 if isinstance(seeds, list) else 1
        whole = all(isinstance(seed, int) and not isinstance(seed, bool) for seed in listed)
        if not listed or not whole or min(listed) < lowest or len(set(listed)) < len(listed):
            raise ValueError(f"{seeds!r} is not allowed: a number from 1 up, or a list of different seeds from 0 up")
        return seeds

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        paths = [path for factor in self.factors for path in factor.split("+")]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"factors: {path} occurs twice")
        if "seed" in paths:
            raise ValueError("factors: seed is no factor; say which seeds in `seeds`")
        for cell in self.extra:
            if not cell:
                raise ValueError("extra: an empty cell; give it a level of at least one factor")
        for where, given in [("extra", cell) for cell in self.extra] + [("names", self.names)]:
            for factor in given:
                if factor not in self.factors:
                    raise ValueError(f"{where}: {factor} is no factor; {nearest(factor, list(self.factors))}")
        for cell in self.cells():
            for factor, level in cell.items():
                _check_level(factor, level)
        return self

    @property
    def seed_list(self) -> list[int]:
        """Every seed, in order."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def cells(self) -> Iterator[Cell]:
        """Every cell as it was written: the product, the last factor moving fastest, then the extra ones."""
        for levels in itertools.product(*self.factors.values()):
            yield dict(zip(self.factors, levels, strict=True))
        yield from self.extra

    def label(self, cell: Cell) -> str:
        """What a table calls a cell: its level where there is one factor, else `patch_size=2, embed_dim=32`."""
        if len(self.factors) == 1 and not self.names:
            (level,) = cell.values()
            return ", ".join(map(text, level)) if isinstance(level, list) else text(level)
        return ", ".join(self._part(factor, level) for factor, level in cell.items())

    def _part(self, factor: str, level: Any) -> str:
        if factor in self.names:
            values = [text(value) for value in level] if isinstance(level, list) else [text(level)]
            return f"{self.names[factor]}={values[0] if len(set(values)) == 1 else '/'.join(values)}"
        return ", ".join(f"{self._short(path)}={text(value)}" for path, value in expand({factor: level}).items())

    def _short(self, path: str) -> str:
        """The last part of a path, or all of it where another factor ends alike."""
        last = path.rpartition(".")[2]
        ends = [other.rpartition(".")[2] for factor in self.factors for other in factor.split("+")]
        return path if ends.count(last) > 1 else last


def expand(cell: Cell) -> Cell:
    """A cell with linked factors split up: single path -> value."""
    flat: Cell = {}
    for factor, level in cell.items():
        paths = factor.split("+")
        flat.update(zip(paths, level, strict=True) if len(paths) > 1 else [(factor, level)])
    return flat


def text(value: Any) -> str:
    """A level as labels and messages show it; numbers that are equal look equal."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return value if isinstance(value, str) else json.dumps(value, default=str)  # a date is of YAML, not of JSON


def _check_level(factor: str, level: Any) -> None:
    paths = factor.split("+")
    if len(paths) > 1 and not (isinstance(level, list) and len(level) == len(paths)):
        raise ValueError(f"factors: {factor}: {level!r} is not allowed: a level here is a list of {len(paths)} values")
    for value in level if len(paths) > 1 else [level]:
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"factors: {factor}: {value!r} is not allowed: a level is a single value")


def make(tree: Mapping[str, Any], source: str) -> Study:
    """A study from its plain form. Raises `UserError` naming the source, the field, the value and what is allowed."""
    try:
        return Study.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("str", "int", "dict[str,any]", "list[int]"))
        if first["type"] == "value_error":
            message = f"{where}: {first['ctx']['error']}" if where else str(first["ctx"]["error"])
        elif first["type"] == "missing":
            message = f"{where}: is needed"
        elif first["type"] == "extra_forbidden":
            message = f"{where}: no such key; {nearest(where, list(Study.model_fields))}"
        else:
            message = f"{where}: {first['input']!r} is not allowed: {first['msg']}"
        raise UserError(f"{source}: {message}") from error
