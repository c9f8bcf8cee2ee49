"""What is compared, of a table or a study: the part of a study that a report needs, and its runs. No torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, StrictInt, ValidationError, field_validator, model_validator

from experiments.config import RunConfig, changed_settings, run_id
from experiments.errors import first_line
from experiments.files import RecordError
from experiments.metric import EXPECTED, Metric, is_metric
from experiments.stated import Family, Levels, Looks, Margin, Variance
from experiments.tuned import Tuned

SCHEMA = 2  # of study.json
KIND = "model.pos_embed"
MAX_SLUG = 60  # characters of a variant's label in the name of a folder


class RunSpec(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """One run of a study: its name, which is also that of its folder, its variant, the variant's levels, its seed.

    `levels` are by dotted path. A run of a sweep has its configuration, too.
    """

    name: str = Field(alias="run")
    run_id: str
    variant: str
    levels: Levels = {}
    seed: StrictInt
    _config: RunConfig | None = PrivateAttr(None)

    @classmethod
    def of(cls, name: str, config: RunConfig, variant: str = "", levels: Mapping[str, Any] | None = None) -> RunSpec:
        """The run of a configuration. In the name, `{}` is the place of the first 8 digits of the run id."""
        digits = run_id(config)
        name = name.replace("{}", digits[:8])
        spec = cls(name=name, run_id=digits, variant=variant, levels=dict(levels or {}), seed=config.seed)
        return spec.configured(config)

    def configured(self, config: RunConfig) -> RunSpec:
        """The run with this configuration."""
        run = self.model_copy()
        run._config = config
        return run

    @property
    def config(self) -> RunConfig:
        """The configuration of a run of a sweep."""
        assert self._config is not None, f"{self.name} is of a study that was read for a report"
        return self._config


def runs_of(variants: Iterable[RunSpec], seeds: Iterable[int]) -> list[RunSpec]:
    """The runs of these variants, each given by one run, with these seeds: ordered by seed, so that early results are
    paired. The name of a run's folder shows the variant, the seed and the run id.
    """
    runs, variants = [], list(variants)
    for seed in seeds:
        for run in variants:
            slug = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", run.variant.replace(", ", ","))[:MAX_SLUG].strip(".-,")
            config = run.config.model_copy(update={"seed": seed})  # validated: the variant by its run, the seed before
            runs.append(RunSpec.of(f"{slug or 'variant'}-s{seed}-{{}}", config, run.variant, run.levels))
    return runs


class Compared(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """What a report compares: the runs of a table, or of a study.

    `base`: the nested settings that every run starts from. `lower_is_better`: of a metric that is a column of a table.
    `source`: where the table is; "" for a study. `notes`: what a reader must know of it.
    """

    stated: ClassVar[tuple[str, ...]] = ()  # fields of a file that a user writes; an error names those that are near
    format: Literal[2] = Field(2, alias="schema")
    name: str
    description: str = ""
    factors: dict[str, list[Any]]
    extra: list[Levels] = []
    base: dict[str, Any] = {}
    baseline: str
    metric: str
    lower_is_better: bool | None = None
    margin: Margin | None
    looks: Looks = []
    variance: Variance = "shared"
    family: Family = "all"
    names: dict[str, str] = {}
    labels: dict[str, str] = {}
    tuning: Tuned | None = None
    command: str | None = None
    source: str = ""
    notes: list[str] = []
    runs: list[RunSpec] = []

    @field_validator("runs")
    @classmethod
    def _check_runs(cls, runs: list[RunSpec]) -> list[RunSpec]:
        """No two runs may be counted as one."""
        known: dict[Any, str] = {}
        for run in runs:
            check_names(run.levels)
            for key, what in ((run.name, "is listed twice"), ((run.variant, run.seed), "has the variant and seed of")):
                if key in known:
                    raise ValueError(f"{run.name} {what}{f' {known[key]}' if key != run.name else ''}")
                known[key] = run.name
        return runs

    @model_validator(mode="after")
    def _check_compared(self) -> Self:
        if self.runs and self.baseline not in self.variants:
            raise ValueError(f"baseline: no run has the variant {self.baseline!r}")
        if self.tuning and (untuned := [label for label in self.variants if label not in self.tuning.variants]):
            raise ValueError(f"tuning.variants: has no settings for {untuned[0]!r}")
        if self.lower_is_better is None and not is_metric(self.metric):
            raise ValueError(f"metric: {self.metric!r} is not allowed: {EXPECTED}")
        return self

    @classmethod
    def parse(cls, tree: Any, source: str) -> Self:
        """What is compared, from its plain form. Raises `RecordError` naming source and field."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise RecordError(f"{source}: {first_line(error, known=cls.stated)}") from error

    def changed(self, **fields: Any) -> Self:
        """The same with other fields, which the caller has checked."""
        return self.model_copy(update=fields)

    def tree(self) -> dict[str, Any]:
        """The plain form: the fields that were given."""
        tree = {"schema": SCHEMA, **self.model_dump(by_alias=True, exclude_unset=True)}
        return {**tree, "tuning": self.tuning.tree()} if self.tuning else tree

    @property
    def compared_by(self) -> Metric:
        """The metric, which knows what is better."""
        return Metric(self.metric, {True: "lower", False: "higher", None: ""}[self.lower_is_better])

    @property
    def tuned_settings(self) -> tuple[str, ...]:
        """The settings that were tuned for each variant; empty for a study that was not tuned."""
        return tuple(self.tuning.space) if self.tuning else ()

    def settings(self, run: RunSpec) -> dict[str, Any]:
        """The settings of a run without its seed, by dotted path: those that differ from the defaults, its levels, and
        those that were tuned for its variant.
        """
        tuned = self.tuning.variants[run.variant].settings if self.tuning else {}
        return {**changed_settings(self.base), **run.levels, **tuned}

    @property
    def one_change(self) -> bool:
        """Whether all variants but one come from `extra`: names then say only what differs from that one."""
        return bool(self.extra) and all(len(levels) == 1 for levels in self.factors.values())

    @property
    def has_grid(self) -> bool:
        """Whether the variants are every combination of two levels or more of two factors or more."""
        paths, levels = [factor.split("+") for factor in self.factors], [run.levels for run in self.variants.values()]
        rows = {tuple(str([of.get(path) for path in linked]) for linked in paths) for of in levels}
        numbers = [len(set(column)) for column in zip(*rows, strict=True)]
        return len(numbers) > 1 and min(numbers) > 1 and len(rows) == math.prod(numbers)

    @property
    def variants(self) -> dict[str, RunSpec]:
        """Variant -> its first run, in the order of the runs."""
        first: dict[str, RunSpec] = {}
        for run in self.runs:
            first.setdefault(run.variant, run)
        return first


def check_names(settings: Mapping[str, Any]) -> None:
    """The two names by which reports look settings up are text. Other values may be of earlier versions."""
    for path in ("data.name", KIND):
        if not isinstance(settings.get(path, ""), str):
            raise ValueError(f"{path}: {str(settings[path])[:60]!r} is not a name")
